@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieProcess
import Dispatch
import Glibc
import Synchronization

/// The lines that the user finishes with Return while a turn runs.
///
/// The terminal collects a line and does not show it. Text without Return stays in the terminal, so that it is in the
/// line of the next prompt.
final class TypedLines: Sendable {
    /// Takes a line into the running turn, and returns whether the turn has it.
    typealias Take = @Sendable (String) async -> Bool

    private struct State {
        /// The lines that wait for the end of the turn.
        var waiting: [String] = []
        /// The lines that the turn has taken.
        var taken: [String] = []
        var take: Take?
        var reading: Reading?
    }

    /// The thread that reads, and the task that gives its lines to the turn.
    private struct Reading {
        let bell: Descriptor
        let delivery: Task<Void, Never>
    }

    private let state = Mutex(State())
    /// Starts and stops one after the other.
    private let lock = AsyncLock()

    /// Takes the next line that waited for the end of the turn.
    func next() -> String? { state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() } }

    /// Returns the lines that the last turn has taken, once.
    func takenLines() -> [String] {
        state.withLock { state in
            defer { state.taken = [] }
            return state.taken
        }
    }

    /// Runs `work`, and offers each line that the user finishes in the meantime to `take`. Commands and refused lines
    /// wait until ``next()``.
    func during<Output>(_ work: () async throws -> Output, take: @escaping Take) async throws -> Output {
        state.withLock { $0.take = take }
        await start()
        do {
            let output = try await work()
            await stop()
            return output
        } catch {
            await stop()
            throw error
        }
    }

    /// Runs `work`, which reads the terminal itself.
    func paused<Output>(_ work: () async throws -> Output) async throws -> Output {
        await pause()
        do {
            let output = try await work()
            await start()
            return output
        } catch {
            await start()
            throw error
        }
    }

    private func stop() async {
        state.withLock { $0.take = nil }
        await pause()
    }

    /// Begins to read, if a turn takes lines.
    private func start() async {
        await alone {
            guard let take = self.state.withLock({ $0.reading == nil ? $0.take : nil }) else { return }
            // Without a pipe, the lines wait in the terminal for the next prompt.
            guard let bell = try? Descriptor.pipe() else { return }
            let (lines, continuation) = AsyncStream<String>.makeStream()
            let delivery = Task {
                for await line in lines {
                    let isTaken = line.hasPrefix("/") ? false : await take(line)
                    self.state.withLock { isTaken ? $0.taken.append(line) : $0.waiting.append(line) }
                }
            }
            self.state.withLock { $0.reading = Reading(bell: bell.writer, delivery: delivery) }
            DispatchQueue(label: "chappie.typed").async {
                while let line = Self.line(until: bell.reader.number) { continuation.yield(line) }
                continuation.finish()
            }
        }
    }

    /// Ends reading, and waits until every line that was read is delivered.
    private func pause() async {
        await alone {
            guard let reading = self.state.withLock({ $0.reading.take() }) else { return }
            try? reading.bell.write([0])
            await reading.delivery.value
        }
    }

    private func alone(_ work: @escaping @Sendable () async -> Void) async {
        await uncancelled { [lock] in try? await lock.alone(work) }
    }

    /// Returns the next lines that arrive together, as one text, or `nil` when the bell rings.
    private static func line(until bell: CInt) -> String? {
        while true {
            var waiting = [STDIN_FILENO, bell].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            while poll(&waiting, 2, -1) < 0, errno == EINTR {}
            guard waiting[1].revents == 0, waiting[0].revents & Int16(POLLHUP) == 0 else { return nil }
            guard canRead else {
                // The shell or another program reads the keys now.
                var bell = pollfd(fd: bell, events: Int16(POLLIN), revents: 0)
                poll(&bell, 1, 200)
                continue
            }
            var bytes: [UInt8] = []
            repeat {
                guard let piece = try? Descriptor.standardInput.read(atMost: 4096), !piece.isEmpty else { break }
                bytes += piece
            } while bytes.count < 64 << 10 && Descriptor.standardInput.wait(for: POLLIN, limit: .zero) == true
            let text = String(decoding: bytes, as: UTF8.self).trimmedEnd
            if text.contains(where: { !$0.isWhitespace }) { return text }
        }
    }

    /// Whether this process is in the foreground and the terminal collects lines.
    private static var canRead: Bool {
        var settings = termios()
        return TerminalState.isForeground(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &settings) == 0
            && settings.c_lflag & tcflag_t(ICANON) != 0
    }
}

/// A reader that asks the user while no typed line steers the turn.
struct PausingLineReader: LineReader {
    let reader: any LineReader
    let typed: TypedLines

    func read(_ question: Question) async throws -> LineEditor.Entry? {
        try await typed.paused { try await reader.read(question) }
    }
}
