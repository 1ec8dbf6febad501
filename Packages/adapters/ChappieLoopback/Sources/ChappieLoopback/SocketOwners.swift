import ChappieAuth
@_spi(ChappieInternals) import ChappieFiles

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The users who own the TCP sockets of this machine, according to /proc/net/tcp and /proc/net/tcp6 of proc(5).
struct SocketOwners {
    /// The tables, each of which begins with a line of titles.
    let tables: [String]
    /// The user as whom this process runs.
    let user: uid_t

    /// Reads the tables. A system without them reports no owners.
    init() {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].compactMap { try? WholeFile.contents(of: $0, limit: .max) }
        self.init(tables: tables.map { String(decoding: $0, as: UTF8.self) }, user: geteuid())
    }

    init(tables: [String], user: uid_t) {
        self.tables = tables
        self.user = user
    }

    /// Returns the user of the socket at the other end of a connection.
    ///
    /// Root counts as unknown, because WSL and container engines relay a browser's connection as root, and root can
    /// read this process anyway. A socket without an inode is closed, and its user is no longer known.
    ///
    /// - Parameters:
    ///   - client: The address of that socket.
    ///   - server: The address of the listener.
    func peer(from client: sockaddr_in, to server: sockaddr_in) -> CallbackPeer {
        let (near, far) = (Self.names(of: client), Self.names(of: server))
        for line in tables.lazy.flatMap({ $0.split(separator: "\n") }) {
            let fields = line.split(separator: " ")
            guard fields.count > 9, near.contains(String(fields[1])), far.contains(String(fields[2])) else { continue }
            guard let owner = uid_t(fields[7]), fields[9] != "0" else { return .anotherUser }
            if owner == user { return .sameUser }
            return owner == 0 ? .unknown : .anotherUser
        }
        return .unknown
    }

    /// Returns an address in the two forms of the tables: as an IPv4 address, and mapped to IPv6, which some programs
    /// use.
    private static func names(of address: sockaddr_in) -> [String] {
        func hexadecimal(_ number: UInt32) -> String {
            let digits = String(number, radix: 16, uppercase: true)
            return String(repeating: "0", count: 8 - digits.count) + digits
        }
        // The kernel prints the bytes of an address as numbers in this machine's byte order.
        let name = hexadecimal(address.sin_addr.s_addr)
        let port = hexadecimal(UInt32(UInt16(bigEndian: address.sin_port))).suffix(4)
        let mapped = String(repeating: "0", count: 16) + hexadecimal(UInt32(0xFFFF).bigEndian) + name
        return ["\(name):\(port)", "\(mapped):\(port)"]
    }
}
