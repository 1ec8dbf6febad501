#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A socket that is closed when its last owner releases it.
final class Descriptor: Sendable {
    let number: CInt

    /// Takes over a socket. Returns `nil` if the system returned none, with the reason in `errno`.
    ///
    /// The socket never blocks, and programs that this process starts don't inherit it.
    init?(_ number: CInt) {
        guard number >= 0 else { return nil }
        self.number = number
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        _ = fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK)
        #if canImport(Darwin)
            // Linux has a flag for this in each `send`.
            var on: CInt = 1
            setsockopt(number, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<CInt>.size))
        #endif
    }

    deinit { close(number) }

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
    ) -> sockaddr_in? {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isKnown = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { name(number, $0, &size) } == 0
        }
        return isKnown ? address : nil
    }

    /// Creates a TCP socket for IPv4.
    static func tcp() -> Descriptor? { Descriptor(socket(AF_INET, streamType, 0)) }

    /// Creates two connected sockets.
    static func pair() -> (Descriptor, Descriptor)? {
        var numbers: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, streamType, 0, &numbers) == 0 else { return nil }
        guard let one = Descriptor(numbers[0]), let other = Descriptor(numbers[1]) else { return nil }
        return (one, other)
    }

    #if canImport(Glibc)
        // A program that is started in the meantime has no copy either.
        private static let streamType = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    #else
        private static let streamType = SOCK_STREAM
    #endif
}
