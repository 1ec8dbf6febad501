@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials
import Glibc

/// Reads a whole file that the user named.
enum SmallFile {
    /// In bytes.
    static let limit = 16 << 20

    /// - Parameter isPrivate: refuses a file that others can have read or put there: only a plain file will do that this user
    ///   owns and no other can open. The open file is judged, because its name may lead somewhere else a moment later.
    /// - Throws: ``CommandLineError`` that names the file and what is wrong with it.
    static func read(_ path: String, isPrivate: Bool = false) throws -> [UInt8] {
        let failure = { (reason: CInt) in
            CommandLineError.usage(
                "\(path) can't be read: \(String(cString: strerror(reason))).", suggestion: "Check the path.")
        }
        let notPrivate = CommandLineError.usage(
            "\(path) is not a plain file of yours that is closed to other users.",
            suggestion: "If you trust what is in it: chmod 600 \(path)")
        // Opening a pipe that nothing writes into would block.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | (isPrivate ? O_NOFOLLOW | O_NONBLOCK : 0))
        guard descriptor >= 0 else { throw isPrivate && errno == ELOOP ? notPrivate : failure(errno) }
        defer { close(descriptor) }
        if isPrivate {
            var facts = stat()
            guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, facts.st_uid == geteuid(),
                facts.st_mode & 0o077 == 0
            else { throw notPrivate }
        }
        var bytes: [UInt8] = []
        while let piece = readPiece(of: descriptor) {
            if piece.isEmpty { return bytes }
            bytes += piece
            guard bytes.count <= limit else { throw CommandLineError.usage("\(path) is over \(limit >> 20) MiB.") }
        }
        throw failure(errno)
    }
}

/// The next bytes, waiting for them over signals; empty at the end, and `nil` for a failure that `errno` names.
func readPiece(of descriptor: CInt, atMost limit: Int = 64 << 10) -> [UInt8]? {
    var piece = [UInt8](repeating: 0, count: limit)
    while true {
        let count = read(descriptor, &piece, piece.count)
        if count >= 0 { return Array(piece[..<count]) }
        if errno == EAGAIN {
            var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            poll(&poller, 1, -1)
        } else if errno != EINTR {
            return nil
        }
    }
}
