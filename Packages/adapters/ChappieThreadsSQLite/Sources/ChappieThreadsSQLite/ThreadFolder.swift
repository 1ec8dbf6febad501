import CSQLite
import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import ChappieSQLite
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A kind of file system, by whether other machines may use the files of a folder. The index of SQLite's write-ahead
/// log is in the memory of one machine.
@_spi(ChappieInternals) public enum ThreadFileSystem: Sendable, Hashable {
    /// A disk of this machine.
    case local
    /// A file system that a network, another machine or a program serves.
    case shared

    /// Creates the kind of the file system with this number (https://man7.org/linux/man-pages/man2/statfs.2.html).
    public init(number: UInt32) { self = Self.sharedNumbers.contains(number) ? .shared : .local }

    /// The numbers of NFS, SMB, CIFS, SMB 2, 9p, FUSE and virtiofs, AFS (two), Coda, Ceph, Lustre, GPFS, GFS 2, OCFS 2,
    /// BeeGFS, PanFS, OrangeFS, and of the folders that VirtualBox, VMware and Parallels share.
    private static let sharedNumbers: Set<UInt32> = [
        0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x6573_5546, 0x5346_414F, 0x6B41_4653, 0x7375_7245,
        0x00C3_6400, 0x0BD0_0BD0, 0x4750_4653, 0x0116_1970, 0x7461_636F, 0x1983_0326, 0xAAD7_AAEA,
        0x2003_0528, 0x786F_4256, 0xBACB_ACBC, 0x7C7C_6673,
    ]

    /// Finds the kind of the file system with this folder. On Apple's platforms `statfs` would need a declared reason,
    /// and there is none for this question. A file system that does not answer it there counts as shared.
    init(of path: String) throws(StoreError) {
        #if canImport(Security)
            let folder = URL(filePath: path, directoryHint: .isDirectory)
            guard let values = try? folder.resourceValues(forKeys: [.volumeIsLocalKey]) else {
                throw .system("\(path) can't be examined")
            }
            self = values.volumeIsLocal == true ? .local : .shared
        #else
            var found = statfs()
            guard statfs(path, &found) == 0 else { throw .system("\(path) can't be examined") }
            self.init(number: UInt32(truncatingIfNeeded: found.f_type))
        #endif
    }
}

/// The folder of a thread store. Only its owner can access its contents.
struct ThreadFolder: Sendable {
    /// The absolute path, without a slash at its end.
    let path: String
    private let knownFileSystem: ThreadFileSystem?

    var database: String { path + "/threads.db" }
    /// The lock that is held while the database is made. It is also an example of the mode that files have in the
    /// folder, and contains the id of the database.
    private var lock: String { path + "/threads.lock" }
    private var tag: String { path + "/CACHEDIR.TAG" }
    private var reserve: String { path + "/threads.reserve" }

    /// Creates the value for a folder.
    ///
    /// - Parameter fileSystem: The kind of the file system. Default: the system is asked.
    init(_ directory: String, on fileSystem: ThreadFileSystem? = nil) throws(StoreError) {
        guard directory.hasPrefix("/"), !directory.utf8.contains(0) else {
            throw .unavailable("their folder needs an absolute path")
        }
        // A slash at the end would make the system follow a symbolic link.
        path = "/" + directory.split(separator: "/").joined(separator: "/")
        knownFileSystem = fileSystem
    }

    /// Returns the kind of the folder's file system. The folder must exist.
    func fileSystem() throws(StoreError) -> ThreadFileSystem {
        if let knownFileSystem { return knownFileSystem }
        return try ThreadFileSystem(of: path)
    }

    /// Opens the database after checking all files. Returns `nil` if there is none.
    ///
    /// - Throws: `damaged` if the database is gone.
    func existing(isReadOnly: Bool = false) throws(StoreError) -> Database? {
        guard try checked({ () throws(CredentialStoreError) in try SafeFile.hasFolder(path) }) else { return nil }
        guard try hasDatabase() else {
            guard knownDatabase() == nil else { throw lost("is gone") }
            return nil
        }
        return try isReadOnly ? Database(unchanging: database) : Database(database)
    }

    /// Whether the file system with the folder can't be written.
    var isReadOnly: Bool { access(path, W_OK) != 0 && errno == EROFS }

    /// Whether the system does not let this user write the database.
    var isUnwritable: Bool { access(database, W_OK) != 0 }

    /// Whether the database is complete without its log.
    var hasNoLog: Bool {
        var status = stat()
        return stat(database + "-wal", &status) != 0 || status.st_size == 0
    }

    /// The state of the database file and its log. It changes when something is written.
    var stamp: [Int] {
        [database, database + "-wal"].flatMap { file in
            var status = stat()
            guard stat(file, &status) == 0 else { return [Int]() }
            #if canImport(Darwin)
                let time = status.st_mtimespec
            #else
                let time = status.st_mtim
            #endif
            return [Int(status.st_ino), Int(status.st_size), time.tv_sec, time.tv_nsec]
        }
    }

    /// Returns the id of the database that was made here, or `nil` if none was made.
    func knownDatabase() -> String? {
        guard let bytes = try? Descriptor(lock, .readOnly, [.noFollow, .nonBlocking]).read(atMost: 64),
            !bytes.isEmpty
        else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Notes the id of the database, or that there is none. If it cannot be written, a lost database is not noticed.
    func note(_ database: String?) {
        guard let file = try? lockFile(lock) else { return }
        ftruncate(file.number, 0)
        try? file.write(Array((database ?? "").utf8))
    }

    /// The error for a database that had threads and `what`.
    func lost(_ what: String) -> StoreError {
        .damaged(thread: nil, "\(database) \(what), although it had threads; delete its folder to begin a new store")
    }

    // MARK: Room on the disk

    /// Makes a file that has room for a deletion on a full disk, unless it is there. A full disk is not an error.
    func makeReserve() {
        guard access(reserve, F_OK) != 0 else { return }
        try? PrivateFile.create(reserve, with: [UInt8](repeating: 0, count: 256 << 10))
    }

    /// Gives the room back to the disk. Returns `false` if there was none.
    func releaseReserve() -> Bool { unlink(reserve) == 0 }

    // MARK: Replacing the database

    /// Replaces the database.
    ///
    /// - Parameters:
    ///   - new: The path of the new database, or `nil` if there is none.
    ///   - keepsOld: Whether the present file is moved aside.
    /// - Returns: The path of the present file if it was moved aside.
    func replaceDatabase(with new: String?, keepsOld: Bool) throws(StoreError) -> String? {
        let isThere = access(database, F_OK) == 0
        let time = Date().formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        var aside = "\(database).damaged-\(time)"
        var number = 1
        while access(aside, F_OK) == 0 {
            number += 1
            aside = "\(database).damaged-\(time)-\(number)"
        }
        // An old log would be applied to the new database.
        for end in ["-wal", "-shm", "-journal"] {
            if keepsOld, end != "-shm" { rename(database + end, aside + end) } else { unlink(database + end) }
        }
        if keepsOld, isThere, rename(database, aside) != 0 { throw .system("\(database) can't be moved") }
        if let new, rename(new, database) != 0 { throw .system("\(database) can't be replaced") }
        PrivateFile.makeNameDurable(database)
        return keepsOld && isThere ? aside : nil
    }

    /// Makes the folder if it is missing.
    func make() throws(StoreError) {
        try checked { () throws(CredentialStoreError) in try SafeFile.makeFolder(path) }
    }

    /// Makes the folder if it is missing, and runs `body` under a lock against other processes. `body` may make the
    /// database.
    func preparing<Output>(
        by policy: ChappieFileThreadStoreStoragePolicy, _ body: (Database) throws(StoreError) -> Output
    ) throws(StoreError) -> Output {
        try make()
        let file = try lockFile(lock)
        defer { withExtendedLifetime(file) {} }
        while flock(file.number, LOCK_EX) != 0 {
            guard errno == EINTR else { throw .system("\(lock) can't be locked") }
        }
        try follow(policy)
        _ = try hasDatabase()
        return try body(Database(database, modeOf: lock))
    }

    /// Runs `body` unless another process, or another store, runs this method for the folder at the same time.
    func changingKeys<Output>(_ body: () async throws(StoreError) -> Output) async throws(StoreError) -> Output {
        let file = try lockFile(path + "/keys.lock")
        defer { withExtendedLifetime(file) {} }
        let isFree: Bool
        do {
            isFree = try file.lockIfFree()
        } catch {
            throw .system("\(path)/keys.lock can't be locked", error)
        }
        guard isFree else { throw .busy(.zero) }
        return try await body()
    }

    /// Returns a folder for a copy of a backup. Only this user can access it.
    func forRestoring() throws(StoreError) -> ThreadFolder {
        try ThreadFolder("\(path)/\(Self.restoring)\(UUID().uuidString.lowercased())")
    }

    /// Makes an empty file, which must not exist.
    static func makeFile(_ path: String) throws(StoreError) {
        do {
            try PrivateFile.create(path, with: [])
        } catch {
            throw .system("\(path) can't be made", error)
        }
    }

    /// Makes an empty database file and returns its path.
    func makeDatabaseFile() throws(StoreError) -> String {
        try Self.makeFile(database)
        return database
    }

    /// Replaces the database by a copy of a file, byte by byte.
    func copyDatabase(from path: String) throws(StoreError) {
        unlink(database)
        _ = try makeDatabaseFile()
        do {
            let source = try Descriptor(path, .readOnly, .nonBlocking)
            guard try source.status().st_mode & S_IFMT == S_IFREG else { return }
            let copy = try Descriptor(database, .writeOnly)
            while true {
                let bytes = try source.read(atMost: 1 << 20)
                if bytes.isEmpty { return }
                try copy.write(bytes)
            }
        } catch {
            throw .system("\(path) can't be copied", error)
        }
    }

    /// Returns the file that a backup to `path` replaces, which is the target of a symbolic link.
    ///
    /// - Throws: `unsafeFile` if it is not a regular file, or a file of the store itself.
    func target(of path: String) throws(StoreError) -> String {
        var status = stat()
        guard stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw .unsafeFile("\(path) is not a regular file, and a backup would replace it", remedy: "Name a file.")
        }
        var target = path
        var links = 40
        while links > 0, let link = try? FileManager.default.destinationOfSymbolicLink(atPath: target) {
            target = link.hasPrefix("/") ? link : "\(Self.folder(of: target))/\(link)"
            links -= 1
        }
        guard Self.canonical(Self.folder(of: target)) != Self.canonical(self.path) else {
            throw .unsafeFile("\(path) is among the files of the threads", remedy: "Name a file in another folder.")
        }
        return target
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func canonical(_ path: String) -> String {
        guard let found = realpath(path, nil) else { return path }
        defer { free(found) }
        return String(cString: found)
    }

    private static let restoring = "restoring-"
    private var copies: String { path + "/copies.lock" }

    /// Signals to other processes that this one makes a copy, until the result is released. Returns `nil` if the
    /// folder accepts no file. This method first removes copies that killed processes left behind.
    ///
    /// - Parameter backup: the file that will be written, whose drafts are also copies.
    func holdCopies(for backup: String? = nil) -> Descriptor? {
        removeAbandonedCopies()
        if let backup { removeAbandonedDrafts(of: backup) }
        guard let file = try? lockFile(copies) else { return nil }
        while flock(file.number, LOCK_SH) != 0, errno == EINTR {}
        return file
    }

    /// Removes copies for restoring that killed processes left behind.
    func removeAbandonedCopies() { remove(from: path) { $0.hasPrefix(Self.restoring) } }

    /// The endings of a draft and of the files that SQLite makes next to it.
    static let endsOfDrafts = ["", "-journal", "-wal", "-shm"].map { ".draft" + $0 }

    private func removeAbandonedDrafts(of backup: String) {
        let start = (backup.split(separator: "/").last ?? "") + "."
        remove(from: Self.folder(of: backup)) { name in
            let ends = Self.endsOfDrafts.filter { name.hasPrefix(start) && name.hasSuffix($0) }
            return ends.contains { UUID(uuidString: String(name.dropFirst(start.count).dropLast($0.count))) != nil }
        }
    }

    /// Removes copies, unless a process is making one.
    private func remove(from folder: String, _ isCopy: (String) -> Bool) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        let found = names.filter(isCopy)
        guard !found.isEmpty, let file = try? lockFile(copies), (try? file.lockIfFree()) == true else { return }
        defer { withExtendedLifetime(file) {} }
        for name in found { try? FileManager.default.removeItem(atPath: "\(folder)/\(name)") }
    }

    private func lockFile(_ path: String) throws(StoreError) -> Descriptor {
        let file: Descriptor
        do {
            file = try Descriptor(path, .readWrite, [.create, .noFollow, .nonBlocking])
        } catch {
            throw .system("\(path) can't be opened", error)
        }
        // The process's file mode mask may have removed permissions.
        fchmod(file.number, 0o600)
        return file
    }

    private func hasDatabase() throws(StoreError) -> Bool {
        try checked { () throws(CredentialStoreError) in
            for end in ["-wal", "-shm", "-journal"] { _ = try SafeFile.hasFile(database + end) }
            return try SafeFile.hasFile(database)
        }
    }

    /// Protects the files that are made from now on, and asks backup programs to leave the folder out if the policy
    /// requires that. It asks them with a tag (https://bford.info/cachedir/) and an attribute
    /// (https://www.freedesktop.org/wiki/CommonExtendedAttributes/). A file system without attributes causes no error.
    func follow(_ policy: ChappieFileThreadStoreStoragePolicy) throws(StoreError) {
        FolderCare.apply(policy.folderProtection, isExcludedFromBackup: policy.isExcludedFromBackup, to: path)
        if policy.isExcludedFromBackup {
            if access(tag, F_OK) != 0 {
                let text = """
                    Signature: 8a477f597d28d172789f06886806bc55
                    # The threads of chappie. This file asks backup programs to leave them out.

                    """
                do {
                    try PrivateFile.replace(tag, with: Array(text.utf8))
                } catch {
                    throw .system("\(tag) can't be written", error)
                }
            }
            #if os(Linux)
                _ = setxattr(path, Self.attribute, "false", 5, 0)
            #endif
        } else {
            unlink(tag)
            #if os(Linux)
                _ = removexattr(path, Self.attribute)
            #endif
        }
    }

    private static let attribute = "user.xdg.robots.backup"

    @discardableResult
    private func checked<Output>(
        _ body: () throws(CredentialStoreError) -> Output
    ) throws(StoreError) -> Output {
        do throws(CredentialStoreError) {
            return try body()
        } catch {
            switch error {
            case .unsafeFile(let reason, let remedy): throw .unsafeFile(reason, remedy: remedy)
            case .unusableFolder(let reason, let remedy): throw .unavailable("\(reason) (\(remedy))")
            case .failed(let words): throw .unavailable(words)
            default: throw .unavailable("\(error)")
            }
        }
    }
}

extension ChappieThreadStoreError {
    static let cancelled = Self.unavailable("the task was cancelled")

    /// Creates an error with the system's reason, for example `/a/file can't be opened: Permission denied`.
    static func system(_ words: String, _ error: Errno = .latest) -> Self { .unavailable("\(words): \(error.words)") }
}
