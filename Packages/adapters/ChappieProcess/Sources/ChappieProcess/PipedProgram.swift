@_spi(ChappieInternals) import ChappieFiles
import Dispatch
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A program that runs next to this process. This process communicates with it through three pipes: standard input,
/// standard output and standard error.
///
/// A separate thread reads and writes. The thread keeps this value alive until the program has ended, so the owner must
/// end the program with ``end(patience:grace:)`` or ``kill()``.
public final class PipedProgram: Sendable {
    /// An event that the thread reports. The thread waits until the handler returns.
    public enum Event: Sendable, Hashable {
        /// Bytes of the program's standard output, at most 64 KiB.
        case output([UInt8])
        /// Bytes of the program's standard error, at most 64 KiB.
        case errors([UInt8])
        /// The program has closed its standard output. It may still be running.
        case outputEnded
        /// The program has ended, with this code (see ``StartedChild``). This is the last event. All output precedes
        /// it.
        case ended(code: Int32)
    }

    private struct State {
        /// The bytes for the program's input. The pipe has not yet accepted `unsent[sent...]`.
        var unsent: [UInt8] = []
        var sent = 0
        var closesInput = false
        /// The signals to send and their times, the earliest one at the front.
        var signals: [(at: ContinuousClock.Instant, number: Int32)] = []
        var isEnding = false
        var exitCode: Int32?
        /// The pipes until the thread takes them out of the state. A reference that stayed here would keep them open.
        var pipes: Pipes?

        mutating func dropInput() {
            unsent = []
            sent = 0
        }
    }

    private let state = Mutex(State())
    private let inputLimit: Int
    private let alarm: (reader: Descriptor, writer: Descriptor)
    private let child: Mutex<StartedChild?> = Mutex(nil)
    private let onEvent: @Sendable (Event) -> Void

    /// Starts the program.
    ///
    /// - Parameters:
    ///   - inputLimit: The number of bytes that may wait until the program reads them.
    ///   - endsGroup: Whether processes that the program leaves running are killed at its end.
    ///   - onEvent: A closure that is called on the program's thread.
    public init(
        _ program: ProgramInvocation, inputLimit: Int, endsGroup: Bool, onEvent: @escaping @Sendable (Event) -> Void
    ) throws(StartFailure) {
        self.inputLimit = inputLimit
        self.onEvent = onEvent
        alarm = try Descriptor.pipe()
        let (theirInput, ourInput) = try Descriptor.pipe()
        let (ourOutput, theirOutput) = try Descriptor.pipe()
        let (ourErrors, theirErrors) = try Descriptor.pipe()
        for end in [alarm.reader, alarm.writer, ourInput, ourOutput, ourErrors] { end.stopBlocking() }
        state.withLock { $0.pipes = Pipes(input: ourInput, output: ourOutput, errors: ourErrors) }
        let child = try StartedChild(
            program, input: theirInput, output: theirOutput, errors: theirErrors, endsGroup: endsGroup,
            endsWithProgram: true
        ) { [self] code in
            state.withLock { $0.exitCode = code }
            wake()
        }
        self.child.withLock { $0 = child }
        DispatchQueue(label: "chappie.pipes").async { self.run() }
    }

    /// Writes `bytes` to the program's input as soon as the program reads.
    ///
    /// - Returns: `false` if more bytes than the limit would wait. In that case, none of `bytes` is written.
    public func send(_ bytes: [UInt8]) -> Bool {
        let fits = state.withLock { state in
            guard state.unsent.count - state.sent + bytes.count <= inputLimit else { return false }
            // Written bytes are removed in large steps, so that each byte moves only once.
            if state.sent > inputLimit {
                state.unsent = Array(state.unsent[state.sent...])
                state.sent = 0
            }
            state.unsent += bytes
            return true
        }
        wake()
        return fits
    }

    /// Ends the program's input after the bytes that were sent.
    public func closeInput() {
        state.withLock { $0.closesInput = true }
        wake()
    }

    /// Ends the program's input, so that the program can end by itself. After `patience`, the program and its process
    /// group receive SIGTERM. They receive SIGKILL `grace` later. A second call changes nothing.
    public func end(patience: Duration, grace: Duration) {
        let now = ContinuousClock.now
        state.withLock { state in
            state.closesInput = true
            guard !state.isEnding else { return }
            state.isEnding = true
            state.signals = [(now + patience, SIGTERM), (now + patience + grace, SIGKILL)]
        }
        wake()
    }

    /// Kills the program and its process group at once.
    public func kill() {
        child.withLock(\.self)?.endGroup(by: SIGKILL)
        closeInput()
    }

    private func wake() {
        // A full pipe also wakes the thread.
        _ = try? alarm.writer.writeSome([0])
    }

    // MARK: The thread

    /// This process's ends of the pipes. An end is `nil` once it is closed.
    private struct Pipes {
        var input: Descriptor?
        var output: Descriptor?
        var errors: Descriptor?
    }

    private func run() {
        // With SIGPIPE blocked, a write to a program that has ended returns an error number and does not end this
        // process.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var pipes = state.withLock { $0.pipes.take() } ?? Pipes()
        while true {
            if let code = state.withLock(\.exitCode) {
                // A pipe holds at most 1 MiB (pipe(7)). Later bytes come from processes that the program left running.
                readRest(&pipes, limit: 1 << 20)
                pipes = Pipes()
                child.withLock { $0 = nil }
                return onEvent(.ended(code: code))
            }
            sendDueSignals()
            writeUnsent(to: &pipes.input)
            waitForNews(pipes)
            _ = try? alarm.reader.readArrived()
            readNews(&pipes)
        }
    }

    private func sendDueSignals() {
        let due = state.withLock { state in
            let due = state.signals.filter { $0.at <= .now }.map(\.number)
            state.signals.removeFirst(due.count)
            return due
        }
        for number in due { child.withLock(\.self)?.endGroup(by: number) }
    }

    private func waitForNews(_ pipes: borrowing Pipes) {
        let (hasInput, next) = state.withLock { ($0.sent < $0.unsent.count, $0.signals.first?.at) }
        // poll ignores negative numbers.
        var polled = [
            pollfd(fd: alarm.reader.number, events: Int16(POLLIN), revents: 0),
            pollfd(fd: hasInput ? pipes.input?.number ?? -1 : -1, events: Int16(POLLOUT), revents: 0),
            pollfd(fd: pipes.output?.number ?? -1, events: Int16(POLLIN), revents: 0),
            pollfd(fd: pipes.errors?.number ?? -1, events: Int16(POLLIN), revents: 0),
        ]
        let limit = next.map { Int32(clamping: Int64(max(.zero, $0 - .now) / .milliseconds(1)) + 1) } ?? -1
        _ = poll(&polled, nfds_t(polled.count), limit)
    }

    /// Writes as many bytes as the pipe accepts.
    private func writeUnsent(to input: inout Descriptor?) {
        guard let descriptor = input else { return state.withLock { $0.dropInput() } }
        let isOver = state.withLock { state in
            while state.sent < state.unsent.count {
                do {
                    guard let count = try descriptor.writeSome(state.unsent[state.sent...].prefix(64 << 10)) else {
                        return false
                    }
                    state.sent += count
                } catch {
                    // The program has stopped reading.
                    return true
                }
            }
            state.dropInput()
            return state.closesInput
        }
        if isOver { input = nil }
    }

    private func readNews(_ pipes: inout Pipes) {
        if let output = pipes.output, let bytes = readPiece(of: output) {
            if bytes.isEmpty { pipes.output = nil }
            onEvent(bytes.isEmpty ? .outputEnded : .output(bytes))
        }
        if let errors = pipes.errors, let bytes = readPiece(of: errors) {
            if bytes.isEmpty { pipes.errors = nil } else { onEvent(.errors(bytes)) }
        }
    }

    private func readRest(_ pipes: inout Pipes, limit: Int) {
        for (descriptor, event) in [(pipes.output, Event.output), (pipes.errors, Event.errors)] {
            var rest = limit
            while rest > 0, let descriptor, let bytes = readPiece(of: descriptor), !bytes.isEmpty {
                onEvent(event(bytes))
                rest -= bytes.count
            }
        }
    }

    /// Returns the bytes that have arrived, at most 64 KiB. Returns an empty array at the end and after an error, and
    /// `nil` if no byte has arrived yet.
    private func readPiece(of descriptor: Descriptor) -> [UInt8]? {
        do {
            return try descriptor.readArrived()
        } catch {
            return []
        }
    }
}
