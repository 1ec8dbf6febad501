import Glibc
import Synchronization
import TestFixtures
import Testing

/// A listener on 127.0.0.1 whose connections are served byte by byte, each on a thread of its own.
final class RawServer: Sendable {
    let port: Int
    private let listener: CInt

    /// - Parameters:
    ///   - receiveBuffer: of each connection; a small one keeps the kernel from taking a message at once.
    ///   - serve: may block; the connection closes when it returns.
    init(receiveBuffer: CInt? = nil, serve: @escaping @Sendable (CInt) -> Void) throws {
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        if var size = receiveBuffer {
            setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<CInt>.size))
        }
        var address = Self.loopback(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 16) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        try #require(isListening)
        self.listener = listener
        port = Int(UInt16(bigEndian: address.sin_port))
        Task {
            try await onOwnThread {
                while case let client = accept(listener, nil, nil), client >= 0 {
                    Task {
                        try await onOwnThread {
                            serve(client)
                            close(client)
                        }
                    }
                }
                close(listener)
            }
        }
    }

    deinit { shutdown(listener, CInt(SHUT_RDWR)) }

    /// A SOCKS5 proxy (RFC 1928) without credentials that reaches nothing but ports of this machine.
    ///
    /// - Parameter asked: Called with each name in a query.
    static func socksProxy(asked: @escaping @Sendable (String) -> Void) throws -> RawServer {
        try RawServer { client in
            guard let greeting = read(2, from: client), read(Int(greeting[1]), from: client) != nil,
                write([5, 0], to: client), let request = read(4, from: client), request[3] == 3,
                let length = read(1, from: client), let name = read(Int(length[0]), from: client),
                let port = read(2, from: client)
            else { return }
            asked(String(decoding: name, as: UTF8.self))
            guard let server = connected(to: UInt16(port[0]) << 8 | UInt16(port[1])) else { return }
            defer { close(server) }
            guard write([5, 0, 0, 1, 127, 0, 0, 1, 0, 0], to: client) else { return }
            relay(client, server)
        }
    }

    /// Passes everything on to `port`, what the client sends at the speed of a slow line.
    static func slowLine(to port: Int, bytesPerSecond: Int) throws -> RawServer {
        try RawServer(receiveBuffer: 64 << 10) { client in pass(client, on: port, bytesPerSecond: bytesPerSecond) }
    }

    /// Passes everything on to `port`, unless it is held.
    fileprivate static func pass(
        _ client: CInt, on port: Int, bytesPerSecond: Int? = nil, isHeld: () -> Bool = { false }
    ) {
        guard let server = connected(to: UInt16(port)) else { return }
        defer { close(server) }
        relay(client, server, bytesPerSecond: bytesPerSecond, isHeld: isHeld)
    }

    /// Reads the beginning of a TLS handshake and answers it with `answer`; then resets the connection, or ends it.
    static func breakingTLS(answer: [UInt8] = [], byReset: Bool) throws -> RawServer {
        try RawServer { client in
            // The ClientHello must be read, or closing would reset the connection.
            var buffer = [UInt8](repeating: 0, count: 8192)
            guard recv(client, &buffer, buffer.count, 0) > 0, write(answer, to: client) else { return }
            guard byReset else {
                shutdown(client, CInt(SHUT_WR))
                while recv(client, &buffer, buffer.count, 0) > 0 {}
                return
            }
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        }
    }

    /// Accepts a request for a tunnel, and sends a page instead of what is at its other end.
    static func answeringTunnels(with page: String) throws -> RawServer {
        try RawServer { client in
            var buffer = [UInt8](repeating: 0, count: 8192)
            guard recv(client, &buffer, buffer.count, 0) > 0,
                write(Array("HTTP/1.1 200 OK\r\n\r\n\(page)".utf8), to: client)
            else { return }
            while recv(client, &buffer, buffer.count, 0) > 0 {}
        }
    }

    // MARK: Sockets

    private static func relay(
        _ client: CInt, _ server: CInt, bytesPerSecond: Int? = nil, isHeld: () -> Bool = { false }
    ) {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        let start = ContinuousClock.now
        var passed = 0
        while true {
            if isHeld() {
                // For the end of either side (POLLRDHUP, which Swift can't read); or it looks again.
                var ends = [client, server].map { pollfd(fd: $0, events: 0x2000, revents: 0) }
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
            var ends = [client, server].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&ends, 2, 30_000) > 0 else { return }
            if isHeld() { continue }
            for (index, end) in ends.enumerated() where end.revents != 0 {
                let count = recv(end.fd, &buffer, buffer.count, 0)
                guard count > 0, write(Array(buffer[..<count]), to: index == 0 ? server : client) else { return }
                if index == 0 { passed += count }
            }
        }
    }

    private static func read(_ count: Int, from descriptor: CInt) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return recv(descriptor, &bytes, count, CInt(MSG_WAITALL)) == count ? bytes : nil
    }

    private static func write(_ bytes: [UInt8], to descriptor: CInt) -> Bool {
        send(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL)) == bytes.count
    }

    private static func connected(to port: UInt16) -> CInt? {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var address = loopback(port: port)
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        if !isConnected { close(descriptor) }
        return isConnected ? descriptor : nil
    }

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
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
