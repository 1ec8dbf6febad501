@_spi(ChappieInternals) import ChappieFiles
import Glibc
import Synchronization
import SystemPackage

/// A listening socket that accepts no connection.
public final class SilentListener: Sendable {
    /// The port on 127.0.0.1.
    public let port: Int
    private let sockets: Mutex<[Descriptor]>

    /// Creates a listener, and returns when a further connection would find the described state.
    ///
    /// - Parameters:
    ///   - backlog: the number of connections that the kernel completes by itself (plus one).
    ///   - filled: whether those places are already taken, so that a further connection gets no answer.
    public init(backlog: Int = 0, filled: Bool = true) async throws {
        let listener = try ReservedPort()
        port = listener.number
        sockets = Mutex([listener.socket])
        guard listen(listener.socket.number, CInt(backlog)) == 0 else {
            throw FixtureFailure("port \(port) can't be listened on")
        }
        guard filled else { return }
        for _ in 0...backlog {
            let client = try Descriptor.socket(AF_INET)
            client.stopBlocking()
            sockets.withLock { $0.append(client) }
            _ = withLoopbackAddress(port: port) { connect(client.number, $0, $1) }
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
    public func close() { sockets.withLock { $0 = [] } }
}

/// A port of 127.0.0.1 that is reserved while this value exists, for a program that takes its port as an argument.
///
/// The socket is bound and never listens. With SO_REUSEADDR on both sides, which servers set, the program may bind to
/// the same port (socket(7)). A process that asks for any port, or connects from one, gets another port from the
/// kernel.
final class ReservedPort: Sendable {
    let number: Int
    let socket: Descriptor

    init() throws {
        let socket = try Descriptor.socket(AF_INET)
        var on: CInt = 1
        setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<CInt>.size))
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound =
            withLoopbackAddress(port: 0) { bind(socket.number, $0, $1) } == 0
            && withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket.number, $0, &size) }
            } == 0
        guard isBound else { throw FixtureFailure("no port of 127.0.0.1: \(Errno.latest)") }
        self.socket = socket
        number = Int(UInt16(bigEndian: address.sin_port))
    }
}

/// Calls `body` with the address of `port` on 127.0.0.1.
func withLoopbackAddress<Result>(port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = UInt16(port).bigEndian
    return withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
}
