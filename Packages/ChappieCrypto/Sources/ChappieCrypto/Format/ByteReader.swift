/// Takes bytes apart from the front; gives `nil` where there are too few.
struct ByteReader {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: some Collection<UInt8>) { rest = ArraySlice(bytes) }

    mutating func bytes(_ count: Int) -> [UInt8]? {
        guard count >= 0, count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// An unsigned number of `count` bytes, 7 at most, the highest first.
    mutating func number(_ count: Int) -> Int? {
        bytes(count)?.reduce(0) { $0 << 8 | Int($1) }
    }
}

extension [UInt8] {
    /// Adds `number` in `count` bytes, the highest first.
    mutating func append(_ number: Int, count: Int) {
        for shift in (0..<count).reversed() { append(UInt8(truncatingIfNeeded: number >> (8 * shift))) }
    }
}
