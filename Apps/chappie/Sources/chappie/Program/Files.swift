@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials
import Glibc

/// Writes files that only this user can read.
enum PrivateFile {
    /// Replaces the file at `path` in one step, and makes the folders above it.
    ///
    /// The new content is written to a draft beside it first. Its name is random, because process ids repeat: the next
    /// container on the same home has the same one. Drafts that a crash has left are removed after a minute.
    ///
    /// - Parameter isDurable: whether the file is on the disk when this returns. Default `true`.
    /// - Returns: whether that worked; `errno` says why not, and the earlier file is then unchanged.
    static func replace(_ path: String, with bytes: [UInt8], isDurable: Bool = true) -> Bool {
        let folder = folder(of: path)
        try? FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        removeStaleDrafts(of: path, in: folder)
        let draft = "\(path).\(String(UInt64.random(in: .min ... .max), radix: 36))"
        guard create(draft, with: bytes, isDurable: isDurable) else { return false }
        guard rename(draft, path) == 0 else {
            let reason = errno
            unlink(draft)
            errno = reason
            return false
        }
        return true
    }

    /// Makes a new file at `path`, which must not exist.
    static func create(_ path: String, with bytes: [UInt8], isDurable: Bool = true) -> Bool {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return false }
        var failure = bytes.withUnsafeBytes { writeAll($0, to: descriptor) }
        if failure == 0, isDurable, fsync(descriptor) != 0 { failure = errno }
        close(descriptor)
        guard failure == 0 else {
            unlink(path)
            errno = failure
            return false
        }
        guard isDurable else { return true }
        // The name as well: an export may be the only copy from now on.
        let folder = open(folder(of: path), O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { return true }
        fsync(folder)
        close(folder)
        return true
    }

    private static func removeStaleDrafts(of path: String, in folder: String) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for draft in names.map({ folder + $0 }) where draft.hasPrefix(path + ".") {
            var facts = stat()
            guard lstat(draft, &facts) == 0, facts.st_mtim.tv_sec < time(nil) - 60 else { continue }
            unlink(draft)
        }
    }

    /// With its slash; `./` for a bare name.
    private static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[...$0]) } ?? "./"
    }
}

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
