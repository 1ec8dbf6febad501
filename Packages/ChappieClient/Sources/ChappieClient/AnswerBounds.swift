@_spi(ChappieInternals) import ChappieCore

/// Bounds one answer: how large it may become, and how long its events may take; sans-IO.
///
/// Comments, pings and messages that are no events keep a connection alive, but bring no answer: silence is counted from
/// event to event.
struct AnswerBounds: Sendable {
    private let host: String
    private let stage: ChappieTransportError.Stage
    private let firstEvent: Duration
    private let nextEvent: Duration
    private let limit: Int
    private var byteCount = 0
    private var lastEvent: Duration
    private var hasEvents = false

    /// - Parameters:
    ///   - host: the backend's, for errors.
    ///   - stage: of the transport, for errors.
    ///   - firstEvent: how long the first event may take.
    ///   - nextEvent: how long each further event may take.
    ///   - now: when the request went out.
    ///   - limit: in bytes; default 256 MiB, many times what any model says. It bounds what is kept of an answer, and what
    ///     waits for a reader that has stopped.
    init(
        host: String, stage: ChappieTransportError.Stage, firstEvent: Duration, nextEvent: Duration, now: Duration,
        limit: Int = 256 << 20
    ) {
        self.host = host
        self.stage = stage
        self.firstEvent = firstEvent
        self.nextEvent = nextEvent
        self.limit = limit
        lastEvent = now
    }

    /// How long the next event may take from now on.
    ///
    /// - Throws: code `.timedOut` when its time is over.
    func timeLeft(at now: Duration) throws(ChappieTransportError) -> Duration {
        let allowance = hasEvents ? nextEvent : firstEvent
        let left = allowance - (now - lastEvent)
        guard left > .zero else {
            throw ChappieTransportError(
                .timedOut, stage: stage, host: host,
                reason: "no event within \(allowance.words), though the connection is alive")
        }
        return left
    }

    /// - Throws: code `.bodyTooLarge`.
    mutating func received(bytes count: Int) throws(ChappieTransportError) {
        guard count <= limit - byteCount else {
            throw ChappieTransportError(
                .bodyTooLarge, stage: .responseBody, host: host, reason: "the answer is over \(limit) bytes")
        }
        byteCount += count
    }

    mutating func receivedEvent(at now: Duration) {
        hasEvents = true
        lastEvent = now
    }
}

extension HTTPExchangeResponse {
    /// In bytes; what follows of an error's body is left out.
    static let errorBodyLimit = 1 << 20

    /// Reads the body of an answer that is an error, as far as it comes within `allowance`, and ends it.
    ///
    /// A body's own deadlines are for a model that thinks. A page that never ends must not hold up the other way to the
    /// backend, and a connection that breaks behind a usage limit does not make it another error.
    ///
    /// - Parameter clock: the machine's own by default, as with the transports' deadlines; a client's clock is for pauses.
    /// - Throws: `CancellationError`. A body that breaks off is not an error.
    func errorBody(
        within allowance: Duration = .seconds(5), clock: any ChappieClock = SystemClock()
    ) async throws -> [UInt8] {
        let timer = Task { [body] in
            try await clock.sleep(for: allowance)
            body.cancel()
        }
        defer {
            timer.cancel()
            body.cancel()
        }
        var bytes: [UInt8] = []
        do {
            while bytes.count < Self.errorBodyLimit, let chunk = try await body.next() {
                bytes += chunk.prefix(Self.errorBodyLimit - bytes.count)
            }
        } catch {}  // It broke off, or ran out of time.
        try Task.checkCancellation()
        return bytes
    }
}
