import ChappieAuth

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads a passphrase from a file.
enum PassphraseReader {
    /// In bytes.
    static let limit = 4096

    private static let lane = BlockingLane(label: "chappie.passphrase", deadline: .seconds(10))

    /// - Parameters:
    ///   - mayBeMissing: Gives `nil` where there is no such file, instead of an error.
    ///   - check: Throws when the file is not safe to use.
    /// - Throws: `noPassphrase`, `timedOut` and what `check` throws.
    static func read(
        _ path: String, mayBeMissing: Bool = false,
        check: @escaping @Sendable (stat, String) throws(CredentialStoreError) -> Void
    ) async throws(CredentialStoreError) -> Secret? {
        try await lane.perform { _ throws(CredentialStoreError) in
            guard !path.utf8.contains(0) else { throw .noPassphrase("the path of its file has a NUL character") }
            let number = FileDescriptor.open(path, flags: O_RDONLY | O_NONBLOCK | O_NOCTTY)
            guard number >= 0 else {
                let fault = SystemFault()
                if mayBeMissing, fault.code == ENOENT { return nil }
                throw .noPassphrase("\(path) can't be opened: \(String(cString: strerror(fault.code)))")
            }
            let file = FileDescriptor(number, path: path)
            try check(file.status(), path)
            var bytes = try file.readAll(limit: limit)
            defer { Libcrypto.wipe(&bytes) }
            guard bytes.count <= limit else { throw .noPassphrase("\(path) holds more than \(limit) bytes") }
            let count = lineCount(of: bytes)
            guard count > 0 else { throw .noPassphrase("\(path) is empty") }
            return Secret(Array(bytes.prefix(count)))
        }
    }

    /// How many of the bytes count: not one line break at the end, which editors and `echo` leave there.
    static func lineCount(of bytes: [UInt8]) -> Int {
        guard bytes.last == UInt8(ascii: "\n") else { return bytes.count }
        return bytes.dropLast().last == UInt8(ascii: "\r") ? bytes.count - 2 : bytes.count - 1
    }
}
