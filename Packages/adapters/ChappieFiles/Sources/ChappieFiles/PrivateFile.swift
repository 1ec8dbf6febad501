import ChappieCore
public import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A writer of files that only this user can read.
@_spi(ChappieInternals) public enum PrivateFile {
    /// Replaces the file at `path` in one step, and makes the folders above it. If this throws, the earlier file is
    /// unchanged.
    ///
    /// Root makes no file among those of another user. See ``PathOwner``.
    ///
    /// - Parameter isDurable: Whether the file is on the disk when this returns. The default is `true`.
    public static func replace(_ path: String, with bytes: [UInt8], isDurable: Bool = true) throws(Errno) {
        guard PathOwner.refusal(of: path) == nil else { throw .notPermitted }
        makeFolder(of: path)
        removeStaleDrafts(of: path)
        try FileDraft(of: path).replace(with: bytes, isDurable: isDurable)
    }

    /// Makes a new file at `path`, which must not exist. It is on the disk when this returns.
    public static func create(_ path: String, with bytes: [UInt8]) throws(Errno) {
        let file = try Descriptor(path, .writeOnly, [.create, .exclusiveCreate, .noFollow])
        do {
            try file.write(bytes)
            try file.synchronize()
        } catch {
            unlink(path)
            throw error
        }
        makeNameDurable(path)
    }

    /// Removes the file at `path`, if there is one, so that it does not come back after a power failure.
    public static func remove(_ path: String) {
        if unlink(path) == 0 { makeNameDurable(path) }
    }

    /// Makes the name of a file durable. This is necessary because an export may be the only copy from now on.
    public static func makeNameDurable(_ path: String) {
        try? Descriptor(folder(of: path), .readOnly, .directory).synchronize()
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

    /// Makes the missing folders above `path`, accessible only to this user.
    public static func makeFolder(of path: String) {
        try? FileManager.default.createDirectory(
            atPath: folder(of: path), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    /// Returns the folder with its final slash, or `./` for a bare name.
    private static func folder(of path: String) -> String {
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
    private let file: Descriptor
    private var isInPlace = false

    /// Makes an empty draft.
    ///
    /// - Parameter permissions: The file's permissions, from which the umask removes some. By default, only this user
    ///   has access.
    public init(of path: String, permissions: FilePermissions = .ownerReadWrite) throws(Errno) {
        self.path = path
        draft = "\(path).\(String(UInt64.random(in: .min ... .max), radix: 36))\(Self.ending)"
        file = try Descriptor(draft, .writeOnly, [.create, .exclusiveCreate, .noFollow], permissions: permissions)
    }

    deinit { if !isInPlace { unlink(draft) } }

    /// Gives the draft the permissions of the file that it will replace.
    public func setPermissions(_ permissions: FilePermissions) { fchmod(file.number, permissions.rawValue) }

    /// Writes the content and replaces the file with the draft. A file that is a mount point can't be replaced, so it
    /// is written in place. If this throws, the earlier file is unchanged unless it is a mount point.
    ///
    /// - Parameter isDurable: Whether the file is on the disk when this returns.
    public func replace(with bytes: [UInt8], isDurable: Bool) throws(Errno) {
        try file.write(bytes)
        if isDurable { try file.synchronize() }
        isInPlace = rename(draft, path) == 0
        if isInPlace {
            if isDurable { PrivateFile.makeNameDurable(path) }
            return
        }
        let reason = Errno.latest
        guard reason == .resourceBusy || reason == .improperLink else { throw reason }
        // The rest is cut off after the writing, so that the file needs no more space than before.
        let target = try Descriptor(path, .writeOnly, .noFollow)
        try target.write(bytes)
        guard ftruncate(target.number, off_t(bytes.count)) == 0 else { throw .latest }
        if isDurable { try target.synchronize() }
    }
}
