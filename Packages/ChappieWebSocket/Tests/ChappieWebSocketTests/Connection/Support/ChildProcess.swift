import Glibc

/// A process that a test started, and that only its own id ends.
///
/// Foundation's `Process` starts children with the signal mask of the calling thread; on a thread of Swift's pool that
/// blocks SIGTERM, and the child can't be asked to end.
struct ChildProcess: Sendable {
    let id: pid_t

    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    /// - Parameters:
    ///   - output: a file that takes standard output and standard error.
    ///   - input: a file to read.
    init(_ path: String, _ arguments: [String], input: String = "/dev/null", output: String, errors: String) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_APPEND, 0o600)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        var child = pid_t()
        let words = ([path] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        let failure = posix_spawn(&child, path, &actions, &attributes, words + [nil], environ)
        guard failure == 0 else {
            throw Problem(description: "\(path) does not start: \(String(cString: strerror(failure)))")
        }
        id = child
    }

    /// Waits for its end; returns its exit status, 128 + the signal for one that a signal ended.
    @discardableResult
    func wait() -> Int {
        var status: CInt = 0
        while waitpid(id, &status, 0) < 0, errno == EINTR {}
        let signal = Int(status & 0x7F)
        return signal == 0 ? Int(status >> 8) & 0xFF : 128 + signal
    }

    /// Ends it and waits.
    func end() {
        kill(id, SIGTERM)
        wait()
    }
}
