import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
@_spi(ChappieInternals) import ChappieSQLite

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Moves a database out of a folder that several programs once shared.
///
/// The log is emptied into the database, and that file is renamed: a process that is killed leaves it whole in
/// either place, and the next process goes on. Nothing is moved while another process has the database open.
@_spi(ChappieInternals) public enum FormerPlace {
    /// The result for the former folder.
    public enum Outcome: Sendable, Equatable {
        /// It has no database.
        case nothing
        /// The database is in this folder now.
        case moved(to: String)
        /// This process uses the database in the former folder: another process, damage or rights kept it there.
        case stays
        /// Both folders have a database, and this process uses the new one.
        case left(at: String)
    }

    static func move(_ former: String, to folder: ThreadFolder) -> Outcome {
        guard let source = try? ThreadFolder(former), access(source.database, F_OK) == 0,
            PathOwner.refusal(of: source.database) == nil
        else { return .nothing }
        let lock = open(source.path + "/moving.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard lock >= 0 else { return .stays }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            // Another process moves it now, or uses it in its former place.
            return staying(source, lock)
        }
        guard access(source.database, F_OK) == 0 else {
            close(lock)
            return .nothing
        }
        guard access(folder.database, F_OK) != 0 else {
            close(lock)
            return .left(at: source.path)
        }
        do {
            try transfer(source, to: folder)
        } catch {
            return staying(source, lock)
        }
        // The note of the last change belongs to the database, which is whole without it. The log is empty.
        _ = rename(source.path + "/threads.last", folder.path + "/threads.last")
        for leftover in [
            "threads.db-wal", "threads.db-shm", "threads.db-journal", "threads.lock", "keys.lock", "moving.lock",
        ] {
            unlink("\(source.path)/\(leftover)")
        }
        // Folders of other owners may be in it, and each has a tag of its own.
        try? source.exclude(false)
        rmdir(source.path)
        close(lock)
        return .moved(to: folder.path)
    }

    /// Keeps a shared lock to the end of this process, so that no other one moves the database meanwhile.
    private static func staying(_ source: ThreadFolder, _ lock: CInt) -> Outcome {
        while flock(lock, LOCK_SH) != 0 {
            guard errno == EINTR else { break }
        }
        if access(source.database, F_OK) == 0 { return .stays }
        close(lock)
        return .nothing
    }

    private static func transfer(_ source: ThreadFolder, to folder: ThreadFolder) throws(StoreError) {
        guard let file = try source.existing(patience: .zero) else { throw .notFound(thread: "") }
        // With this setting the first lock stays until the connection ends. A connection of another process to a database
        // with a log holds a lock as long as it is open, so that this throws.
        try file.run("PRAGMA locking_mode = EXCLUSIVE")
        try file.transaction {}
        // The log becomes part of the file, which is synced, and the log is empty then.
        guard try file.integer("PRAGMA wal_checkpoint(TRUNCATE)") == 0 else { throw .busy(.zero) }
        try folder.make()
        guard rename(source.database, folder.database) == 0 else {
            throw .system("\(source.database) can't be moved")
        }
        for path in [folder.path, source.path] {
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            fsync(descriptor)
            close(descriptor)
        }
        withExtendedLifetime(file) {}
    }
}
