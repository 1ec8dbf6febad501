/// An input as the fuzzer gives it: its first byte says how the rest is cut into chunks.
///
/// A decoder must give the same for every chunking, so each input is read whole and read cut.
struct Chunks {
    let whole: [UInt8]
    let size: Int

    init(_ input: UnsafeBufferPointer<UInt8>) {
        size = Int(input.first ?? 0) % 17 + 1
        whole = Array(input.dropFirst())
    }

    var cut: [[UInt8]] { cut(whole) }

    func cut<Element>(_ elements: [Element]) -> [[Element]] {
        stride(from: 0, to: elements.count, by: size).map { Array(elements[$0..<min($0 + size, elements.count)]) }
    }
}
