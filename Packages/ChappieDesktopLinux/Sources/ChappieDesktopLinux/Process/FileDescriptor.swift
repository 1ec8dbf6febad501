#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// One open file, closed with the last reference to it.
final class FileDescriptor: Sendable {
    let number: Int32

    /// Takes over `number`; a negative one is the answer of a call that failed.
    init(_ number: Int32) { self.number = number }

    deinit { if isOpen { close(number) } }

    var isOpen: Bool { number >= 0 }

    /// Whether all of `bytes` were written.
    func writeAll(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = write(number, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }

    /// The file's first bytes, from its start, at most `limit` of them.
    func text(limit: Int) -> String {
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            count = max(pread(number, buffer.baseAddress, buffer.count, 0), 0)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
