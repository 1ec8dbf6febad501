import Synchronization

/// One HTTP/1.1 request as it arrived, with its complete body and without its transfer coding.
public struct ReceivedRequest: Sendable {
    /// The method in upper case.
    public let method: String
    /// The request target as written on the request line: path and query, still percent-encoded.
    public let target: String
    /// Every header field in the order of arrival, with the sender's spelling of names and with repeated fields.
    public let headerFields: [(name: String, value: String)]
    /// The body without chunked framing. It still has its content coding (zstd). See ``decodedBody``.
    public let body: [UInt8]
    /// The number of the connection on which it arrived, 0 for the first one that the server accepted.
    public let connection: Int

    /// Creates a request by hand.
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

    /// Returns the value of the first field named `name`, ignoring case.
    public func header(_ name: String) -> String? {
        let wanted = name.lowercased()
        return headerFields.first { $0.name.lowercased() == wanted }?.value
    }
}

/// One WebSocket message as a client sent it.
public struct ReceivedMessage: Sendable, Hashable {
    /// The number of the connection on which it arrived, as in ``ReceivedRequest/connection``.
    public let connection: Int
    /// Whether it is text. Otherwise, it is binary.
    public let isText: Bool
    /// The complete payload, unmasked, defragmented and decompressed.
    public let body: [UInt8]
    /// Whether it was compressed on the wire.
    public let isCompressed: Bool
    /// The number of bytes that it took on the wire, including frame headers. In memory, it is the size of the payload.
    public let wireByteCount: Int

    package init(connection: Int, isText: Bool, body: [UInt8], isCompressed: Bool, wireByteCount: Int) {
        self.connection = connection
        self.isText = isText
        self.body = body
        self.isCompressed = isCompressed
        self.wireByteCount = wireByteCount
    }
}

/// One connection that became a WebSocket.
public struct SimulatorWebSocketConnection: Sendable, Hashable {
    /// The number of the connection, as in ``ReceivedRequest/connection``.
    public let connection: Int
    /// Whether it is still open.
    public internal(set) var isOpen = true
}

/// A record of a listener's connections and requests, which any thread can read.
package final class ConnectionLedger: Sendable {
    package struct Entries {
        package fileprivate(set) var receivedRequests: [ReceivedRequest] = []
        package fileprivate(set) var receivedMessages: [ReceivedMessage] = []
        package fileprivate(set) var webSocketConnections: [SimulatorWebSocketConnection] = []
        package fileprivate(set) var connectionCount = 0
        package fileprivate(set) var openConnectionCount = 0
        package fileprivate(set) var bytesWritten = 0
    }

    private let state = Mutex(Entries())
    private let recordLimit: Int

    /// Creates an empty ledger.
    ///
    /// - Parameter recordLimit: the number of newest requests that are kept, and of newest messages.
    package init(recordLimit: Int = .max) { self.recordLimit = recordLimit }

    package var entries: Entries { state.withLock { $0 } }

    /// Records a new connection and returns its number, counted from 0.
    package func connectionOpened() -> Int {
        state.withLock {
            $0.connectionCount += 1
            $0.openConnectionCount += 1
            return $0.connectionCount - 1
        }
    }

    package func connectionClosed(_ number: Int) {
        state.withLock {
            $0.openConnectionCount -= 1
            if let index = $0.webSocketConnections.lastIndex(where: { $0.connection == number }) {
                $0.webSocketConnections[index].isOpen = false
            }
        }
    }

    package func received(_ request: ReceivedRequest) {
        state.withLock {
            $0.receivedRequests.append(request)
            if $0.receivedRequests.count > recordLimit { $0.receivedRequests.removeFirst() }
        }
    }

    package func received(_ message: ReceivedMessage) {
        state.withLock {
            $0.receivedMessages.append(message)
            if $0.receivedMessages.count > recordLimit { $0.receivedMessages.removeFirst() }
        }
    }

    package func wrote(bytes: Int) { state.withLock { $0.bytesWritten += bytes } }

    package func upgraded(_ number: Int) {
        state.withLock { $0.webSocketConnections.append(SimulatorWebSocketConnection(connection: number)) }
    }
}
