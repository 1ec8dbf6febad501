@_spi(ChappieInternals) import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import Foundation
import HTTPTypes
import Network
import Security
import TestFixtures
import Testing

@testable import ChappieURLSession

/// The adapter of Network.framework over the stand-in of this package.
@Suite(.serialized, .timeLimit(.minutes(3))) struct NetworkTests {
    private let streams = NetworkByteStreamTransport(policy: .direct)
    private let transport = StreamWebSocketTransport(over: NetworkByteStreamTransport(policy: .direct))

    @Test(arguments: WebSocketTransportContract.cases)
    func `the adapter keeps the contract of WebSockets`(_ contractCase: WebSocketTransportContract.Case) async throws {
        let server = try WebSocketTransportContract.startServer()
        defer { server.stop() }
        try await contractCase.run(transport, at: WebSocketTransportContract.baseURL(of: server))
    }

    @Test func `a large message passes in both directions at once`() async throws {
        let server = try ScriptedWebSocketServer.start {
            .upgrade($0)
        } reply: { message, _ in
            [.send(WebSocketFrames.message(message))]
        }
        defer { server.stop() }
        let url = try #require(URL(string: "ws://localhost:\(server.port)"))
        guard case .opened(let connection, _) = try await transport.open(url, headerFields: [:]) else {
            throw ContractViolation("The server refused.")
        }
        let payload = (0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        async let sent: Void = connection.send(.binary(payload))
        #expect(try await connection.receive(within: .seconds(60)) == .messages([.binary(payload)]))
        try await sent
        await connection.close(.normal)
        #expect(try await eventually { server.record.openConnectionCount == 0 })
    }

    // MARK: Opening

    @Test func `a connection that waits for another network fails at once`() async throws {
        let refused = try await failure { _ = try await streams.connect(host: "127.0.0.1", port: 1, isSecure: false) }
        #expect(refused.code == .connectFailed && refused.stage == .connect)
        #expect(refused.host == "127.0.0.1:1")
        let unknown = try await failure {
            _ = try await streams.connect(host: "chappie.invalid", port: 443, isSecure: true)
        }
        #expect(unknown.code == .unknownHost && unknown.stage == .connect)
        #expect(unknown.host == "chappie.invalid")
    }

    @Test func `no plain connection leaves this machine`() async throws {
        let error = try await failure { _ = try await streams.connect(host: "192.0.2.1", port: 80, isSecure: false) }
        #expect(error.code == .insecureURL && error.stage == .configuration)
    }

    @Test(arguments: [false, true])
    func `silence ends at the deadline of connecting`(_ inHandshake: Bool) async throws {
        let listener = try await SilentListener(backlog: inHandshake ? 8 : 0, filled: !inHandshake)
        defer { listener.close() }
        let url = try #require(URL(string: "\(inHandshake ? "wss" : "ws")://127.0.0.1:\(listener.port)"))
        let hasty = StreamWebSocketTransport(
            over: streams, deadlines: ChappieDeadlines(connect: .milliseconds(300)))
        let error = try await failure { _ = try await hasty.open(url, headerFields: [:]) }
        #expect(error.code == .timedOut && error.stage == .connect)
        #expect(try await eventually { try !listener.isMet(inHandshake) })
    }

    @Test(arguments: [false, true])
    func `a cancelled task stops connecting`(_ inHandshake: Bool) async throws {
        let listener = try await SilentListener(backlog: inHandshake ? 8 : 0, filled: !inHandshake)
        defer { listener.close() }
        let task = Task { [streams] in
            _ = try await streams.connect(host: "127.0.0.1", port: listener.port, isSecure: inHandshake)
        }
        #expect(try await eventually { try listener.isMet(inHandshake) })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await eventually { try !listener.isMet(inHandshake) })
    }

    @Test func `a task that was cancelled before opens nothing`() async throws {
        let server = try WebSocketTransportContract.startServer()
        defer { server.stop() }
        // An attempt may be faster than its cancellation.
        for _ in 0..<200 {
            let task = Task { [streams] in
                withUnsafeCurrentTask { $0?.cancel() }
                try await streams.connect(host: "127.0.0.1", port: server.port, isSecure: false).close()
            }
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }

    @Test func `a policy that cannot be followed is an error before a connection`() async throws {
        let policies: [(ChappieNetworkPolicy, ChappieTransportError.Code)] = [
            (ChappieNetworkPolicy(proxy: .none, extraCAFile: "/etc/hostname"), .invalidCAFile),
            (ChappieNetworkPolicy(proxy: .url("socks4://127.0.0.1:1")), .proxyFailed),
        ]
        for (policy, code) in policies {
            let error = try await failure {
                _ = try await NetworkByteStreamTransport(policy: policy)
                    .connect(host: "host.invalid", port: 443, isSecure: true)
            }
            #expect(error.code == code && error.stage == .configuration)
        }
    }

    @Test(arguments: [
        (NWError.posix(.ECONNREFUSED), ChappieTransportError.Code.connectFailed, ChappieTransportError.Stage.connect),
        (.posix(.ENETDOWN), .connectFailed, .connect), (.posix(.ETIMEDOUT), .timedOut, .connect),
        (.posix(.ECONNRESET), .connectionLost, .connect), (.dns(-65554), .unknownHost, .connect),
        (.tls(errSSLCertExpired), .certificateRejected, .tls),
        (.tls(errSSLCertNotYetValid), .certificateRejected, .tls),
        (.tls(errSSLUnknownRootCert), .certificateRejected, .tls), (.tls(errSSLNoRootCert), .certificateRejected, .tls),
        (.tls(errSSLXCertChainInvalid), .certificateRejected, .tls),
        (.tls(errSSLHostNameMismatch), .certificateRejected, .tls), (.tls(errSSLBadCert), .certificateRejected, .tls),
        (.tls(errSSLClosedNoNotify), .connectionLost, .connect), (.tls(errSSLProtocol), .tlsFailed, .tls),
    ])
    func `each error of a connection has a meaning`(
        error: NWError, code: ChappieTransportError.Code, stage: ChappieTransportError.Stage
    ) {
        let meaning = SessionFailure(error, isProxied: false).error(at: .connect, host: "host.test")
        #expect(meaning.code == code && meaning.stage == stage, "\(meaning)")
        let throughProxy = SessionFailure(error, isProxied: true).error(at: .connect, host: "host.test")
        if case .tls = error { #expect(throughProxy == meaning) } else { #expect(throughProxy.code == .proxyFailed) }
    }

    // MARK: Bytes

    /// The stand-in delivers the last bytes together with the end.
    @Test func `what came before the end arrives, and sending goes on`() async throws {
        let listener = try LoopbackListener()
        let heard = Task {
            try await onOwnThread { () -> String? in
                let peer = listener.accept()
                peer?.send("last words")
                peer?.endSending()
                return try peer?.rest()
            }
        }
        let stream = try await streams.connect(host: "127.0.0.1", port: listener.port, isSecure: false)
        var received: [UInt8] = []
        while let bytes = try await stream.receive(atMost: 4) {
            #expect(1...4 ~= bytes.count)
            received += bytes
        }
        #expect(String(decoding: received, as: UTF8.self) == "last words")
        #expect(try await stream.receive(atMost: 4) == nil)
        try await stream.send(Array("an answer".utf8))
        stream.close()
        #expect(try await heard.value == "an answer")
    }

    @Test func `a reset is an error of the receiver and the sender`() async throws {
        let listener = try LoopbackListener()
        let reset = Task {
            try await onOwnThread {
                let peer = listener.accept()
                _ = peer?.receive(count: 1)
                peer?.willReset()
            }
        }
        let stream = try await streams.connect(host: "127.0.0.1", port: listener.port, isSecure: false)
        let receiving = Task { try await stream.receive(atMost: 10) }
        try await stream.send([1])
        try await reset.value
        await #expect(throws: (any Error).self) { try await receiving.value }
        await #expect(throws: (any Error).self) { while true { try await stream.send([1]) } }
        stream.close()
    }

    @Test func `closing ends a receiver and a sender that wait`() async throws {
        let listener = try LoopbackListener(receiveBuffer: 4096)
        let accepted = Task { try await onOwnThread { listener.accept() } }
        let stream = try await streams.connect(host: "127.0.0.1", port: listener.port, isSecure: false)
        let peer = try #require(try await accepted.value)
        let receiving = Task { try await stream.receive(atMost: 10) }
        // More than all buffers hold, so that it is complete only if the peer reads.
        let sending = Task { try await stream.send([UInt8](repeating: 7, count: 64 << 20)) }
        #expect(try await onOwnThread { peer.receive(count: 1000) }?.count == 1000)
        stream.close()
        stream.close()
        await #expect(throws: (any Error).self) { try await receiving.value }
        await #expect(throws: (any Error).self) { try await sending.value }
        await #expect(throws: (any Error).self) { try await stream.send([1]) }
        await #expect(throws: (any Error).self) { try await stream.receive(atMost: 1) }
    }
}

extension SilentListener {
    fileprivate func isMet(_ inHandshake: Bool) throws -> Bool {
        try inHandshake ? hasBeenSpokenTo : isBeingDialled
    }
}

extension ChappieNetworkPolicy {
    static let direct = ChappieNetworkPolicy(proxy: .none)
}

/// Returns the error in which `operation` must end.
func failure(_ operation: () async throws -> Void) async throws -> ChappieTransportError {
    do { try await operation() } catch let error as ChappieTransportError { return error }
    return try #require(nil as ChappieTransportError?, "it succeeded")
}
