import ChappieCore
import ChappieHTTP
import FoundationEssentials
import Glibc
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

extension OverTheWire {
    /// A connection that looks alive and is not, as after a change of network: what is sent on it is taken, and nothing
    /// comes back.
    @Suite(.counterparts) struct DeadConnectionTests {
        private static let short = ChappieDeadlines(responseHead: .milliseconds(300))
        private let line: HeldLine
        private let transport: CurlHTTPTransport

        init() throws {
            line = try HeldLine(to: Counterparts.current.good)
            transport = CurlHTTPTransport(policy: .test(extraCAFile: try Counterparts.current.authority))
        }

        private func get(_ deadlines: ChappieDeadlines = .ample) async throws {
            let url = try Adapter.http.url(port: line.port)
            let response = try await transport.send(HTTPExchangeRequest(url: url, deadlines: deadlines))
            let body = try await response.body.collect(upTo: 1 << 20)
            #expect(String(decoding: body, as: UTF8.self) == "hello over HTTP/2.0")
        }

        private func getInVain() async throws {
            let error = try await transportError { try await get(Self.short) }
            #expect(error.code == .timedOut && error.stage == .responseHead)
        }

        @Test func itIsNotUsedAgainAfterATimeOut() async throws {
            try await get()
            line.hold()
            try await getInVain()
            try await get()
            try await get()
            #expect(line.connections == 2)
        }

        /// curl itself goes on using such a connection as long as another exchange is on it.
        @Test func `a dead connection isn't used again while another exchange waits on it`() async throws {
            try await get()
            line.hold()
            let waiting = Task { try await get() }
            #expect(try await eventually { try TCPSocketTable().hasUnreadBytes(at: line.port) })
            try await getInVain()
            try await get()
            #expect(line.connections == 2)
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            #expect(try await eventually { line.openConnections == 1 })
            try await get()
            #expect(line.connections == 2)
        }

        @Test func oneThatWasOnlySlowIsUsedAgain() async throws {
            try await get()
            line.hold()
            let waiting = Task { try await get() }
            #expect(try await eventually { try TCPSocketTable().hasUnreadBytes(at: line.port) })
            try await getInVain()
            line.release()
            try await waiting.value
            try await get()
            #expect(line.connections == 1)
        }

        /// The kernel ends a connection whose peer acknowledges nothing for half a minute; by itself it tries for a
        /// quarter of an hour.
        @Test(arguments: Adapter.overCurl)
        func `the kernel is told how long to wait for an acknowledgement`(_ adapter: Adapter) async throws {
            let limits = Mutex<[CUnsignedInt]>([])
            let server = try RawServer { client in
                limits.withLock { $0 += acknowledgementLimits(ofPeerOf: client.number) }
            }
            await #expect(throws: ChappieTransportError.self) {
                _ = try await adapter.exchange(
                    with: adapter.url(port: server.port, isSecure: false), under: .test())
            }
            #expect(limits.withLock(\.self).allSatisfy { $0 == 30_000 })
            #expect(limits.withLock(\.count) == 1)
        }
    }
}

/// TCP_USER_TIMEOUT, in milliseconds, of this process's sockets at the other end of `client`.
private func acknowledgementLimits(ofPeerOf client: CInt) -> [CUnsignedInt] {
    let peer = port(of: client, getpeername)
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return names.compactMap { CInt($0) }.filter { port(of: $0, getsockname) == peer }.map { socket in
        var limit: CUnsignedInt = 0
        var size = socklen_t(MemoryLayout<CUnsignedInt>.size)
        getsockopt(socket, CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit, &size)
        return limit
    }
}

/// One end's port; `nil` for what is no socket of IPv4.
private func port(
    of socket: CInt, _ end: (CInt, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt
) -> in_port_t? {
    var address = sockaddr_in()
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { end(socket, $0, &size) }
    }
    return status == 0 && address.sin_family == sa_family_t(AF_INET) ? address.sin_port : nil
}
