import Glibc
import Synchronization
import TestFixtures
import Testing

/// A listener on 127.0.0.1 whose connections are served byte by byte, each on a thread of its own.
final class RawServer: Sendable {
    private let listener: LoopbackListener

    var port: Int { listener.port }

    /// - Parameters:
    ///   - receiveBuffer: of each connection; a small one keeps the kernel from taking a message at once.
    ///   - serve: may block; the connection closes when it returns.
    init(receiveBuffer: CInt? = nil, serve: @escaping @Sendable (LoopbackConnection) -> Void) throws {
        let listener = try LoopbackListener(receiveBuffer: receiveBuffer)
        self.listener = listener
        Task {
            try await onOwnThread {
                while let client = listener.accept() { Task { try await onOwnThread { serve(client) } } }
            }
        }
    }

    deinit { listener.close() }

    /// A SOCKS5 proxy (RFC 1928) without credentials that reaches nothing but ports of this machine.
    ///
    /// - Parameter asked: Called with each name in a query.
    static func socksProxy(asked: @escaping @Sendable (String) -> Void) throws -> RawServer {
        try RawServer { client in
            guard let greeting = client.receive(count: 2), client.receive(count: Int(greeting[1])) != nil,
                client.send([5, 0]), let request = client.receive(count: 4), request[3] == 3,
                let length = client.receive(count: 1), let name = client.receive(count: Int(length[0])),
                let port = client.receive(count: 2)
            else { return }
            asked(String(decoding: name, as: UTF8.self))
            guard let server = try? LoopbackConnection(port: Int(port[0]) << 8 | Int(port[1])),
                client.send([5, 0, 0, 1, 127, 0, 0, 1, 0, 0])
            else { return }
            relay(client, server)
        }
    }

    /// Passes everything on to `port`, what the client sends at the speed of a slow line.
    static func slowLine(to port: Int, bytesPerSecond: Int) throws -> RawServer {
        try RawServer(receiveBuffer: 64 << 10) { client in pass(client, on: port, bytesPerSecond: bytesPerSecond) }
    }

    /// Passes everything on to `port`, unless it is held.
    fileprivate static func pass(
        _ client: LoopbackConnection, on port: Int, bytesPerSecond: Int? = nil, isHeld: () -> Bool = { false }
    ) {
        guard let server = try? LoopbackConnection(port: port) else { return }
        relay(client, server, bytesPerSecond: bytesPerSecond, isHeld: isHeld)
    }

    /// Reads the beginning of a TLS handshake and answers it with `answer`; then resets the connection, or ends it.
    static func breakingTLS(answer: [UInt8] = [], byReset: Bool) throws -> RawServer {
        try RawServer { client in
            // The ClientHello must be read, or closing would reset the connection.
            guard client.receive()?.isEmpty == false, client.send(answer) else { return }
            guard !byReset else { return client.willReset() }
            client.endSending()
            _ = try? client.rest()
        }
    }

    /// Accepts a request for a tunnel, and sends a page instead of what is at its other end.
    static func answeringTunnels(with page: String) throws -> RawServer {
        try RawServer { client in
            guard client.receive()?.isEmpty == false else { return }
            client.send("HTTP/1.1 200 OK\r\n\r\n\(page)")
            _ = try? client.rest()
        }
    }

    // MARK: Sockets

    private static func relay(
        _ client: LoopbackConnection, _ server: LoopbackConnection, bytesPerSecond: Int? = nil,
        isHeld: () -> Bool = { false }
    ) {
        let start = ContinuousClock.now
        var passed = 0
        while true {
            if isHeld() {
                // For the end of either side (POLLRDHUP, which Swift can't read); or it looks again.
                var ends = [client, server].map { pollfd(fd: $0.number, events: 0x2000, revents: 0) }
                guard poll(&ends, 2, 5) == 0 else { return }
                continue
            }
            // The line's pace: this is what the server is for, and nothing waits for it.
            if let bytesPerSecond, passed > 0 {
                let ahead =
                    Duration.seconds(Double(passed) / Double(bytesPerSecond)) - (ContinuousClock.now - start)
                if ahead > .milliseconds(20) { usleep(20_000) }
                if ahead > .milliseconds(40) { continue }
            }
            var ends = [client, server].map { pollfd(fd: $0.number, events: Int16(POLLIN), revents: 0) }
            guard poll(&ends, 2, 30_000) > 0 else { return }
            if isHeld() { continue }
            for (end, (from, to)) in zip(ends, [(client, server), (server, client)]) where end.revents != 0 {
                guard let bytes = from.receive(atMost: 16 << 10), !bytes.isEmpty, to.send(bytes) else { return }
                if from === client { passed += bytes.count }
            }
        }
    }
}

/// A line to a server of this machine that can be held up: what is sent on the connections that it has then is
/// acknowledged and goes no further, as after a change of network. Later connections are passed on.
final class HeldLine: Sendable {
    private final class Traffic: Sendable {
        let state = Mutex((connections: 0, ended: 0, held: 0))
    }

    private let traffic = Traffic()
    private let server: RawServer

    init(to port: Int) throws {
        server = try RawServer { [traffic] client in
            let number = traffic.state.withLock { state in
                state.connections += 1
                return state.connections
            }
            RawServer.pass(client, on: port) { traffic.state.withLock { number <= $0.held } }
            traffic.state.withLock { $0.ended += 1 }
        }
    }

    var port: Int { server.port }
    /// How many there have been.
    var connections: Int { traffic.state.withLock(\.connections) }
    var openConnections: Int { traffic.state.withLock { $0.connections - $0.ended } }

    func hold() { traffic.state.withLock { $0.held = $0.connections } }
    func release() { traffic.state.withLock { $0.held = 0 } }
}
