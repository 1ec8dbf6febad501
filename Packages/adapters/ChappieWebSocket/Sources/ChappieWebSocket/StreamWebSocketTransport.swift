@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes

/// A transport that opens connections for bytes in both directions. A WebSocket needs nothing else of a platform's
/// network.
public protocol ByteStreamTransport: Sendable {
    /// Connects, with TLS if `isSecure`, under the network policy of the adapter: trust, minimum TLS version, proxy.
    ///
    /// ``StreamWebSocketTransport`` limits the time by cancelling the task.
    ///
    /// - Parameters:
    ///   - host: A name, or an address without brackets.
    ///   - port: The port, from 1 to 65535.
    ///   - isSecure: Whether to use TLS. It is `false` only for loopback hosts.
    /// - Throws: ``ChappieTransportError`` with stage `.connect` or `.tls`, or `CancellationError`.
    func connect(host: String, port: Int, isSecure: Bool) async throws -> any ByteStream
}

/// An open connection, for one sender and one receiver at a time.
public protocol ByteStream: Sendable {
    /// Sends `bytes`. Returns after the network has accepted all of them, which may take a long time.
    ///
    /// - Throws: Any error if the peer accepts no more bytes. Bytes that the peer sent before may still be received.
    func send(_ bytes: [UInt8]) async throws

    /// Returns the next bytes as soon as there are some, at least one and at most `limit`. Returns `nil` at the end.
    ///
    /// - Throws: Any error if the connection broke.
    func receive(atMost limit: Int) async throws -> [UInt8]?

    /// Ends the connection at once. Calls that wait also end. May be called more than once.
    func close()
}

/// A ``WebSocketTransport`` with our own RFC 6455 codec over any ``ByteStreamTransport``, for platforms without
/// libcurl. ChappieURLSession has the conformance over Network.framework.
///
/// - A message may have 64 MiB, and a frame 16 MiB. `send` refuses a longer message with code `.bodyTooLarge`. At most
///   about 4 MiB are read ahead of the receiver, except that a message that was begun is read to its end.
/// - ``ChappieDeadlines/connect`` limits the time until the stream is open, and ``ChappieDeadlines/upgrade`` the time
///   until the server answers. The peer is pinged after half of ``ChappieDeadlines/liveness`` without a byte from it.
public final class StreamWebSocketTransport: WebSocketTransport {
    private let streams: any ByteStreamTransport
    private let deadlines: ChappieDeadlines
    private let offersCompression: Bool

    /// Creates a transport.
    ///
    /// - Parameters:
    ///   - streams: The transport that opens the connections.
    ///   - deadlines: The deadlines, of which `connect`, `upgrade` and `liveness` are used.
    ///   - offersCompression: Whether messages may be compressed (RFC 7692). The default is `true`.
    public init(
        over streams: any ByteStreamTransport, deadlines: ChappieDeadlines = .default, offersCompression: Bool = true
    ) {
        self.streams = streams
        self.deadlines = deadlines
        self.offersCompression = offersCompression
    }

    /// Opens a WebSocket and returns when the server has answered the handshake.
    ///
    /// - Throws: ``ChappieTransportError``, with stage `.configuration` before anything is sent, `.connect` or `.tls`
    ///   if there is no connection, `.responseHead` if the answer is missing or doesn't answer a handshake.
    ///   `CancellationError` as soon as the task is cancelled. No status code is an error.
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

/// A mover that moves bytes between a session and a stream, in its own task.
private final class StreamWebSocketMover: WebSocketMover {
    private enum Event: Sendable {
        case woken
        case connected(any ByteStream)
        case notConnected(any Error)
        /// Received bytes, or `nil` at the end and for a connection that broke.
        case received([UInt8]?)
        case sent(Int, since: Int)
        case sendingBroke
    }

    /// The maximum number of bytes that are received at once.
    private static let pieceBytes = 64 << 10
    /// The duration after which a send has waited for the peer. The end of such a send is a sign of life.
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

    /// Starts the task, which retains the mover until the session has ended.
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
        // This closes a connection that was opened too late.
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
