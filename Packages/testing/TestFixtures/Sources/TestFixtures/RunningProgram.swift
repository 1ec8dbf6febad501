@_spi(ChappieInternals) import ChappieFiles
import FoundationEssentials
import Glibc
import Synchronization
import SystemPackage

/// A program that a test started. It gets a separate process group, and ends with this value at the latest.
///
/// Foundation's `Process` starts programs with the signal mask of the calling thread. On a thread of Swift's pool, the
/// mask blocks SIGTERM. `Process` also lets a program inherit the pipes of others that are started at the same time.
public final class RunningProgram: Sendable {
    /// The id of its process and of its process group.
    public let id: Int32
    /// The reader of its output, if the output goes to the test.
    public let output: OutputReader?

    private struct State {
        /// The exit status of a program whose end has been seen. From then on, its id may belong to another process.
        var status: Int?
        var input: Descriptor?
        var lifeline: Descriptor?
    }

    private let state: Mutex<State>

    /// The script of the guard, which stays in the program's group and ends the group, including itself, when the other
    /// end of descriptor 3 is closed. The group's number is not given to another group as long as the guard is in it.
    private static let lifelineScript = #"{ read -r line <&3; kill -s KILL -- -$$; } >/dev/null 2>&1 & exec "$@" 3<&-"#

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - path: the program's file.
    ///   - environment: the complete environment, or `nil` for the test's own.
    ///   - isGuarded: whether the program and its entire group end even if the test's process is killed or crashes.
    public init(
        _ path: String, _ arguments: [String] = [], environment: [String: String]? = nil,
        input: ProgramInput = .nothing, output: ProgramOutput, errors: ProgramErrors, isGuarded: Bool = false
    ) throws {
        let (theirInput, ourInput) = try input.ends()
        let (theirOutput, ourOutput) = try output.ends()
        let theirErrors = try errors.end(output: theirOutput)
        let lifeline = isGuarded ? try Descriptor.socketPair() : nil
        let words = (isGuarded ? ["/bin/sh", "-c", Self.lifelineScript, "sh"] : []) + [path] + arguments
        id = try Self.start(words, environment, with: [theirInput, theirOutput, theirErrors, lifeline?.0])
        self.output = ourOutput.map { OutputReader($0) }
        state = Mutex(State(input: ourInput, lifeline: lifeline?.1))
    }

    /// Starts a program with descriptors 0, 1, …, no blocked signal, and a separate group, which can be ended together.
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
            throw FixtureFailure("\(words[0]) does not start: \(Errno(rawValue: failure))")
        }
        return child
    }

    deinit { end() }

    /// Ends its input, if the input was ``ProgramInput/held``.
    public func endInput() { state.withLock { $0.input = nil } }

    /// Sends a signal to the program. Nothing happens once its end has been seen.
    public func signal(_ number: CInt) { state.withLock { if $0.status == nil { kill(id, number) } } }

    /// Ends the program and its entire group with a signal that can't be blocked, and waits for the program's end.
    public func end() {
        state.withLock { if $0.status == nil { kill(-id, SIGKILL) } }
        wait()
    }

    /// Does to a guarded program what the end of the test's process would do.
    func dropLifeline() { state.withLock { $0.lifeline = nil } }

    /// Whether the program has ended.
    public var hasEnded: Bool { state.withLock { reap(&$0, WNOHANG) } }

    /// Blocks until the program ends, and returns its exit status, or 128 + the signal if a signal ended it.
    @discardableResult
    public func wait() -> Int {
        // The program is not reaped outside the lock. Until it is reaped, no other process can have its id.
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
    /// No input. The program immediately reads the end.
    case nothing
    /// This file.
    case file(String)
    /// This text, followed by the end. It has at most 64 KiB, which is what a socket holds.
    case text(String)
    /// No input until the test ends it with ``RunningProgram/endInput()``.
    case held

    // These are sockets, because the ends of a pipe could not be marked as not inheritable before another thread starts a
    // program.
    fileprivate func ends() throws -> (theirs: Descriptor, ours: Descriptor?) {
        switch self {
        case .nothing: return (try Descriptor("/dev/null"), nil)
        case .file(let path): return (try Descriptor(path), nil)
        case .held: return try Descriptor.socketPair()
        case .text(let text):
            let (theirs, ours) = try Descriptor.socketPair()
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
    /// The test, which reads it from ``RunningProgram/output``.
    case pipe
    /// This file, to which the output is appended.
    case file(String)

    fileprivate func ends() throws -> (theirs: Descriptor, ours: Descriptor?) {
        switch self {
        case .pipe: try Descriptor.socketPair()
        case .file(let path): (try Descriptor(path, .writeOnly, [.create, .append]), nil)
        }
    }
}

/// The target of a program's standard error.
public enum ProgramErrors: Sendable {
    /// The target of the standard output.
    case withOutput
    /// This file, to which the errors are appended.
    case file(String)
    /// The test's own standard error.
    case inherited

    fileprivate func end(output: Descriptor) throws -> Descriptor? {
        switch self {
        case .withOutput: output
        case .file(let path): try Descriptor(path, .writeOnly, [.create, .append])
        case .inherited: nil
        }
    }
}

/// A reader of a program's output as it arrives. Its functions block, so they are for the tests' own threads.
public final class OutputReader: Sendable {
    private let descriptor: Descriptor
    private let pending = Mutex<[UInt8]>([])

    init(_ descriptor: Descriptor) { self.descriptor = descriptor }

    /// Returns the next line, or `nil` at the end or if no line arrives within a long time.
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
        guard descriptor.wait(for: POLLIN, limit: Patience.limit), let piece = try? descriptor.read(), !piece.isEmpty
        else { return false }
        pending += piece
        return true
    }
}
