#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Reads whole files of bounded size.
@_spi(ChappieInternals) public enum RegularFile {
    /// The reason why a file could not be read.
    public enum Failure: Error, Sendable, Hashable {
        /// The file does not exist.
        case missing
        /// The path leads to a folder.
        case directory
        /// The path leads to a pipe, a socket or a device, which may never end.
        case special
        /// The file has more bytes than the limit.
        case tooLarge
        /// The system's sentence.
        case system(String)
    }

    /// The bytes of the file at `path`. Blocks until the disk has answered.
    public static func contents(of path: String, limit: Int) throws(Failure) -> [UInt8] {
        guard !path.utf8.contains(0) else { throw .missing }
        // Opening a pipe without a writer would block.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw errno == ENOENT || errno == ENOTDIR ? .missing : failure() }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw failure() }
        guard facts.st_mode & S_IFMT != S_IFDIR else { throw .directory }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .special }
        guard facts.st_size <= limit else { throw .tooLarge }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(facts.st_size))
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        // The file may grow while it is read, and files in /proc report a size of 0.
        while true {
            let count = read(descriptor, &piece, piece.count)
            if count == 0 { return bytes }
            if count > 0 { bytes += piece[..<count] } else if errno != EINTR { throw failure() }
            guard bytes.count <= limit else { throw .tooLarge }
        }
    }

    private static func failure() -> Failure { .system(String(cString: strerror(errno))) }
}
