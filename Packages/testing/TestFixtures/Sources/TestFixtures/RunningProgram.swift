import FoundationEssentials
import Glibc
import Synchronization

/// A program that a test started: it gets a separate process group, and ends with this value at the latest.
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
        var input: Descriptor?
        var lifeline: Descriptor?
    }

    private let state: Mutex<State>

    /// A guard stays behind in the program's group, and ends the group, itself included, when descriptor 3 does. The
    /// group's number is not given away as long as the guard is in it.
    private static let lifelineScript = #"{ read -r line <&3; kill -s KILL -- -$$; } >/dev/null 2>&1 & exec "$@" 3<&-"#

    /// - Parameters:
    ///   - path: the program's file.
    ///   - environment: the whole of it; `nil`: the test's own.
    ///   - isGuarded: whether it ends, with all of its group, even when the test's process is killed or crashes.
    public init(
        _ path: String, _ arguments: [String] = [], environment: [String: String]? = nil,
        input: ProgramInput = .nothing, output: ProgramOutput, errors: ProgramErrors, isGuarded: Bool = false
    ) throws {
        let (theirInput, ourInput) = try input.ends()
        let (theirOutput, ourOutput) = try output.ends()
        let theirErrors = try errors.end(output: theirOutput)
        let lifeline = isGuarded ? try Descriptor.pair() : nil
        let words = (isGuarded ? ["/bin/sh", "-c", Self.lifelineScript, "sh"] : []) + [path] + arguments
        id = try Self.start(words, environment, with: [theirInput, theirOutput, theirErrors, lifeline?.0])
        self.output = ourOutput.map { OutputReader($0) }
        state = Mutex(State(input: ourInput, lifeline: lifeline?.1))
    }

    /// With descriptors 0, 1, …, no blocked signal, and a separate group, which can be ended as a whole.
    private static func start(
        _ words: [String], _ environment: [String: String]?, with descriptors: [Descriptor?]
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        for (target, descriptor) in descriptors.enumerated() {
            if let descriptor { posix_spawn_file_actions_adddup2(&actions, descriptor.number, CInt(target)) }
        }
        let variables = environment ?? ProcessInfo.processInfo.environment
        let arguments = words.map { strdup($0) } + [nil]
        let entries = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer {
            for text in arguments + entries { free(text) }
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        var child = pid_t()
        let failure = withExtendedLifetime(descriptors) {
            posix_spawn(&child, words[0], &actions, &attributes, arguments, entries)
        }
        guard failure == 0 else {
            throw FixtureFailure("\(words[0]) does not start: \(String(cString: strerror(failure)))")
        }
        return child
    }

    deinit { end() }

    /// Lets its input end, if it was ``ProgramInput/held``.
    public func endInput() { state.withLock { $0.input = nil } }

    /// Sends it a signal; nothing happens once its end has been seen.
    public func signal(_ number: CInt) { state.withLock { if $0.status == nil { kill(id, number) } } }

    /// Ends it and the whole of its group, by a signal that can't be put off, and waits for that.
    public func end() {
        state.withLock { if $0.status == nil { kill(-id, SIGKILL) } }
        wait()
    }

    /// Does to a guarded program what the end of the test's process would do.
    func dropLifeline() { state.withLock { $0.lifeline = nil } }

    /// Whether it has come to its end.
    public var hasEnded: Bool { state.withLock { reap(&$0, WNOHANG) } }

    /// Waits for its end, and blocks; returns its exit status, 128 + the signal if a signal ended it.
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
        state.lifeline = nil
        return true
    }
}

/// The standard input of a program.
public enum ProgramInput: Sendable {
    /// The end, at once.
    case nothing
    /// This file.
    case file(String)
    /// This text, and then the end. At most 64 KiB, which is what a socket holds.
    case text(String)
    /// Nothing, and the end when the test reports that: ``RunningProgram/endInput()``.
    case held

    fileprivate func ends() throws -> (theirs: Descriptor, ours: Descriptor?) {
        switch self {
        case .nothing: return (try Descriptor(opening: "/dev/null", O_RDONLY), nil)
        case .file(let path): return (try Descriptor(opening: path, O_RDONLY), nil)
        case .held: return try Descriptor.pair()
        case .text(let text):
            let (theirs, ours) = try Descriptor.pair()
            let bytes = Array(text.utf8)
            guard send(ours.number, bytes, bytes.count, CInt(MSG_DONTWAIT)) == bytes.count else {
                throw FixtureFailure("a socket doesn't take \(bytes.count) bytes")
            }
            return (theirs, nil)
        }
    }
}

/// The target of a program's standard output.
public enum ProgramOutput: Sendable {
    /// To the test, which reads it: ``RunningProgram/output``.
    case pipe
    /// To the end of this file.
    case file(String)

    fileprivate func ends() throws -> (theirs: Descriptor, ours: Descriptor?) {
        switch self {
        case .pipe: try Descriptor.pair()
        case .file(let path): (try Descriptor(opening: path, O_WRONLY | O_CREAT | O_APPEND), nil)
        }
    }
}

/// The target of a program's standard error.
public enum ProgramErrors: Sendable {
    /// The same as its output's.
    case withOutput
    /// To the end of this file.
    case file(String)
    /// The same as the test's own.
    case inherited

    fileprivate func end(output: Descriptor) throws -> Descriptor? {
        switch self {
        case .withOutput: output
        case .file(let path): try Descriptor(opening: path, O_WRONLY | O_CREAT | O_APPEND)
        case .inherited: nil
        }
    }
}

/// A program's output, as it comes. Its functions block: they are for threads of the tests' own.
public final class OutputReader: Sendable {
    private let descriptor: Descriptor
    private let pending = Mutex<[UInt8]>([])

    init(_ descriptor: Descriptor) { self.descriptor = descriptor }

    /// Returns the next line, or `nil` at the end, and when none comes in a long time.
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
        var waiting = pollfd(fd: descriptor.number, events: Int16(POLLIN), revents: 0)
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let isReady = poll(&waiting, 1, CInt(Patience.limit / .milliseconds(1)))
            let count = isReady > 0 ? read(descriptor.number, &chunk, chunk.count) : Int(isReady)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            pending += chunk[..<count]
            return true
        }
    }
}

/// One open file, which no program inherits by itself, closed with the last reference to it.
final class Descriptor: Sendable {
    let number: CInt

    init(opening path: String, _ flags: CInt) throws {
        number = open(path, flags | O_CLOEXEC, 0o600)
        guard number >= 0 else { throw FixtureFailure("\(path): \(String(cString: strerror(errno)))") }
    }

    init(_ number: CInt) { self.number = number }

    deinit { close(number) }

    /// Two connected ends. A pipe's could not be marked as not to be inherited before another thread starts a program.
    static func pair() throws -> (Descriptor, Descriptor) {
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw FixtureFailure("no sockets: \(String(cString: strerror(errno)))")
        }
        return (Descriptor(ends[0]), Descriptor(ends[1]))
    }
}
