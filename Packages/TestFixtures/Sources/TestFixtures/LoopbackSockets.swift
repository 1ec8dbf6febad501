import Glibc
import Synchronization

/// A listening socket that accepts no connection.
public final class SilentListener: Sendable {
    /// Of 127.0.0.1.
    public let port: Int
    private let descriptors: Mutex<[CInt]>

    /// Returns when a further connection would meet with what is described.
    ///
    /// - Parameters:
    ///   - backlog: how many connections the kernel completes by itself (plus one).
    ///   - filled: whether those places are taken already, so that a further connection gets no answer at all.
    public init(backlog: Int = 0, filled: Bool = true) async throws {
        let (listener, port) = try LoopbackAddress.boundSocket()
        self.port = port
        descriptors = Mutex([listener])
        guard listen(listener, CInt(backlog)) == 0 else { throw FixtureFailure("port \(port) can't be listened on") }
        guard filled else { return }
        for _ in 0...backlog {
            let options = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
            let client = socket(AF_INET, CInt(options), 0)
            descriptors.withLock { $0.append(client) }
            _ = LoopbackAddress.with(port: port) { connect(client, $0, $1) }
        }
        // The kernel may be late with the last step of a handshake.
        guard try await eventually({ try TCPSocketTable().acceptQueueLength(of: port) == backlog + 1 }) else {
            throw FixtureFailure("the places of a listener with backlog \(backlog) don't fill up")
        }
    }

    /// Whether a client tries to connect and gets no answer.
    public var isBeingDialled: Bool {
        get throws { try TCPSocketTable().isBeingDialled(port) }
    }

    /// Whether a client has connected and sent something.
    public var hasBeenSpokenTo: Bool {
        get throws { try TCPSocketTable().hasUnreadBytes(at: port) }
    }

    /// Ends every connection to it.
    public func close() {
        descriptors.withLock { descriptors in
            for descriptor in descriptors { Glibc.close(descriptor) }
            descriptors = []
        }
    }

    deinit { close() }
}

/// A port of 127.0.0.1 that no other process is given while this lives, for a program that has to be told its port.
///
/// The socket is bound and never listens. With SO_REUSEADDR on both sides, which servers set, the program may bind
/// beside it (socket(7)); to anybody who asks for any port, or connects from one, the kernel gives another.
final class ReservedPort: Sendable {
    let number: Int
    private let descriptor: CInt

    init() throws { (descriptor, number) = try LoopbackAddress.boundSocket(options: SO_REUSEADDR) }

    deinit { close(descriptor) }
}

/// 127.0.0.1 in the system's terms.
enum LoopbackAddress {
    /// Calls `body` with the address of `port`.
    static func with<Result>(port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result) rethrows
        -> Result
    {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(port).bigEndian
        return try withUnsafePointer(to: &address) {
            try $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                try body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// A TCP socket that is bound to a port of the system's choice; not inherited by programs.
    static func boundSocket(options: CInt...) throws -> (descriptor: CInt, port: Int) {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var on: CInt = 1
        for option in options {
            setsockopt(descriptor, SOL_SOCKET, option, &on, socklen_t(MemoryLayout<CInt>.size))
        }
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound =
            with(port: 0) { bind(descriptor, $0, $1) } == 0
            && withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
            } == 0
        guard isBound else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw FixtureFailure("no port of 127.0.0.1 can be had: \(reason)")
        }
        return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
    }
}
