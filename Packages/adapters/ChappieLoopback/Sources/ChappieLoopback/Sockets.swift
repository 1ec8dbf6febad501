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
    /// Takes a waiting connection from this listener. The connection never blocks.
    func accepted() throws(Errno) -> Descriptor {
        let connection = try Descriptor(accept(number, nil, nil))
        connection.stopInheritance()
        connection.stopBlocking()
        #if canImport(Darwin)
            // Linux has a flag for this in each `send`.
            var on: CInt = 1
            setsockopt(connection.number, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<CInt>.size))
        #endif
        return connection
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
