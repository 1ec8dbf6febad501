/// Decodes a Responses stream over server-sent events: bytes in, events out, done at the terminal event.
///
/// Only `data` counts; the `event` field is ignored. `[DONE]` and payloads that are not JSON are passed over
/// (``skippedPayloads`` counts the latter). After a terminal event everything else is ignored, so that no caller waits
/// for the end of the connection.
public struct ResponsesEventDecoder: Sendable {
    private var decoder: ServerSentEventDecoder
    private let limit: Int
    private var eventsReceived = 0

    /// Whether the terminal event has been delivered.
    public private(set) var isFinished = false
    /// Payloads that were neither JSON objects with a type nor `[DONE]`; one that the end of the body cut off is not
    /// among them.
    public private(set) var skippedPayloads = 0

    /// - Parameter maximumEventBytes: bound for one event; default 64 MiB.
    public init(maximumEventBytes: Int = ServerSentEventDecoder.defaultMaximumEventBytes) {
        decoder = ServerSentEventDecoder(maximumEventBytes: maximumEventBytes)
        limit = maximumEventBytes
    }

    /// Takes the next bytes of the body and gives the events that they complete.
    ///
    /// - Throws: ``ResponsesStreamError/eventTooLarge(limitBytes:)``. Not an error: unknown events, malformed payloads.
    public mutating func receivedBytes(_ bytes: [UInt8]) throws(ResponsesStreamError) -> [ResponsesEvent] {
        guard !isFinished else { return [] }
        var intake = Intake()
        var failed = false
        do { try decoder.receivedBytes(bytes) { intake.take($0.data) } } catch { failed = true }
        return try finish(intake, failed: failed)
    }

    /// Ends the body.
    ///
    /// - Throws: ``ResponsesStreamError/endedEarly(eventsReceived:)`` when no terminal event has come.
    public mutating func connectionClosed() throws(ResponsesStreamError) -> [ResponsesEvent] {
        guard !isFinished else { return [] }
        var intake = Intake()
        var failed = false
        do { try decoder.connectionClosed { intake.take($0.data) } } catch { failed = true }
        intake.skipped = 0
        let events = try finish(intake, failed: failed)
        guard isFinished else { throw .endedEarly(eventsReceived: eventsReceived) }
        return events
    }

    private mutating func finish(_ intake: Intake, failed: Bool) throws(ResponsesStreamError) -> [ResponsesEvent] {
        skippedPayloads += intake.skipped
        eventsReceived += intake.events.count
        isFinished = intake.isFinished
        // Events that came whole go out first; the decoder below says again at the next call that it has failed.
        if failed, !isFinished, intake.events.isEmpty { throw .eventTooLarge(limitBytes: limit) }
        return intake.events
    }

    /// The events that one call has gathered.
    private struct Intake {
        var events: [ResponsesEvent] = []
        var skipped = 0
        var isFinished = false

        mutating func take(_ payload: UnsafeBufferPointer<UInt8>) {
            guard !isFinished, !Self.isDoneMarker(payload) else { return }
            do throws(ChappieJSONError) {
                guard let event = try ResponsesEvent.parse(payload) else { return }
                isFinished = event.isTerminal
                events.append(event)
            } catch {
                skipped += 1
            }
        }

        private static func isDoneMarker(_ payload: UnsafeBufferPointer<UInt8>) -> Bool {
            payload.count == 6 && payload.elementsEqual("[DONE]".utf8)
        }
    }
}

/// A Responses stream that ended, or went wrong, before its terminal event.
public enum ResponsesStreamError: Error, Sendable, Hashable {
    /// The stream ended before `response.completed`, `.failed` or `.incomplete`. `eventsReceived` counts what came.
    case endedEarly(eventsReceived: Int)
    /// One event is over the limit.
    case eventTooLarge(limitBytes: Int)
}

extension ResponsesStreamError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .endedEarly(0): "The server closed the stream before it sent anything."
        case .endedEarly: "The server closed the stream before the answer was complete."
        case .eventTooLarge(let limit): "The server sent a single event of more than \(limit) bytes."
        }
    }
}
