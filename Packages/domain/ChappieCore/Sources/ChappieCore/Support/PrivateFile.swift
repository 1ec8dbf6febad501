#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Writes files that only this user can read.
@_spi(ChappieInternals) public enum PrivateFile {
    /// Replaces the file at `path` in one step, and makes the folders above it.
    ///
    /// The new content is first written to a draft beside the file. The draft's name is random, because process ids
    /// repeat: the next container with the same home has the same one. Drafts that a crash has left are removed after a
    /// minute.
    ///
    /// - Parameter isDurable: Whether the file is on the disk when this returns. Default `true`.
    /// - Returns: Whether that worked. If not, `errno` has the reason, and the earlier file is unchanged.
    public static func replace(_ path: String, with bytes: [UInt8], isDurable: Bool = true) -> Bool {
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
    public static func create(_ path: String, with bytes: [UInt8], isDurable: Bool = true) -> Bool {
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
        // The name must be durable as well: an export may be the only copy from now on.
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
            guard lstat(draft, &facts) == 0 else { continue }
            #if canImport(Darwin)
                let modified = facts.st_mtimespec.tv_sec
            #else
                let modified = facts.st_mtim.tv_sec
            #endif
            guard modified < time(nil) - 60 else { continue }
            unlink(draft)
        }
    }

    /// The folder with its final slash; `./` for a bare name.
    private static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[...$0]) } ?? "./"
    }
}
