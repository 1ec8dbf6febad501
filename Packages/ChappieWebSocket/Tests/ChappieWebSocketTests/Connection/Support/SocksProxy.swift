import Glibc
import Synchronization
import Testing

/// A SOCKS5 proxy (RFC 1928) for one connection: without credentials, and it reaches nothing but ports of this machine.
final class SocksProxy: Sendable {
    let port: Int
    private let listener: CInt
    private let asked = Mutex<String?>(nil)

    /// The name that it was asked for; `nil` when there was none, or an address.
    var askedName: String? { asked.withLock { $0 } }

    init() throws {
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = Self.loopback(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, $0, &size) == 0
            }
        }
        try #require(isListening)
        self.listener = listener
        port = Int(UInt16(bigEndian: address.sin_port))
        let box = Unmanaged.passRetained(self)
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<SocksProxy>.fromOpaque(context).takeRetainedValue().serve() }
                return nil
            }, box.toOpaque())
        pthread_detach(thread)
    }

    private func serve() {
        let client = accept(listener, nil, nil)
        defer {
            close(client)
            close(listener)
        }
        guard let greeting = Self.read(2, from: client), Self.read(Int(greeting[1]), from: client) != nil,
            Self.write([5, 0], to: client), let request = Self.read(4, from: client), request[3] == 3,
            let length = Self.read(1, from: client), let name = Self.read(Int(length[0]), from: client),
            let port = Self.read(2, from: client)
        else { return }
        asked.withLock { $0 = String(decoding: name, as: UTF8.self) }
        let server = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(server) }
        var address = Self.loopback(port: UInt16(port[0]) << 8 | UInt16(port[1]))
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected, Self.write([5, 0, 0, 1, 127, 0, 0, 1, 0, 0], to: client) else { return }
        Self.relay(client, server)
    }

    private static func relay(_ one: CInt, _ other: CInt) {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            var ends = [one, other].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&ends, 2, 30_000) > 0 else { return }
            for (index, end) in ends.enumerated() where end.revents != 0 {
                let count = recv(end.fd, &buffer, buffer.count, 0)
                guard count > 0, write(Array(buffer[..<count]), to: index == 0 ? other : one) else { return }
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

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }
}
