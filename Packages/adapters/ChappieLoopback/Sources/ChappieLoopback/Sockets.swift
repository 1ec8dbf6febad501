@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension Descriptor {
    /// Takes over a socket, which never blocks. If the system returned none, throws the reason.
    static func socket(_ number: CInt) throws(Errno) -> Descriptor {
        let socket = try Descriptor(number)
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        socket.stopBlocking()
        #if canImport(Darwin)
            // Linux has a flag for this in each `send`.
            var on: CInt = 1
            setsockopt(number, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<CInt>.size))
        #endif
        return socket
    }

    /// Creates a TCP socket for IPv4.
    static func tcp() throws(Errno) -> Descriptor { try socket(systemSocket(AF_INET, streamType, 0)) }

    /// Creates two connected sockets.
    static func pair() throws(Errno) -> (Descriptor, Descriptor) {
        var numbers: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, streamType, 0, &numbers) == 0 else { throw .latest }
        return (try socket(numbers[0]), try socket(numbers[1]))
    }

    /// Ends the connection, also for the peer, even if a recently started program has a copy of the socket.
    func shutDown(_ direction: CInt = CInt(SHUT_RDWR)) { _ = shutdown(number, direction) }

    /// Sends without waiting and without SIGPIPE. Returns the result of send(2).
    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        #if canImport(Darwin)
            Darwin.send(number, bytes.baseAddress, bytes.count, 0)
        #elseif canImport(Musl)
            Musl.send(number, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL))
        #else
            Glibc.send(number, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL))
        #endif
    }

    /// Returns an address of this connection.
    ///
    /// - Parameter name: `getsockname` for this end of the connection, `getpeername` for the other end.
    func address(
        _ name: (CInt, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt
    ) throws(Errno) -> sockaddr_in {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isKnown = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { name(number, $0, &size) } == 0
        }
        guard isKnown else { throw .latest }
        return address
    }
}

#if canImport(Glibc)
    // A program that is started in the meantime has no copy either.
    private let streamType = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
#else
    private let streamType = SOCK_STREAM
#endif

private func systemSocket(_ domain: CInt, _ type: CInt, _ protocolNumber: CInt) -> CInt {
    socket(domain, type, protocolNumber)
}
