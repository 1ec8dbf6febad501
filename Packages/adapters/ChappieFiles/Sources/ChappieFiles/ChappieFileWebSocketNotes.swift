@_spi(ChappieInternals) public import ChappieCore
import Dispatch

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A store of notes on blocked WebSockets, in one file, `websockets.json`, that only its owner can read.
///
/// A network is identified by the proxy for the backend and by the addresses from which this machine reaches the
/// internet. The file contains only digests of these, and times.
public struct ChappieFileWebSocketNotes: ChappieWebSocketNotes {
    /// The maximum number of networks that are remembered.
    private static let networks = 20
    private static let limit = 64 << 10

    private let path: String
    private let proxy: ChappieNetworkPolicy.Proxy
    private let variables: [String: String]

    /// Creates a store in `directory`.
    ///
    /// - Parameters:
    ///   - directory: An absolute path. If the folder is missing, it is made with the first note.
    ///   - proxy: The choice of a proxy, which must be the one that requests use.
    ///   - variable: A closure that looks up an environment variable.
    public init(directory: String, proxy: ChappieNetworkPolicy.Proxy, environment variable: (String) -> String?) {
        path = "\(directory)/websockets.json"
        self.proxy = proxy
        let found = ProxySelection.variables.compactMap { name in variable(name).map { (name, $0) } }
        variables = Dictionary(uniqueKeysWithValues: found)
    }

    /// Creates a store in `$XDG_STATE_HOME/chappie`, or in `~/.local/state/chappie`. Returns `nil` without a home
    /// directory. On Apple's platforms the file is in the program's own folder.
    public init?(proxy: ChappieNetworkPolicy.Proxy, environment variable: (String) -> String?) {
        guard let directory = UserFolders.ofPlatform(variable).state else { return nil }
        self.init(directory: directory, proxy: proxy, environment: variable)
    }

    /// Reads the file and returns the time of the last blockage, or `nil` if there is none.
    public func blockage(of backend: URL) async -> Date? {
        await DispatchQueue.global().run {
            guard let key = key(of: backend), let seconds = notes()[key]?.int else { return nil }
            return Date(timeIntervalSince1970: TimeInterval(seconds))
        }
    }

    /// Adds the blockage to the file.
    public func noteBlockage(of backend: URL, at time: Date) async {
        await DispatchQueue.global().run {
            guard let key = key(of: backend) else { return }
            var notes = notes()
            notes[key] = .integer(Int(time.timeIntervalSince1970))
            let newest = notes.members.sorted { ($0.value.int ?? 0) > ($1.value.int ?? 0) }.prefix(Self.networks)
            let document = ChappieJSON.object(ChappieJSONObject(members: Array(newest)))
            try? PrivateFile.replace(path, with: document.serializedBytes(), isDurable: false)
        }
    }

    private func notes() -> ChappieJSONObject {
        guard let bytes = try? WholeFile.contents(of: path, limit: Self.limit) else { return ChappieJSONObject() }
        return (try? ChappieJSON(parsing: bytes))?.object ?? ChappieJSONObject()
    }

    /// Returns the name of the backend on this network, or `nil` for an address or a proxy that can't be used.
    private func key(of backend: URL) -> String? {
        guard let origin = try? Origin(of: backend, for: .webSocket),
            let proxy = try? ProxySelection(proxy, for: origin, environment: variables).map(\.label) ?? "none"
        else { return nil }
        return FNV1a.hexadecimal([origin.description, proxy] + Self.localAddresses())
    }

    /// Returns the addresses from which this machine reaches the internet, over IPv4 and IPv6. Sends nothing, because
    /// connecting a datagram socket only chooses the route. The targets are reserved for documentation (RFC 5737, RFC
    /// 3849).
    private static func localAddresses() -> [String] {
        var ofIPv4 = sockaddr_in()
        ofIPv4.sin_family = sa_family_t(AF_INET)
        ofIPv4.sin_port = UInt16(443).bigEndian
        inet_pton(AF_INET, "192.0.2.1", &ofIPv4.sin_addr)
        var ofIPv6 = sockaddr_in6()
        ofIPv6.sin6_family = sa_family_t(AF_INET6)
        ofIPv6.sin6_port = UInt16(443).bigEndian
        inet_pton(AF_INET6, "2001:db8::1", &ofIPv6.sin6_addr)
        let near4 = localEnd(of: ofIPv4).map { address in withUnsafeBytes(of: address.sin_addr) { Array($0) } }
        // The second half of the address changes from day to day (RFC 8981).
        let near6 = localEnd(of: ofIPv6).map { address in withUnsafeBytes(of: address.sin6_addr) { Array($0.prefix(8)) }
        }
        return [near4, near6].map { bytes in (bytes ?? []).map { String($0, radix: 16) }.joined(separator: ":") }
    }

    private static func localEnd<Address>(of far: Address) -> Address? {
        var address = far
        var size = socklen_t(MemoryLayout<Address>.size)
        return withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                let family = CInt(generic.pointee.sa_family)
                guard let end = try? Descriptor.socket(family, isDatagram: true) else { return false }
                return connect(end.number, generic, size) == 0 && getsockname(end.number, generic, &size) == 0
            }
        } ? address : nil
    }
}
