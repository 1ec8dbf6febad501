import Glibc
import Testing

@testable import TestFixtures

struct PortTests {
    @Test func aReservedPortIsForThoseWhoAllowToShareIt() throws {
        let port = try ReservedPort()
        let (server, stranger) = (makeSocket(), makeSocket())
        defer { for descriptor in [server, stranger] { close(descriptor) } }
        #expect(LoopbackAddress.with(port: port.number) { bind(stranger, $0, $1) } != 0)
        var on: CInt = 1
        setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<CInt>.size))
        #expect(LoopbackAddress.with(port: port.number) { bind(server, $0, $1) } == 0)
        #expect(try !TCPSocketTable().isListening(on: port.number))
        #expect(listen(server, 1) == 0)
        #expect(try TCPSocketTable().isListening(on: port.number))
    }

    @Test func unreadBytesAreSeen() async throws {
        let listener = try await SilentListener(backlog: 2, filled: false)
        defer { listener.close() }
        let client = makeSocket()
        defer { close(client) }
        #expect(LoopbackAddress.with(port: listener.port) { connect(client, $0, $1) } == 0)
        #expect(try await eventually { try TCPSocketTable().acceptQueueLength(of: listener.port) == 1 })
        #expect(try !listener.hasBeenSpokenTo)
        #expect(send(client, "hello", 5, 0) == 5)
        #expect(try await eventually { try listener.hasBeenSpokenTo })
    }

    private func makeSocket(_ options: CInt = 0) -> CInt {
        socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue) | options, 0)
    }
}
