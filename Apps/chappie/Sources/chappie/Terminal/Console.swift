@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
import ChappieSDK
import Dispatch
import Glibc
import Synchronization
import SystemPackage

/// The standard streams, with standard output for data and standard error for notes. A separate thread writes them in
/// the order of the calls.
///
/// A reader that does not read (`chappie ask … | less`) therefore delays neither an interruption nor a token refresh.
final class Console: Sendable {
    enum Stream: CInt, Sendable { case output = 1, error = 2 }

    /// The standard streams that are terminals, and whether the one for notes can draw.
    struct Terminals: Sendable {
        var input = false
        var output = false
        /// Whether standard error is a terminal that moves its cursor. It is not if `NO_COLOR` (no-color.org) or a
        /// plain terminal forbids it.
        var draws = false
        var error = false
        /// Whether standard output may have styles. It may not if `NO_COLOR`, `CLICOLOR=0` or a plain terminal forbids
        /// them.
        var styles = false
    }

    private struct Queue {
        var pieces: [(stream: Stream, bytes: [UInt8])] = []
        var hasStatus = false
        var hasStyled = false
        /// Whether notes are left out.
        var isQuiet = false
        var outputFailure: Errno?

        mutating func append(_ bytes: some Sequence<UInt8>, _ stream: Stream) {
            if let last = pieces.indices.last, pieces[last].stream == stream {
                pieces[last].bytes += bytes
            } else {
                pieces.append((stream, Array(bytes)))
            }
        }

        mutating func take() -> [(stream: Stream, bytes: [UInt8])] {
            defer { pieces = [] }
            return pieces
        }
    }

    let terminals: Terminals
    /// A promise that is fulfilled when no process reads standard output any more.
    let readerHasLeft = Promise<Void>()
    private let queue = Mutex(Queue())
    private let writer = DispatchQueue(label: "chappie.console")
    private let sink: @Sendable (Stream, [UInt8]) throws(Errno) -> Void

    /// - Parameter sink: writes the bytes and may block.
    init(_ terminals: Terminals, sink: @escaping @Sendable (Stream, [UInt8]) throws(Errno) -> Void) {
        self.terminals = terminals
        self.sink = sink
    }

    /// Creates a console for the standard streams of this process.
    convenience init(environment: ProgramEnvironment) {
        let (input, output, error) = (isatty(0) == 1, isatty(1) == 1, isatty(2) == 1)
        let forbids = environment["NO_COLOR"] != nil || environment["CLICOLOR"] == "0"
        let styles = !forbids && !environment.isTerminalPlain
        let terminals = Terminals(input: input, output: output, draws: error && styles, error: error, styles: styles)
        self.init(terminals) { stream, bytes throws(Errno) in
            TerminalState.clearStatus()
            // With `stty tostop`, output in the background stops the program.
            TerminalState.obeysJobControl()
            try (stream == .output ? Descriptor.standardOutput : .standardError).write(bytes)
        }
    }

    /// Writes data. A terminal does not receive control characters, because models and servers write parts of the text.
    /// A file or a pipe receives them.
    func write(_ text: String) { enqueue(terminals.output ? UntrustedText.forTerminal(text) : text, .output) }

    /// Writes data that is not text, which a terminal does not take.
    func write(_ bytes: [UInt8]) { enqueue(bytes, .output) }

    /// Writes data that may move the cursor. The data was made in this program, and foreign text in it has been
    /// cleaned.
    func draw(_ text: String) {
        if text.utf8.contains(0x1B) { queue.withLock { $0.hasStyled = true } }
        enqueue(text, .output)
    }

    /// Writes a line. On a terminal, a long line is broken between words. A file or a pipe receives it unchanged.
    func line(_ text: String = "") { write(wrapped(text, .output, if: terminals.output) + "\n") }

    /// Writes a JSON value on one line.
    func json(_ value: ChappieJSON) { write(value.serialized() + "\n") }

    /// Leaves out all notes and statuses from now on, except those that are written in any case.
    func beQuiet() { queue.withLock { $0.isQuiet = true } }

    /// Writes a line for the user, which is never data. On a terminal, a long line is broken between words.
    ///
    /// - Parameter isError: whether the line is written even if notes are left out.
    func note(_ text: String, isError: Bool = false) {
        guard isError || !queue.withLock(\.isQuiet) else { return }
        // A service wrote a part of many messages, which must not look like lines of this program.
        let text = text.hasPrefix("chappie: ") ? text.replacing("\n", with: "\n         ") : text
        enqueue(wrapped(UntrustedText.forTerminal(text), .error, if: terminals.error) + "\n", .error)
    }

    private func wrapped(_ text: String, _ stream: Stream, if isTerminal: Bool) -> String {
        guard isTerminal, let columns = TerminalState.size(of: stream.rawValue)?.columns else { return text }
        return PlainText.wrapped(text, width: columns)
    }

    /// Shows a line on the terminal of standard error. The next output or the next status replaces it. It is not shown
    /// without such a terminal, while the user types a passphrase, or in the background. It is cut at the terminal's
    /// width because a line that wraps cannot be replaced. The hint at its end is shown completely or not at all.
    func status(_ text: String, hint: String = "") {
        guard terminals.draws, !TerminalEcho.isSilent, !queue.withLock(\.isQuiet) else { return }
        let foreground = tcgetpgrp(Stream.error.rawValue)
        guard foreground < 0 || foreground == getpgrp() else {
            // The shell now uses the line.
            return queue.withLock { $0.hasStatus = false }
        }
        let columns = TerminalState.size(of: Stream.error.rawValue)?.columns ?? .max
        let whole = text + hint
        let shown = PlainText.columns(of: whole) < columns ? whole : PlainText.cut(text, to: columns - 1)
        enqueue(shown, .error, isStatus: true)
    }

    func clearStatus() { enqueue("", .error) }

    /// Begins a new line on the terminal after an interruption. After Ctrl-C the terminal discards the output that it
    /// has not shown (NOFLSH in termios(3)), which may include the end of a style. A status is cleared after that,
    /// because many terminals clear a line with the current background colour.
    func leave() {
        guard terminals.error || terminals.output else { return }
        let reset = queue.withLock(\.hasStyled) ? "\u{1B}[0m" : nil
        enqueue("\n", terminals.error ? .error : .output, first: reset)
    }

    // MARK: Writing

    /// Adds text to the queue. The writer takes all text that was added while it wrote.
    ///
    /// - Parameter first: the text that is written before a status is cleared.
    private func enqueue(_ text: String, _ stream: Stream, isStatus: Bool = false, first: String? = nil) {
        enqueue(text.utf8, stream, isStatus: isStatus, first: first)
    }

    private func enqueue(
        _ bytes: some Sequence<UInt8> & Sendable, _ stream: Stream, isStatus: Bool = false, first: String? = nil
    ) {
        queue.withLock { queue in
            if queue.pieces.isEmpty {
                writer.async {
                    for piece in self.queue.withLock({ $0.take() }) { self.write(piece.bytes, piece.stream) }
                }
            }
            if let first { queue.append(first.utf8, stream) }
            if queue.hasStatus || isStatus { queue.append("\r\u{1B}[2K".utf8, .error) }
            queue.hasStatus = isStatus
            queue.append(bytes, stream)
        }
    }

    /// Writes the bytes. After a failure nothing else is written to standard output, because a gap in the middle would
    /// be worse than an early end.
    private func write(_ bytes: [UInt8], _ stream: Stream) {
        guard stream == .error || outputFailure == nil else { return }
        do {
            try sink(stream, bytes)
        } catch {
            guard stream == .output else { return }
            queue.withLock { $0.outputFailure = error }
            if error == .brokenPipe { readerHasLeft.fulfil(.success(())) }
        }
    }

    // MARK: Failures

    /// The reason why standard output could not be written, or `nil` while it can be written.
    var outputFailure: Errno? { queue.withLock(\.outputFailure) }

    /// Waits until everything is written. A cancelled task waits at most 200 ms, in case the reader does read.
    ///
    /// - Throws: `CancellationError` if the text is not written by then.
    func drained() async throws {
        let written = Promise<Void>()
        writer.async { written.fulfil(.success(())) }
        do {
            try await written.value()
        } catch {
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(200)) {
                written.fulfil(.failure(CancellationError()))
            }
            try await uncancelled { try await written.value() }
        }
    }

    /// Ends the process silently, as a command in a pipe does when no process reads its output. This thread may have
    /// blocked the signal.
    static func endByBrokenPipe() -> Never {
        var pipe = sigset_t()
        sigemptyset(&pipe)
        sigaddset(&pipe, SIGPIPE)
        signal(SIGPIPE, SIG_DFL)
        pthread_sigmask(SIG_UNBLOCK, &pipe, nil)
        raise(SIGPIPE)
        _exit(128 + SIGPIPE)
    }
}
