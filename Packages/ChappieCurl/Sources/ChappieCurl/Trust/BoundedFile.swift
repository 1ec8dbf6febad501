#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads a file that a person named in a setting: it may be a directory, a pipe, or endless.
enum BoundedFile {
    /// Why it could not be read, in words.
    struct Problem: Error {
        let reason: String
    }

    static func read(_ path: String, limit: Int) throws(Problem) -> [UInt8] {
        // Without O_NONBLOCK, opening a named pipe waits for its writer.
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw Problem(reason: lastError()) }
        defer { close(descriptor) }
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { throw Problem(reason: lastError()) }
        guard info.st_mode & S_IFMT == S_IFREG else { throw Problem(reason: "it is not a file") }
        guard info.st_size <= limit else { throw Problem(reason: "it is over \(limit) bytes long") }

        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= limit {
            let count = chunk.withUnsafeMutableBytes { Self.read(descriptor, into: $0) }
            if count < 0 {
                if errno == EINTR { continue }
                throw Problem(reason: lastError())
            }
            if count == 0 { return bytes }
            bytes.append(contentsOf: chunk[..<count])
        }
        throw Problem(reason: "it is over \(limit) bytes long")
    }

    private static func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        #elseif canImport(Musl)
            Musl.read(descriptor, buffer.baseAddress, buffer.count)
        #else
            Darwin.read(descriptor, buffer.baseAddress, buffer.count)
        #endif
    }

    private static func lastError() -> String {
        switch errno {
        case ENOENT: "there is no such file"
        case EACCES: "it may not be read"
        case EISDIR: "it is a directory"
        case let code: String(cString: strerror(code)).lowercased()
        }
    }
}
