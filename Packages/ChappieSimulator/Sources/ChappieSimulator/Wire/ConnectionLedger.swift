import Synchronization

/// What a listener has seen, readable from any thread.
final class ConnectionLedger: Sendable {
    private struct Entries {
        var receivedRequests: [ReceivedRequest] = []
        var recordedBytes = 0
        var connectionCount = 0
        var openConnectionCount = 0
        var bytesWritten = 0
        var receivedMessages: [ReceivedMessage] = []
        var webSockets: [Int: SimulatorWebSocketConnection] = [:]
        /// Their numbers in the order of the handshakes.
        var webSocketOrder: [Int] = []
    }

    /// WebSockets that are remembered, the newest.
    private static let webSocketLimit = 20_000

    private let entries = Mutex(Entries())
    private let recordLimit: Int
    private let byteLimit: Int

    /// - Parameters:
    ///   - recordLimit: how many requests are kept, the newest.
    ///   - byteLimit: how many bytes their bodies may have together.
    init(recordLimit: Int = .max, byteLimit: Int = .max) {
        self.recordLimit = recordLimit
        self.byteLimit = byteLimit
    }

    var receivedRequests: [ReceivedRequest] { entries.withLock { $0.receivedRequests } }
    var connectionCount: Int { entries.withLock { $0.connectionCount } }
    var openConnectionCount: Int { entries.withLock { $0.openConnectionCount } }
    var bytesWritten: Int { entries.withLock { $0.bytesWritten } }
    var receivedMessages: [ReceivedMessage] { entries.withLock { $0.receivedMessages } }
    var webSocketConnections: [SimulatorWebSocketConnection] {
        entries.withLock { entries in entries.webSocketOrder.compactMap { entries.webSockets[$0] } }
    }

    /// - Returns: the number of the new connection, counted from 0.
    func connectionOpened() -> Int {
        entries.withLock {
            $0.connectionCount += 1
            $0.openConnectionCount += 1
            return $0.connectionCount - 1
        }
    }

    func connectionClosed(_ number: Int) {
        entries.withLock {
            $0.openConnectionCount -= 1
            $0.webSockets[number]?.isOpen = false
        }
    }

    func received(_ request: ReceivedRequest) {
        entries.withLock {
            $0.receivedRequests.append(request)
            $0.recordedBytes += request.body.count
            makeRoom(&$0)
        }
    }

    func wrote(bytes: Int, onWebSocket number: Int? = nil) {
        entries.withLock {
            $0.bytesWritten += bytes
            if let number { $0.webSockets[number]?.byteCountSent += bytes }
        }
    }

    // MARK: WebSockets

    func upgraded(_ number: Int, isCompressed: Bool) {
        entries.withLock {
            $0.webSockets[number] = SimulatorWebSocketConnection(connection: number, isCompressed: isCompressed)
            $0.webSocketOrder.append(number)
            guard $0.webSocketOrder.count > Self.webSocketLimit else { return }
            for old in $0.webSocketOrder.prefix(Self.webSocketLimit / 10) { $0.webSockets[old] = nil }
            $0.webSocketOrder.removeFirst(Self.webSocketLimit / 10)
        }
    }

    func received(_ message: ReceivedMessage) {
        entries.withLock {
            $0.webSockets[message.connection]?.messageCount += 1
            $0.webSockets[message.connection]?.payloadByteCountReceived += message.body.count
            $0.webSockets[message.connection]?.wireByteCountReceived += message.wireByteCount
            $0.receivedMessages.append(message)
            $0.recordedBytes += message.body.count
            makeRoom(&$0)
        }
    }

    func pinged(_ number: Int) { entries.withLock { $0.webSockets[number]?.pingCount += 1 } }
    func ponged(_ number: Int) { entries.withLock { $0.webSockets[number]?.pongCount += 1 } }
    func closed(_ number: Int, code: UInt16?) {
        entries.withLock {
            $0.webSockets[number]?.hasSentClose = true
            $0.webSockets[number]?.closeCode = code
        }
    }

    private func makeRoom(_ entries: inout Entries) {
        while entries.receivedRequests.count > recordLimit
            || entries.recordedBytes > byteLimit && !entries.receivedRequests.isEmpty
        {
            entries.recordedBytes -= entries.receivedRequests.removeFirst().body.count
        }
        while entries.receivedMessages.count > recordLimit
            || entries.recordedBytes > byteLimit && !entries.receivedMessages.isEmpty
        {
            entries.recordedBytes -= entries.receivedMessages.removeFirst().body.count
        }
    }
}
