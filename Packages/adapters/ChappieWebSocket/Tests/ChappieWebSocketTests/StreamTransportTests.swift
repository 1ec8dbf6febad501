@_spi(ChappieInternals) import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import Dispatch
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

extension OverTheWire {
    /// The port for a platform's own connections, over plain sockets.
    @Suite struct StreamTransportTests {
        private let transport = StreamWebSocketTransport(over: PlainSockets(), deadlines: .ample)

        private func connection(_ server: ScriptedWebSocketServer) async throws -> any WebSocketConnection {
            guard case .opened(let connection, _) = try await transport.open(server.url(), headerFields: [:]) else {
                throw ContractViolation("The server refused.")
            }
            return connection
        }

        @Test(.tags(.measured), arguments: WebSocketTransportContract.cases)
        func theStreamTransportKeepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
            let server = try WebSocketTransportContract.startServer()
            try await contractCase.run(transport, at: WebSocketTransportContract.baseURL(of: server))
            server.stop()
        }

        /// In both directions at once, compressed, and more than the sockets hold.
        @Test func aLargeMessageComesBackWhole() async throws {
            let server = try ScriptedWebSocketServer.echo()
            let connection = try await connection(server)
            let payload = (0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
            async let sent: Void = connection.send(.binary(payload))
            #expect(try await connection.messages(1) == [.binary(payload)])
            try await sent
            await connection.close(.normal)
            #expect(server.record.closeCodes == [1000])
            server.stop()
        }

        @Test func aSilentPeerIsPingedAndGivenUp() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.stall]) }
            let impatient = StreamWebSocketTransport(
                over: PlainSockets(), deadlines: ChappieDeadlines(liveness: .milliseconds(200)))
            guard case .opened(let connection, _) = try await impatient.open(server.url(), headerFields: [:]) else {
                throw ContractViolation("The server refused.")
            }
            let error = try await transportError { _ = try await connection.receive(within: nil) }
            #expect(error.code == .timedOut && error.stage == .liveness)
            #expect(server.record.pingCount == 1)
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }

        @Test func aReleasedConnectionClosesItsStream() async throws {
            let server = try ScriptedWebSocketServer.echo()
            _ = try await connection(server)
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }

        @Test func `a receiver that releases a closed connection does not drop the answer to the close`() async throws {
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(WebSocketFrames.close(1001))])
            }
            for _ in 0..<50 {
                #expect(try await connection(server).receive(within: nil) == .closed(.goingAway))
            }
            #expect(try await eventually { server.record.closeCodes == Array(repeating: 1001, count: 50) })
            server.stop()
        }

        /// The stream comes too late for the deadline, and is closed.
        @Test func aConnectionThatIsNotMadeInTimeIsATimeOut() async throws {
            let server = try ScriptedWebSocketServer.echo()
            let gate = ScriptedGate()
            let transport = StreamWebSocketTransport(
                over: PlainSockets(gate: gate), deadlines: ChappieDeadlines(connect: .milliseconds(50)))
            let error = try await transportError { _ = try await transport.open(server.url(), headerFields: [:]) }
            #expect(error.code == .timedOut && error.stage == .connect)
            gate.open()
            #expect(
                try await eventually { server.record.connectionCount == 1 && server.record.openConnectionCount == 0 })
            server.stop()
        }

        @Test func aPortWithoutAServerIsAFailedConnection() async throws {
            let error = try await transportError {
                _ = try await transport.open(makeURL("ws://127.0.0.1:1"), headerFields: [:])
            }
            #expect(error.code == .connectFailed && error.stage == .connect)
        }
    }
}

/// Sockets without TLS, each read and written on a queue of its own.
private struct PlainSockets: ByteStreamTransport {
    var gate: ScriptedGate?

    func connect(host: String, port: Int, isSecure: Bool) async throws -> any ByteStream {
        guard !isSecure, host == "127.0.0.1" || host == "localhost" else {
            throw ContractViolation("Plain sockets are for this machine.")
        }
        // Deaf to the end of the task that asks.
        if let gate { try? await Task { try await gate.pass() }.value }
        return try PlainSocket(port: port)
    }
}

private final class PlainSocket: ByteStream {
    private let connection: LoopbackConnection
    private let receiving = DispatchQueue(label: "receiving")
    private let sending = DispatchQueue(label: "sending")

    init(port: Int) throws { connection = try LoopbackConnection(port: port) }

    func send(_ bytes: [UInt8]) async throws {
        try await sending.run { [connection] () throws(SocketError) in
            guard connection.send(bytes) else { throw SocketError() }
        }
    }

    func receive(atMost limit: Int) async throws -> [UInt8]? {
        try await receiving.run { [connection] () throws(SocketError) in
            guard let bytes = connection.receive(atMost: limit) else { throw SocketError() }
            return bytes.isEmpty ? nil : bytes
        }
    }

    /// Calls that wait return.
    func close() { connection.shutDown() }
}

private struct SocketError: Error {}
