/// A decoder for a Responses stream over server-sent events. It takes bytes and returns events, until the terminal
/// event.
///
/// The decoder skips `[DONE]` and payloads that are not JSON. ``skippedPayloads`` counts the latter. After a terminal
/// event it ignores everything else, so that no caller waits for the end of the connection.
public struct ResponsesEventDecoder: Sendable {
    private var decoder: ServerSentEventDecoder
    private var eventsReceived = 0

    /// Whether the terminal event has been delivered.
    public private(set) var isFinished = false
    /// The number of payloads that were neither JSON objects with a type nor `[DONE]`. A payload that was cut off by
    /// the end of the body does not count.
    public private(set) var skippedPayloads = 0

    /// Creates a decoder.
    ///
    /// - Parameter maximumEventBytes: The limit for one event. Default 64 MiB.
    public init(maximumEventBytes: Int = 64 << 20) {
        decoder = ServerSentEventDecoder(maximumEventBytes: maximumEventBytes)
    }

    /// Takes the next bytes of the body and returns the events that they complete.
    ///
    /// - Throws: ``ResponsesStreamError/eventTooLarge(limitBytes:)``. Unknown events and malformed payloads are not
    ///   errors.
    public mutating func receivedBytes(_ bytes: [UInt8]) throws(ResponsesStreamError) -> [ResponsesEvent] {
        try events { decoder, take throws(ResponsesStreamError) in try decoder.receivedBytes(bytes, deliver: take) }
    }

    /// Ends the body and returns the events that it completes.
    ///
    /// - Throws: ``ResponsesStreamError/endedEarly(eventsReceived:)`` if no terminal event has arrived.
    public mutating func connectionClosed() throws(ResponsesStreamError) -> [ResponsesEvent] {
        let skipped = skippedPayloads
        let events = try events { decoder, take throws(ResponsesStreamError) in
            try decoder.connectionClosed(deliver: take)
        }
        skippedPayloads = skipped
        guard isFinished else { throw .endedEarly(eventsReceived: eventsReceived) }
        return events
    }

    private mutating func events(
        _ read: (inout ServerSentEventDecoder, ServerSentEventDecoder.Delivery) throws(ResponsesStreamError) ->
            Void
    ) throws(ResponsesStreamError) -> [ResponsesEvent] {
        guard !isFinished else { return [] }
        var events: [ResponsesEvent] = []
        var skipped = 0
        defer {
            skippedPayloads += skipped
            eventsReceived += events.count
            isFinished = events.last?.isTerminal == true
        }
        do {
            try read(&decoder) { payload in
                guard events.last?.isTerminal != true, !ByteScanner.equal(payload, "[DONE]") else { return }
                do throws(ChappieJSONError) {
                    if let event = try ResponsesEvent.parse(payload) { events.append(event) }
                } catch {
                    skipped += 1
                }
            }
        } catch {
            // This call first returns the complete events. The next call throws again.
            if events.isEmpty { throw error }
        }
        return events
    }
}
