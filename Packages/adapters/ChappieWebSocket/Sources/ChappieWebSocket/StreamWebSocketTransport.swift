@_spi(ChappieInternals) public import ChappieCore
public import FoundationEssentials
public import HTTPTypes

/// Opens connections that carry bytes both ways: what a WebSocket needs of a platform's network.
public protocol ByteStreamTransport: Sendable {
    /// Connects, with TLS if `isSecure`, under the network policy of the adapter: trust, oldest version, proxy.
    ///
    /// ``StreamWebSocketTransport`` bounds the time by cancelling the task.
    ///
    /// - Parameters:
    ///   - host: A name, or an address without brackets.
    ///   - port: From 1 to 65535.
    ///   - isSecure: `false` for loopback hosts only.
    /// - Throws: ``ChappieTransportError`` with stage `.connect` or `.tls`; `CancellationError`.
    func connect(host: String, port: Int, isSecure: Bool) async throws -> any ByteStream
}

/// An open connection, for one sender and one receiver at a time.
public protocol ByteStream: Sendable {
    /// Returns once the network has taken all of `bytes`, which may take long.
    ///
    /// - Throws: Any error if the peer takes nothing more. Bytes that it sent before may still be received.
    func send(_ bytes: [UInt8]) async throws

    /// The next bytes, as soon as there are some: at least one, at most `limit`. `nil` at the end.
    ///
    /// - Throws: Any error if the connection broke.
    func receive(atMost limit: Int) async throws -> [UInt8]?

    /// Ends the connection at once; calls that wait end, too. May be called more than once.
    func close()
}

/// ``WebSocketTransport`` with our own RFC 6455 codec over any ``ByteStreamTransport``, for platforms without libcurl. An
/// adapter over Network.framework is one conformance to it.
///
/// - A message may have 64 MiB, a frame 16 MiB, and `send` refuses what is longer with code `.bodyTooLarge`. At most some
///   4 MiB are read ahead of the receiver, except that a message that was begun is read to its end.
/// - ``ChappieDeadlines/connect`` bounds the time until the stream is open, ``ChappieDeadlines/upgrade`` the time until
///   the server answers. The peer is pinged after half of ``ChappieDeadlines/liveness`` without a byte from it.
public final class StreamWebSocketTransport: WebSocketTransport {
    private let streams: any ByteStreamTransport
    private let deadlines: ChappieDeadlines
    private let offersCompression: Bool

    /// - Parameters:
    ///   - streams: Connects.
    ///   - deadlines: `connect`, `upgrade` and `liveness` count.
    ///   - offersCompression: Whether messages may travel compressed (RFC 7692). Default `true`.
    public init(
        over streams: any ByteStreamTransport, deadlines: ChappieDeadlines = .default, offersCompression: Bool = true
    ) {
        self.streams = streams
        self.deadlines = deadlines
        self.offersCompression = offersCompression
    }

    /// - Throws: ``ChappieTransportError``: stage `.configuration` before anything is sent, `.connect` or `.tls` if there is
    ///   no connection, `.responseHead` if the answer is missing or doesn't answer a handshake; `CancellationError` as
    ///   soon as the task is cancelled. No status code is an error.
    public func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        let origin = try Origin(of: url, for: .webSocket)
        let session = try WebSocketSession(
            opening: url, at: origin, headerFields: headerFields, offersCompression: offersCompression,
            deadlines: deadlines)
        try Task.checkCancellation()
        let shared = SharedWebSocketSession(session)
        StreamWebSocketMover(shared, to: origin, over: streams).start()
        return try await shared.opening().opening(of: shared)
    }
}

/// Moves bytes between a session and a stream, in a task of its own.
private final class StreamWebSocketMover: WebSocketMover {
    private enum Event: Sendable {
        case woken
        case connected(any ByteStream)
        case notConnected(any Error)
        /// `nil` for the end, and for a connection that broke.
        case received([UInt8]?)
        case sent(Int, since: Int)
        case sendingBroke
    }

    /// The most bytes that are received at once.
    private static let pieceBytes = 64 << 10
    /// A send that takes longer has waited for the peer: its end is a sign of life.
    private static let blockedAfter = Duration.milliseconds(100).nanoseconds

    private let shared: SharedWebSocketSession
    private let origin: Origin
    private let streams: any ByteStreamTransport
    private let events: AsyncStream<Event>
    private let sink: AsyncStream<Event>.Continuation

    init(_ shared: SharedWebSocketSession, to origin: Origin, over streams: any ByteStreamTransport) {
        self.shared = shared
        self.origin = origin
        self.streams = streams
        (events, sink) = AsyncStream.makeStream()
        shared.attach(self)
    }

    func wake() { sink.yield(.woken) }

    /// The task keeps the mover until the session is over.
    func start() { Task { await run() } }

    private func run() async {
        let connecting = Task { [streams, origin, sink] in
            do {
                let secure = origin.scheme == .https
                let host = origin.host.filter { !"[]".contains($0) }
                let stream = try await streams.connect(host: host, port: origin.port, isSecure: secure)
                if case .terminated = sink.yield(.connected(stream)) { stream.close() }
            } catch {
                sink.yield(.notConnected(error))
            }
        }
        var stream: (any ByteStream)?
        var isReceiving = false
        var isSending = false
        var alarm: (task: Task<Void, Never>, moment: Int)?
        sink.yield(.woken)
        for await event in events {
            let now = LoopClock.now
            var piece: [UInt8]?
            var receives = false
            let verdict = shared.visit(at: now) { session in
                switch event {
                case .woken: break
                case .connected(let new):
                    stream = new
                    session.connected(at: now)
                case .notConnected(let error): session.failed(connectError(error))
                case .received(let bytes):
                    isReceiving = false
                    receive(bytes, in: &session, at: now)
                case .sent(let count, let since):
                    isSending = false
                    session.wrote(count, at: now, wasBlocked: now - since > Self.blockedAfter)
                case .sendingBroke:
                    isSending = false
                    session.writingBroke()
                }
                session.timeHasPassed(until: now) { allowance in
                    connectError(.timedOut, "not connected within \(allowance.words)")
                }
                guard stream != nil else { return }
                receives = session.beginsReading(isReadable: true, at: now) && !isReceiving
                if !isSending, let (bytes, range) = session.outbox.nextPiece {
                    piece = Array(bytes[range])
                    session.outbox.blocked(at: now)
                }
            }
            guard case .stay(_, _, let until, _) = verdict else { break }
            if let stream, receives {
                isReceiving = true
                Task { [sink] in sink.yield(.received(try? await stream.receive(atMost: Self.pieceBytes))) }
            }
            if let stream, let bytes = piece {
                isSending = true
                Task { [sink] in
                    do {
                        try await stream.send(bytes)
                        sink.yield(.sent(bytes.count, since: now))
                    } catch {
                        sink.yield(.sendingBroke)
                    }
                }
            }
            guard alarm?.moment != until || until.map({ $0 <= now }) == true else { continue }
            alarm?.task.cancel()
            alarm = until.map { moment in
                let task = Task { [sink] in
                    try? await Task.sleep(for: .nanoseconds(max(0, moment - LoopClock.now)))
                    if !Task.isCancelled { sink.yield(.woken) }
                }
                return (task, moment)
            }
        }
        alarm?.task.cancel()
        connecting.cancel()
        sink.finish()
        stream?.close()
        // A connection that came too late.
        for await event in events { if case .connected(let stream) = event { stream.close() } }
    }

    private func receive(_ bytes: [UInt8]?, in session: inout WebSocketSession, at now: Int) {
        guard let bytes else { return session.connectionEnded() }
        bytes.withUnsafeBytes { session.received($0, at: now) }
        session.endedReading(hasMore: false, at: now)
    }

    private func connectError(_ error: any Error) -> ChappieTransportError {
        error as? ChappieTransportError ?? connectError(.connectFailed, "\(error)")
    }

    private func connectError(_ code: ChappieTransportError.Code, _ reason: String) -> ChappieTransportError {
        ChappieTransportError(code, stage: .connect, host: origin.label, reason: reason)
    }
}
