import FoundationEssentials
import Glibc
import Synchronization

/// How a ``RunningProgram`` is started: its descriptors, its group, its signals.
struct ProgramLaunch {
    private var actions = posix_spawn_file_actions_t()
    private var attributes = posix_spawnattr_t()
    /// The program's own ends of pipes, of no use here once it has started.
    private var ends: [CInt] = []

    init() throws {
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        // No blocked signal, and a group of its own, which can be ended as a whole.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
    }

    mutating func close() {
        posix_spawn_file_actions_destroy(&actions)
        posix_spawnattr_destroy(&attributes)
        for end in ends { Glibc.close(end) }
        ends = []
    }

    /// Returns the test's end, if there is one.
    mutating func connect(_ input: ProgramInput) throws -> CInt? {
        switch input {
        case .nothing: posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        case .file(let path): posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0)
        case .text(let text):
            precondition(text.utf8.count <= 64 << 10, "more than a pipe holds")
            let pipe = try PipeEnds()
            connect(pipe.reading, as: 0)
            // Before there is a reader that could end: writing to nobody would end the tests with SIGPIPE.
            let bytes = Array(text.utf8)
            let count = write(pipe.writing, bytes, bytes.count)
            Glibc.close(pipe.writing)
            guard count == bytes.count else { throw FixtureFailure("a pipe doesn't take \(bytes.count) bytes") }
        case .held:
            let pipe = try PipeEnds()
            connect(pipe.reading, as: 0)
            return pipe.writing
        }
        return nil
    }

    /// Returns the test's end, if there is one.
    mutating func connect(output: ProgramOutput, errors: ProgramErrors) throws -> CInt? {
        var result: CInt?
        switch output {
        case .pipe:
            let pipe = try PipeEnds()
            connect(pipe.writing, as: 1)
            result = pipe.reading
        case .file(let path): append(1, to: path)
        }
        switch errors {
        case .withOutput: posix_spawn_file_actions_adddup2(&actions, 1, 2)
        case .file(let path): append(2, to: path)
        case .inherited: break
        }
        return result
    }

    /// Gives the program's guard descriptor 3, which ends when the returned one is closed, be it by the end of the
    /// test's process.
    mutating func connectLifeline() throws -> CInt {
        let pipe = try PipeEnds()
        connect(pipe.reading, as: 3)
        return pipe.writing
    }

    /// A guard stays behind in the program's group, and ends the group, itself included, when the lifeline does. The
    /// group's number is nobody else's as long as the guard is in it.
    static let lifelineScript =
        #"{ read -r line <&3; kill -s KILL -- -$$; } >/dev/null 2>&1 & exec "$@" 3<&-"#

    mutating func start(_ words: [String], environment: [String: String]?) throws -> pid_t {
        let variables = environment ?? ProcessInfo.processInfo.environment
        let arguments = words.map { strdup($0) }
        let entries = variables.map { strdup("\($0.key)=\($0.value)") }
        defer { for text in arguments + entries { free(text) } }
        var child = pid_t()
        let failure = PipeEnds.isInTheMaking.withLock { _ in
            posix_spawn(&child, words[0], &actions, &attributes, arguments + [nil], entries + [nil])
        }
        guard failure == 0 else {
            throw FixtureFailure("\(words[0]) does not start: \(String(cString: strerror(failure)))")
        }
        return child
    }

    private mutating func connect(_ end: CInt, as descriptor: CInt) {
        ends.append(end)
        posix_spawn_file_actions_adddup2(&actions, end, descriptor)
    }

    private mutating func append(_ descriptor: CInt, to path: String) {
        posix_spawn_file_actions_addopen(&actions, descriptor, path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    }
}
