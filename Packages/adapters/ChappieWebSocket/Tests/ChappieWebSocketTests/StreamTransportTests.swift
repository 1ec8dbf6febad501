@_spi(ChappieInternals) import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import Dispatch
import Glibc
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
    private let descriptor: OwnedSocket
    private let receiving = DispatchQueue(label: "receiving")
    private let sending = DispatchQueue(label: "sending")

    init(port: Int) throws { descriptor = try OwnedSocket(connectedTo: port) }

    func send(_ bytes: [UInt8]) async throws {
        try await sending.run { [descriptor] () throws(SocketError) in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Glibc.send(descriptor.number, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
                }
                guard count > 0 else { throw SocketError() }
                rest = rest.dropFirst(count)
            }
        }
    }

    func receive(atMost limit: Int) async throws -> [UInt8]? {
        try await receiving.run { [descriptor] () throws(SocketError) in
            var count = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, used in
                count = recv(descriptor.number, buffer.baseAddress, limit, 0)
                used = max(0, count)
            }
            guard count >= 0 else { throw SocketError() }
            return count == 0 ? nil : bytes
        }
    }

    /// Calls that wait return.
    func close() { shutdown(descriptor.number, Int32(SHUT_RDWR)) }
}

private struct SocketError: Error {}

/// Closed when nobody reads or writes any more, so that its number can't become another file's meanwhile.
private final class OwnedSocket: Sendable {
    let number: Int32

    init(connectedTo port: Int) throws {
        number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        let status = withUnsafeBytes(of: &address) { bytes in
            connect(number, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
        guard number >= 0, status == 0 else {
            Glibc.close(number)
            throw SocketError()
        }
    }

    deinit { Glibc.close(number) }
}
