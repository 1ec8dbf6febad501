import FoundationEssentials
import Glibc
import Synchronization

/// A program that a test started: it gets a process group of its own, and ends with this value at the latest.
///
/// Foundation's `Process` starts programs with the signal mask of the calling thread; on a thread of Swift's pool that
/// blocks SIGTERM. It also lets a program inherit the pipes of others that are started at the same time.
public final class RunningProgram: Sendable {
    /// Its process, and its process group.
    public let id: Int32
    /// Its output, if that goes to the test.
    public let output: OutputReader?

    private struct State {
        /// Of a program whose end has been seen; its id may be another's from then on.
        var status: Int?
        /// The test's ends of pipes.
        var input: CInt?
        var lifeline: CInt?
    }

    private let state: Mutex<State>

    /// - Parameters:
    ///   - path: where the program is.
    ///   - environment: the whole of it; `nil`: the test's own.
    ///   - isGuarded: whether it ends, with all of its group, even when the test's process is killed or crashes.
    public init(
        _ path: String, _ arguments: [String] = [], environment: [String: String]? = nil,
        input: ProgramInput = .nothing, output: ProgramOutput, errors: ProgramErrors, isGuarded: Bool = false
    ) throws {
        var launch = try ProgramLaunch()
        defer { launch.close() }
        let inputEnd = try launch.connect(input)
        let outputEnd = try launch.connect(output: output, errors: errors)
        let reader = outputEnd.map { OutputReader($0) }
        var words = [path] + arguments
        var lifeline: CInt?
        if isGuarded {
            lifeline = try launch.connectLifeline()
            words = ["/bin/sh", "-c", ProgramLaunch.lifelineScript, "sh"] + words
        }
        do {
            id = try launch.start(words, environment: environment)
        } catch {
            for end in [inputEnd, lifeline] { if let end { Glibc.close(end) } }
            throw error
        }
        self.output = reader
        state = Mutex(State(input: inputEnd, lifeline: lifeline))
    }

    deinit {
        end()
        endInput()
    }

    /// Lets its input end, where it was ``ProgramInput/held``.
    public func endInput() {
        state.withLock { Self.close(&$0.input) }
    }

    /// Sends it a signal; nothing happens once its end has been seen.
    public func signal(_ number: CInt) {
        state.withLock { if $0.status == nil { kill(id, number) } }
    }

    /// Ends it and the whole of its group, by a signal that can't be put off, and waits for that.
    public func end() {
        state.withLock { if $0.status == nil { kill(-id, SIGKILL) } }
        wait()
    }

    /// Does to a guarded program what the end of the test's process would do.
    func dropLifeline() {
        state.withLock { Self.close(&$0.lifeline) }
    }

    /// Whether it has come to its end.
    public var hasEnded: Bool { state.withLock { reap(&$0, WNOHANG) } }

    /// Waits for its end, and blocks; returns its exit status, 128 + the signal for one that a signal ended.
    @discardableResult
    public func wait() -> Int {
        // Not reaped outside the lock: until then no other process can have its id.
        var information = siginfo_t()
        while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        return state.withLock { state in
            _ = reap(&state, 0)
            return state.status ?? -1
        }
    }

    private func reap(_ state: inout State, _ options: CInt) -> Bool {
        if state.status != nil { return true }
        var status: CInt = 0
        var result = waitpid(id, &status, options)
        while result < 0, errno == EINTR { result = waitpid(id, &status, options) }
        guard result == id else { return false }
        let signal = Int(status & 0x7F)
        state.status = signal == 0 ? Int(status >> 8) & 0xFF : 128 + signal
        Self.close(&state.lifeline)
        return true
    }

    private static func close(_ end: inout CInt?) {
        if let descriptor = end { Glibc.close(descriptor) }
        end = nil
    }
}

/// The standard input of a program.
public enum ProgramInput: Sendable {
    /// The end, at once.
    case nothing
    /// This file.
    case file(String)
    /// This text, and then the end. At most 64 KiB, which is what a pipe holds.
    case text(String)
    /// Nothing, and the end when the test says so: ``RunningProgram/endInput()``.
    case held
}

/// Where a program's standard output goes.
public enum ProgramOutput: Sendable {
    /// To the test, which reads it: ``RunningProgram/output``.
    case pipe
    /// To the end of this file.
    case file(String)
}

/// Where a program's standard error goes.
public enum ProgramErrors: Sendable {
    /// To where its output goes.
    case withOutput
    /// To the end of this file.
    case file(String)
    /// To where the test's own goes.
    case inherited
}

/// A program's output, as it comes. Its functions block: they are for threads of the tests' own.
public final class OutputReader: Sendable {
    private let descriptor: CInt
    private let pending = Mutex<[UInt8]>([])

    init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// The next line; `nil` at the end, and when none comes in a long time.
    public func line() -> String? {
        pending.withLock { pending in
            while true {
                if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    defer { pending.removeSubrange(...end) }
                    return String(decoding: pending[..<end], as: UTF8.self)
                }
                guard readMore(into: &pending) else { return nil }
            }
        }
    }

    private func readMore(into pending: inout [UInt8]) -> Bool {
        let limit = CInt(Patience.limit / .milliseconds(1))
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let isReady = poll(&waiting, 1, limit)
            let count = isReady > 0 ? read(descriptor, &chunk, chunk.count) : Int(isReady)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            pending += chunk[..<count]
            return true
        }
    }
}

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
            // Before there is a reader that could end: writing without one would end the tests with SIGPIPE.
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
    /// group's number is not given away as long as the guard is in it.
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

/// The two ends of a pipe, neither of which a program inherits by itself: it would keep the other end waiting.
struct PipeEnds {
    let reading: CInt
    let writing: CInt

    /// Held by who makes a pipe and by who starts a program, so that none starts before the ends are marked.
    static let isInTheMaking = Mutex(())

    init() throws {
        var ends: [CInt] = [-1, -1]
        let isMade = Self.isInTheMaking.withLock { _ in
            pipe(&ends) == 0 && ends.allSatisfy { fcntl($0, F_SETFD, FD_CLOEXEC) == 0 }
        }
        guard isMade else { throw FixtureFailure("no pipe: \(String(cString: strerror(errno)))") }
        (reading, writing) = (ends[0], ends[1])
    }
}
