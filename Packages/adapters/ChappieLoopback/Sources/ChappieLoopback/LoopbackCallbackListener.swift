public import ChappieAuth
@_spi(ChappieInternals) import ChappieFiles
import Dispatch
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A ``CallbackListener`` that uses POSIX sockets, for a browser on this machine. It listens only on 127.0.0.1.
///
/// One thread serves all connections. There are at most 16. Another one replaces the oldest, which in the case of a
/// browser is a spare one. A connection without a complete head of at most 16 KiB after 10 s is closed. A longer head
/// is answered with 431.
///
/// On Linux, the user of a request is the owner of the socket at its other end, which every user can read. On other
/// systems, the user is unknown.
///
/// On a Mac, a sandboxed program needs the entitlement `com.apple.security.network.server`, in addition to
/// `com.apple.security.network.client` for its requests.
///
/// The listener ends with ``CallbackListening/close()``, or when the value that ``listen(_:)`` returned is released.
public struct LoopbackCallbackListener: CallbackListener {
    private let limits: CallbackServer.Limits
    private let address: UInt32

    /// Creates a listener with the limits above.
    public init() { self.init(limits: CallbackServer.Limits()) }

    /// Creates a listener.
    ///
    /// - Parameter address: The IPv4 address. Tests use an address that the machine lacks.
    init(limits: CallbackServer.Limits, address: UInt32 = 0x7F00_0001) {
        self.limits = limits
        self.address = address
    }

    /// Starts listening. `answer` is called on the listener's own thread, for one request after the other, so it must
    /// not wait for anything.
    ///
    /// - Throws: ``DesktopError`` if all `ports` are taken, this machine has no 127.0.0.1, or the process has no
    ///   descriptor left.
    public func listen(
        at ports: [Int], _ answer: @escaping @Sendable (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) throws(DesktopError) -> any CallbackListening {
        let socket: Descriptor, bell: Descriptor, end: Descriptor, name: sockaddr_in
        do {
            socket = try bound(toOneOf: ports)
            name = try socket.address(getsockname)
            (bell, end) = try Descriptor.socketPair()
        } catch {
            throw error == .addressInUse ? Self.taken(ports) : Self.refusal(error)
        }
        let port = Int(UInt16(bigEndian: name.sin_port))
        let limits = limits
        // The queue occupies a thread as long as the server runs, because Swift's own threads must never block.
        let queue = DispatchQueue(label: "chappie.callback")
        queue.async {
            var server = CallbackServer(at: socket, until: end, limits: limits, answer)
            server.run()
        }
        return LoopbackCallbackListening(port: port, bell: bell, queue: queue)
    }

    /// Returns a socket that listens at the first port that is free.
    private func bound(toOneOf ports: [Int]) throws(Errno) -> Descriptor {
        var reason = Errno.addressInUse
        for port in ports {
            // A socket that could not listen stays bound, so each port gets its own socket.
            do {
                return try bound(to: port)
            } catch {
                reason = error
            }
        }
        throw reason
    }

    private func bound(to port: Int) throws(Errno) -> Descriptor {
        let socket = try Descriptor.socket(AF_INET)
        socket.stopBlocking()
        // Connections of an earlier sign-in that has ended don't keep a port in use. Two listeners can't share a port.
        var on: CInt = 1
        setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<CInt>.size))
        var name = sockaddr_in()
        name.sin_port = UInt16(clamping: port).bigEndian
        name.sin_family = sa_family_t(AF_INET)
        name.sin_addr.s_addr = address.bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket.number, $0, size) } == 0
        }
        guard isBound, systemListen(socket.number, CInt(SOMAXCONN)) == 0 else { throw .latest }
        return socket
    }

    private static func taken(_ ports: [Int]) -> DesktopError {
        let names = ports.map(String.init).joined(separator: " and ")
        return DesktopError("Other programs listen at 127.0.0.1 at \(ports.count == 1 ? "port" : "ports") \(names).")
    }

    /// Returns the error for a failed system call.
    static func refusal(_ reason: Errno) -> DesktopError {
        if reason == .tooManyOpenFiles || reason == .tooManyOpenFilesInSystem {
            return DesktopError("Listening at 127.0.0.1 is not possible: \(reason.words).")
        }
        let advice =
            switch reason.rawValue {
            case EADDRINUSE: "Another program uses the port: end it, or sign in by another route."
            case ENOBUFS, ENOMEM: "Close other programs, and try again."
            case EAFNOSUPPORT, EPROTONOSUPPORT, EADDRNOTAVAIL, ENETDOWN:
                "Sign-in needs IPv4 on the loopback interface: switch it on, or sign in by another route."
            default: "Allow this program to listen on 127.0.0.1, or sign in by another route."
            }
        return DesktopError("Listening at 127.0.0.1 is not possible: \(reason). \(advice)")
    }
}

/// Calls listen(2), which a method of the same name hides.
private func systemListen(_ socket: CInt, _ backlog: CInt) -> CInt { listen(socket, backlog) }

private final class LoopbackCallbackListening: CallbackListening {
    let port: Int
    /// One end of a pair of sockets. Shutting it down ends the server, which has the other end.
    private let bell: Descriptor
    private let queue: DispatchQueue

    init(port: Int, bell: Descriptor, queue: DispatchQueue) {
        self.port = port
        self.bell = bell
        self.queue = queue
    }

    deinit { close() }

    func close() { bell.shutDown() }

    func closed() async {
        // The queue runs one job after the other.
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    }
}
