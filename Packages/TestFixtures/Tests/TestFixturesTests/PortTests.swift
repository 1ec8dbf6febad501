import Glibc
import Testing

@testable import TestFixtures

struct PortTests {
    @Test func aReservedPortIsForThoseWhoAllowToShareIt() throws {
        let port = try ReservedPort()
        let (server, stranger) = (Descriptor.tcpSocket(), Descriptor.tcpSocket())
        #expect(withLoopbackAddress(port: port.number) { bind(stranger.number, $0, $1) } != 0)
        var on: CInt = 1
        setsockopt(server.number, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<CInt>.size))
        #expect(withLoopbackAddress(port: port.number) { bind(server.number, $0, $1) } == 0)
        #expect(try !TCPSocketTable().isListening(on: port.number))
        #expect(listen(server.number, 1) == 0)
        #expect(try TCPSocketTable().isListening(on: port.number))
    }

    @Test func unreadBytesAreSeen() async throws {
        let listener = try await SilentListener(backlog: 2, filled: false)
        let client = Descriptor.tcpSocket()
        #expect(withLoopbackAddress(port: listener.port) { connect(client.number, $0, $1) } == 0)
        #expect(try await eventually { try TCPSocketTable().acceptQueueLength(of: listener.port) == 1 })
        #expect(try !listener.hasBeenSpokenTo)
        #expect(send(client.number, "hello", 5, 0) == 5)
        #expect(try await eventually { try listener.hasBeenSpokenTo })
    }
}
