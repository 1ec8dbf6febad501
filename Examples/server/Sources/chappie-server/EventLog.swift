import ChappieSDK
import HTTPTypes
import Hummingbird
import Synchronization

/// The events of a turn or of a sign-in, for readers who begin late or come back. Its form is that of server-sent events.
final class EventLog: Sendable {
    private struct Frame {
        /// The number of bytes from the beginning of the log to the end of this event.
        let end: Int
        let text: String
    }

    private struct State {
        var frames: [Frame] = []
        /// The number of events before the first one of `frames`.
        var dropped = 0
        var size = 0
        /// The size at which earlier events are dropped.
        var limit = EventLog.limit
        var answer = ""
        var endedAt: ContinuousClock.Instant?
        var isComplete = false
        var readers: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastReader = 0
    }

    private static let limit = 1 << 20

    /// Separates this log from the logs of other machines in the ids of events.
    private let name = String(UInt32.random(in: 1 ... .max), radix: 36)
    private let state = Mutex(State())

    /// The time when the log ended, or `nil` before.
    var endedAt: ContinuousClock.Instant? { state.withLock(\.endedAt) }
    /// Whether the log has ended with the result.
    var isComplete: Bool { state.withLock(\.isComplete) }

    // MARK: Writing

    /// Adds an event.
    func add(_ event: String, _ data: ChappieJSON = [:]) {
        state.withLock { add(event, data, to: &$0) }
    }

    /// Adds a piece of the answer.
    func add(delta: String) {
        state.withLock { state in
            state.answer += delta
            add("delta", .string(delta), to: &state)
            guard state.size > state.limit else { return }
            state.dropped += state.frames.count
            state.frames = []
            restart(&state)
            state.limit = state.size + Self.limit
        }
    }

    /// Takes back the end of the answer.
    func discard(_ end: String) {
        state.withLock { state in
            if state.answer.hasSuffix(end) { state.answer.removeLast(end.count) }
            restart(&state)
        }
    }

    /// Ends the log with the result. Without one, the turn continues in another log.
    func end(_ event: String? = nil, _ data: ChappieJSON = [:]) {
        state.withLock { state in
            if let event { add(event, data, to: &state) }
            state.isComplete = event != nil
            state.endedAt = .now
            for reader in state.readers.values { reader.finish() }
        }
    }

    private func restart(_ state: inout State) {
        add("restart", [:], to: &state)
        if !state.answer.isEmpty { add("delta", .string(state.answer), to: &state) }
    }

    private func add(_ event: String, _ data: ChappieJSON, to state: inout State) {
        let text = frame(event, data)
        state.size += text.utf8.count
        state.frames.append(Frame(end: state.size, text: "id: \(name)-\(state.size)\n\(text)"))
        for reader in state.readers.values { reader.yield() }
    }

    // MARK: Reading

    /// Sends the events to a reader until the log ends.
    func send(to reader: inout EventReader) async throws {
        var next = 0
        if let id = reader.lastID {
            if let position = position(after: id) {
                next = position
            } else {
                // The reader has a part of the answer from another log.
                try await reader.restart()
            }
        }
        let (changes, change) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.lastReader += 1
            state.readers[state.lastReader] = change
            change.yield()
            if state.endedAt != nil { change.finish() }
            return state.lastReader
        }
        // A silent connection would pass for a broken one.
        let pulse = Task {
            while (try? await Task.sleep(for: .seconds(15))) != nil { change.yield() }
        }
        defer {
            pulse.cancel()
            state.withLock { $0.readers[number] = nil }
        }
        for await _ in changes { try await sendNew(after: &next, to: &reader) }
        try await sendNew(after: &next, to: &reader)
    }

    private func sendNew(after next: inout Int, to reader: inout EventReader) async throws {
        let (text, size) = state.withLock { [next] state in
            (state.frames.dropFirst(next - state.dropped).map(\.text).joined(), state.size)
        }
        guard !text.isEmpty else { return try await reader.comment() }
        next = state.withLock { state in
            state.dropped + (state.frames.firstIndex { $0.end > size } ?? state.frames.count)
        }
        try await reader.write(text, lastID: "\(name)-\(size)")
    }

    /// Returns the number of events up to the one with this id, or `nil` if it is an event of another log.
    private func position(after id: String) -> Int? {
        let parts = id.split(separator: "-")
        guard parts.count == 2, parts[0] == name, let size = Int(parts[1]) else { return nil }
        return state.withLock { state in
            state.dropped + (state.frames.firstIndex { $0.end > size } ?? state.frames.count)
        }
    }
}

/// A page that reads events.
struct EventReader: ~Copyable {
    private var writer: any ResponseBodyWriter
    /// The id of the last event that the page has, or `nil` if it has none.
    private(set) var lastID: String?
    private var lastWrite = ContinuousClock.now

    init(_ writer: any ResponseBodyWriter, lastID: String?) {
        self.writer = writer
        self.lastID = lastID
    }

    mutating func write(_ text: String, lastID: String? = nil) async throws {
        self.lastID = lastID ?? self.lastID
        lastWrite = .now
        try await writer.write(ByteBuffer(string: text))
    }

    /// Sends an event that is in no log.
    mutating func send(_ event: String, _ data: ChappieJSON) async throws { try await write(frame(event, data)) }

    /// Makes the page forget the part of the answer that it has.
    mutating func restart() async throws {
        guard lastID != nil else { return }
        try await write("id:\n" + frame("restart", [:]))
        lastID = nil
    }

    /// Sends a comment if nothing was sent for a while. It throws if the page has closed the connection.
    mutating func comment() async throws {
        if lastWrite.duration(to: .now) > .seconds(10) { try await write(":\n\n") }
    }

    consuming func finish() async throws { try await writer.finish(nil) }
}

private func frame(_ event: String, _ data: ChappieJSON) -> String {
    "event: \(event)\ndata: \(data.serialized())\n\n"
}

extension Response {
    /// Returns a response with the events that `send` writes.
    static func events(
        for request: Request, _ send: @escaping @Sendable (inout EventReader) async throws -> Void
    ) -> Response {
        let lastID = request.headers[HTTPField.Name("Last-Event-ID")!].flatMap { $0.isEmpty ? nil : $0 }
        let headers: HTTPFields = [
            .contentType: "text/event-stream", .cacheControl: "no-store", HTTPField.Name("X-Accel-Buffering")!: "no",
        ]
        return Response(
            status: .ok, headers: headers,
            body: ResponseBody { writer in
                var reader = EventReader(writer, lastID: lastID)
                try await reader.write("retry: 300\n\n")
                try await send(&reader)
                try await reader.finish()
            })
    }
}
