import Synchronization

/// One HTTP/1.1 request as it arrived, its body whole and its transfer coding removed.
public struct ReceivedRequest: Sendable {
    /// The method in capitals.
    public let method: String
    /// The request target as written on the request line: path and query, still percent-encoded.
    public let target: String
    /// Every header field in the order it came, names in the sender's spelling, repeats kept.
    public let headerFields: [(name: String, value: String)]
    /// The body without chunked framing; a content coding (zstd) is still on.
    public let body: [UInt8]
    /// Which connection it came on: 0 is the first one the server accepted.
    public let connection: Int

    /// A request made by hand.
    public init(
        method: String, target: String, headerFields: [(name: String, value: String)] = [], body: [UInt8] = [],
        connection: Int = 0
    ) {
        self.method = method
        self.target = target
        self.headerFields = headerFields
        self.body = body
        self.connection = connection
    }

    /// The value of the first field called `name`, in any case.
    public func header(_ name: String) -> String? {
        let wanted = name.lowercased()
        return headerFields.first { $0.name.lowercased() == wanted }?.value
    }
}

/// One WebSocket message as a client sent it.
public struct ReceivedMessage: Sendable, Hashable {
    /// Which connection it came on: as ``ReceivedRequest/connection``.
    public let connection: Int
    /// Whether it is text; otherwise it is binary.
    public let isText: Bool
    /// The whole payload, unmasked, defragmented and decompressed.
    public let body: [UInt8]
    /// Whether it was compressed on the wire.
    public let isCompressed: Bool
    /// How many frames it came in.
    public let frameCount: Int
    /// Bytes it took on the wire, frame headers included.
    public let wireByteCount: Int
}

/// The counts of one WebSocket connection, for tests.
public struct SimulatorWebSocketConnection: Sendable, Hashable {
    /// Which connection it is: as ``ReceivedRequest/connection``.
    public let connection: Int
    /// Whether permessage-deflate was agreed.
    public let isCompressed: Bool
    /// Whether it is still open.
    public internal(set) var isOpen = true
    /// Messages the client has sent.
    public internal(set) var messageCount = 0
    /// Bytes of those messages.
    public internal(set) var payloadByteCountReceived = 0
    /// Bytes they took on the wire, frame headers included.
    public internal(set) var wireByteCountReceived = 0
    /// Bytes sent to the client since the handshake, frame headers included, as the kernel has taken them.
    public internal(set) var byteCountSent = 0
    /// Pings the client has sent.
    public internal(set) var pingCount = 0
    /// Pongs the client has sent.
    public internal(set) var pongCount = 0
    /// Whether the client has sent a close frame.
    public internal(set) var hasSentClose = false
    /// The code of that frame; `nil` when it had none.
    public internal(set) var closeCode: UInt16?

    init(connection: Int, isCompressed: Bool) {
        self.connection = connection
        self.isCompressed = isCompressed
    }
}

/// A listener's connections and requests, readable from any thread.
final class ConnectionLedger: Sendable {
    struct Entries {
        fileprivate(set) var receivedRequests: [ReceivedRequest] = []
        fileprivate(set) var receivedMessages: [ReceivedMessage] = []
        fileprivate(set) var connectionCount = 0
        fileprivate(set) var openConnectionCount = 0
        fileprivate(set) var bytesWritten = 0
        fileprivate var recordedBytes = 0
        fileprivate var webSockets: [Int: SimulatorWebSocketConnection] = [:]
        /// Their numbers in the order of the handshakes.
        fileprivate var webSocketOrder: [Int] = []

        var webSocketConnections: [SimulatorWebSocketConnection] { webSocketOrder.compactMap { webSockets[$0] } }
    }

    /// WebSockets that are remembered, the newest.
    private static let webSocketLimit = 20_000

    private let state = Mutex(Entries())
    private let recordLimit: Int
    private let byteLimit: Int

    /// - Parameters:
    ///   - recordLimit: how many requests are kept, the newest; and how many messages.
    ///   - byteLimit: how many bytes their bodies may have together.
    init(recordLimit: Int = .max, byteLimit: Int = .max) {
        self.recordLimit = recordLimit
        self.byteLimit = byteLimit
    }

    var entries: Entries { state.withLock { $0 } }

    /// - Returns: the number of the new connection, counted from 0.
    func connectionOpened() -> Int {
        state.withLock {
            $0.connectionCount += 1
            $0.openConnectionCount += 1
            return $0.connectionCount - 1
        }
    }

    func connectionClosed(_ number: Int) {
        state.withLock {
            $0.openConnectionCount -= 1
            $0.webSockets[number]?.isOpen = false
        }
    }

    func received(_ request: ReceivedRequest) {
        state.withLock {
            $0.receivedRequests.append(request)
            $0.recordedBytes += request.body.count
            makeRoom(&$0)
        }
    }

    func received(_ message: ReceivedMessage) {
        state.withLock {
            $0.webSockets[message.connection]?.messageCount += 1
            $0.webSockets[message.connection]?.payloadByteCountReceived += message.body.count
            $0.webSockets[message.connection]?.wireByteCountReceived += message.wireByteCount
            $0.receivedMessages.append(message)
            $0.recordedBytes += message.body.count
            makeRoom(&$0)
        }
    }

    func wrote(bytes: Int, onWebSocket number: Int?) {
        state.withLock {
            $0.bytesWritten += bytes
            if let number { $0.webSockets[number]?.byteCountSent += bytes }
        }
    }

    func upgraded(_ number: Int, isCompressed: Bool) {
        state.withLock {
            $0.webSockets[number] = SimulatorWebSocketConnection(connection: number, isCompressed: isCompressed)
            $0.webSocketOrder.append(number)
            guard $0.webSocketOrder.count > Self.webSocketLimit else { return }
            for old in $0.webSocketOrder.prefix(Self.webSocketLimit / 10) { $0.webSockets[old] = nil }
            $0.webSocketOrder.removeFirst(Self.webSocketLimit / 10)
        }
    }

    /// Notes something about a WebSocket that is still remembered.
    func note(_ number: Int, _ change: (inout SimulatorWebSocketConnection) -> Void) {
        state.withLock { entries in
            guard var connection = entries.webSockets[number] else { return }
            change(&connection)
            entries.webSockets[number] = connection
        }
    }

    private func makeRoom(_ entries: inout Entries) {
        func isFull(_ count: Int) -> Bool { count > recordLimit || entries.recordedBytes > byteLimit && count > 0 }
        while isFull(entries.receivedRequests.count) {
            entries.recordedBytes -= entries.receivedRequests.removeFirst().body.count
        }
        while isFull(entries.receivedMessages.count) {
            entries.recordedBytes -= entries.receivedMessages.removeFirst().body.count
        }
    }
}
