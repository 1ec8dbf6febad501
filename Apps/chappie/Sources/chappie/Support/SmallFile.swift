import Glibc

/// Reads a whole file that the person named.
enum SmallFile {
    static let limit = 16 << 20

    /// - Throws: ``CommandLineError`` that names the file and what is wrong with it.
    static func read(_ path: String) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        return try read(descriptor, path)
    }

    /// Reads a file that others can't have read, nor put there: a plain file of this person's own, for nobody else. What
    /// is judged is what is read, since a name may lead somewhere else a moment later.
    ///
    /// - Throws: ``CommandLineError`` that names the file and what is wrong with it.
    static func readPrivate(_ path: String) throws -> [UInt8] {
        // Without blocking: nobody may ever write into a pipe.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw errno == ELOOP ? notPrivate(path) : failure(path) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw failure(path) }
        guard facts.st_mode & S_IFMT == S_IFREG, facts.st_uid == geteuid(), facts.st_mode & 0o077 == 0 else {
            throw notPrivate(path)
        }
        return try read(descriptor, path)
    }

    private static func read(_ descriptor: CInt, _ path: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure(path)
            }
            bytes += chunk[..<count]
            guard bytes.count <= limit else { throw CommandLineError.usage("\(path) is over \(limit >> 20) MiB.") }
        }
    }

    private static func notPrivate(_ path: String) -> CommandLineError {
        .usage(
            "\(path) is not a plain file of yours that nobody else can read.",
            suggestion: "If you trust what is in it: chmod 600 \(path)")
    }

    private static func failure(_ path: String) -> CommandLineError {
        .usage("\(path) can't be read: \(String(cString: strerror(errno))).", suggestion: "Check the path.")
    }
}
