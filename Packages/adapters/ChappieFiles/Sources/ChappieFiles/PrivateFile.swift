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
        FileDraft.removeAbandoned(of: path)
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
/// one. A draft that has not replaced its file is removed with this object. The draft is locked in the meantime, so that
/// drafts of killed processes can be told apart.
@_spi(ChappieInternals) public final class FileDraft {
    private static let ending = ".draft"
    private static let digitCount = 16
    private let path: String
    private let draft: String
    private let file: Descriptor
    private var isInPlace = false

    /// Makes an empty draft.
    ///
    /// - Parameter permissions: The file's permissions, from which the umask removes some. By default, only this user
    ///   has access.
    public init(of path: String, permissions: FilePermissions = .ownerReadWrite) throws(Errno) {
        while true {
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            let padding = String(repeating: "0", count: Self.digitCount - digits.count)
            let draft = "\(path).\(padding)\(digits)\(Self.ending)"
            let file = try Descriptor(
                draft, .writeOnly, [.create, .exclusiveCreate, .noFollow], permissions: permissions)
            // Until the draft is locked, another process may take it for an abandoned one. Without locks on the file
            // system, no process does.
            let isLocked = (try? file.lockIfFree()) ?? true
            if isLocked, try file.status().st_nlink == 1 {
                self.path = path
                self.draft = draft
                self.file = file
                return
            }
            unlink(draft)
        }
    }

    /// Removes the drafts of a file that killed processes left.
    public static func removeAbandoned(of path: String) {
        let folder = PrivateFile.folder(of: path)
        removeAbandoned(in: folder) { folder + $0 == path || "./" + path == folder + $0 }
    }

    /// Removes the drafts that killed processes left in a folder.
    ///
    /// - Parameter isTarget: Returns whether the drafts of a file with this name are removed.
    public static func removeAbandoned(in folder: String, of isTarget: (String) -> Bool) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for name in names where name.hasSuffix(ending) {
            let stem = name.dropLast(ending.count)
            let digits = stem.suffix(digitCount)
            let target = stem.dropLast(digitCount)
            guard digits.count == digitCount, digits.allSatisfy({ $0.isHexDigit && !$0.isUppercase }),
                target.last == ".", isTarget(String(target.dropLast()))
            else { continue }
            let draft = "\(folder)/\(name)"
            guard let file = try? Descriptor(draft, .readOnly, [.noFollow, .nonBlocking]),
                let status = try? file.status(), status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
                (try? file.lockIfFree()) == true
            else { continue }
            unlink(draft)
        }
    }

    deinit { if !isInPlace { unlink(draft) } }

    /// Gives the draft the permissions of the file that it will replace.
    public func setPermissions(_ permissions: FilePermissions) { fchmod(file.number, permissions.rawValue) }

    /// Writes the content and replaces the file with the draft. A file that is a mount point can't be replaced, so it
    /// is written in place. If this throws, the earlier file is unchanged unless it is a mount point.
    ///
    /// - Parameters:
    ///   - isDurable: Whether the file is on the disk when this returns.
    ///   - onlyIfMissing: Whether an earlier file, or a link, is left unchanged. This then throws `.fileExists`. The
    ///     default is `false`.
    public func replace(with bytes: [UInt8], isDurable: Bool, onlyIfMissing: Bool = false) throws(Errno) {
        try file.write(bytes)
        if isDurable { try file.synchronize() }
        // Two processes may want the same name. Creating an empty file decides, and works on every file system.
        if onlyIfMissing { _ = try Descriptor(path, .writeOnly, [.create, .exclusiveCreate, .noFollow]) }
        isInPlace = rename(draft, path) == 0
        if isInPlace {
            if isDurable { PrivateFile.makeNameDurable(path) }
            return
        }
        let reason = Errno.latest
        if onlyIfMissing { unlink(path) }
        guard reason == .resourceBusy || reason == .improperLink else { throw reason }
        // The rest is cut off after the writing, so that the file needs no more space than before.
        let target = try Descriptor(path, .writeOnly, .noFollow)
        try target.write(bytes)
        guard ftruncate(target.number, off_t(bytes.count)) == 0 else { throw .latest }
        if isDurable { try target.synchronize() }
    }
}
