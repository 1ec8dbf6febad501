import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A writer of files that only this user can read.
@_spi(ChappieInternals) public enum PrivateFile {
    /// Replaces the file at `path` in one step, and makes the folders above it.
    ///
    /// Root makes no file among those of another user. See ``PathOwner``.
    ///
    /// - Parameter isDurable: Whether the file is on the disk when this returns. The default is `true`.
    /// - Returns: Whether this succeeded. If not, `errno` contains the reason, and the earlier file is unchanged.
    public static func replace(_ path: String, with bytes: [UInt8], isDurable: Bool = true) -> Bool {
        guard PathOwner.refusal(of: path) == nil else {
            errno = EPERM
            return false
        }
        makeFolder(of: path)
        removeStaleDrafts(of: path)
        guard let draft = FileDraft(of: path), draft.write(bytes, isDurable: isDurable) else { return false }
        return draft.replace()
    }

    /// Makes a new file at `path`, which must not exist. Returns whether this succeeded.
    public static func create(_ path: String, with bytes: [UInt8], isDurable: Bool = true) -> Bool {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return false }
        guard write(bytes, to: descriptor, isDurable: isDurable) else {
            let reason = errno
            unlink(path)
            errno = reason
            return false
        }
        if isDurable { makeNameDurable(path) }
        return true
    }

    /// Removes the file at `path`, if there is one, so that it does not come back after a power failure.
    public static func remove(_ path: String) {
        if unlink(path) == 0 { makeNameDurable(path) }
    }

    /// Makes the name of a file durable. This is necessary because an export may be the only copy from now on.
    fileprivate static func makeNameDurable(_ path: String) {
        let folder = open(folder(of: path), O_RDONLY | O_CLOEXEC)
        guard folder >= 0 else { return }
        fsync(folder)
        close(folder)
    }

    /// Removes the drafts that a crash has left, if they are more than a minute old.
    private static func removeStaleDrafts(of path: String) {
        let folder = folder(of: path)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for draft in names.map({ folder + $0 }) where draft.hasPrefix(path + ".") && draft.hasSuffix(FileDraft.ending) {
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

    /// Writes all bytes and closes the file. Returns whether this succeeded.
    fileprivate static func write(_ bytes: [UInt8], to descriptor: CInt, isDurable: Bool) -> Bool {
        var failure = bytes.withUnsafeBytes { writeAll($0, to: descriptor) }
        if failure == 0, isDurable, fsync(descriptor) != 0 { failure = errno }
        close(descriptor)
        errno = failure
        return failure == 0
    }

    /// Makes the missing folders above `path`, accessible only to this user.
    public static func makeFolder(of path: String) {
        try? FileManager.default.createDirectory(
            atPath: folder(of: path), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    /// Returns the folder with its final slash, or `./` for a bare name.
    fileprivate static func folder(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[...$0]) } ?? "./"
    }
}

/// New content for a file. It is stored next to the file until it replaces the file in one step.
///
/// The draft's name is random, because process ids repeat. The next container with the same home directory has the same
/// one. A draft that has not replaced its file is removed with this object.
@_spi(ChappieInternals) public final class FileDraft {
    fileprivate static let ending = ".draft"
    private let path: String
    private let draft: String
    private var content: [UInt8] = []
    private var isInPlace = false
    private var isDurable = false

    /// Makes an empty draft. Returns `nil` if this is not possible, with the reason in `errno`.
    ///
    /// - Parameter mode: The file's permissions, from which the umask removes some. By default, only this user has
    ///   access.
    public init?(of path: String, mode: UInt16 = 0o600) {
        self.path = path
        draft = "\(path).\(String(UInt64.random(in: .min ... .max), radix: 36))\(Self.ending)"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode_t(mode))
        guard descriptor >= 0 else {
            isInPlace = true
            return nil
        }
        close(descriptor)
    }

    deinit {
        guard !isInPlace else { return }
        let reason = errno
        unlink(draft)
        errno = reason
    }

    /// Gives the draft the permissions of the file that it will replace.
    public func setMode(_ mode: UInt16) { chmod(draft, mode_t(mode)) }

    /// Writes the content. If this returns `false`, `errno` contains the reason.
    ///
    /// - Parameter isDurable: Whether the content is on the disk when this returns.
    public func write(_ bytes: [UInt8], isDurable: Bool) -> Bool {
        let descriptor = open(draft, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        self.isDurable = isDurable
        content = bytes
        return descriptor >= 0 && PrivateFile.write(bytes, to: descriptor, isDurable: isDurable)
    }

    /// Replaces the file with the draft. A file that is a mount point can't be replaced, so it is written in place. If
    /// this returns `false`, `errno` contains the reason, and the earlier file is unchanged unless it is a mount point.
    public func replace() -> Bool {
        isInPlace = rename(draft, path) == 0
        guard isInPlace else { return (errno == EBUSY || errno == EXDEV) && writeInPlace() }
        if isDurable { PrivateFile.makeNameDurable(path) }
        return true
    }

    /// Overwrites the earlier content and then cuts off the rest, so that the file needs no more space than before.
    private func writeInPlace() -> Bool {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return false }
        return PrivateFile.write(content, to: descriptor, isDurable: isDurable) && truncate(path, content.count) == 0
    }
}
