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
    /// What it prints, if that goes to the test.
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

    /// What the end of the test's process does to a program that is guarded.
    func dropLifeline() {
        state.withLock { Self.close(&$0.lifeline) }
    }

    /// Whether it has come to its end.
    public var hasEnded: Bool { state.withLock { reap(&$0, WNOHANG) } }

    /// Waits for its end, and blocks; returns its exit status, 128 + the signal for one that a signal ended.
    @discardableResult
    public func wait() -> Int {
        // Not reaped outside the lock: until then its id is nobody else's.
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
