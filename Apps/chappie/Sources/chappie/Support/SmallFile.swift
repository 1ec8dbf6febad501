import Glibc

/// Reads a whole file that the person named.
enum SmallFile {
    static let limit = 16 << 20

    /// - Throws: ``CommandLineError`` that names the file and what is wrong with it.
    static func read(_ path: String) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
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

    private static func failure(_ path: String) -> CommandLineError {
        .usage("\(path) can't be read: \(String(cString: strerror(errno))).", suggestion: "Check the path.")
    }
}
