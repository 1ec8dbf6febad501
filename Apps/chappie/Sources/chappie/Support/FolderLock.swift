import Glibc

/// Keeps other processes of this program away while a file of a folder is read, changed and written. The system lets go of
/// it when the holder dies.
enum FolderLock {
    /// Nobody needs longer for a small file: whoever still holds it has been stopped, and is not waited for.
    private static let patience = Duration.seconds(5)

    /// Runs `body` under the lock; without it where there can be none (some network folders).
    static func holding(_ folder: String, _ body: () throws -> Void) rethrows {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        let deadline = ContinuousClock.now + patience
        while descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK || errno == EINTR,
            ContinuousClock.now < deadline
        {
            // Not a guess at how long it takes: asked again until the patience ends, which a waiting flock has not.
            usleep(5000)
        }
        try body()
    }
}
