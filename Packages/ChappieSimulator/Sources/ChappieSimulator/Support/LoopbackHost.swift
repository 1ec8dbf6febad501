/// Names of this machine, for itself.
enum LoopbackHost {
    /// `localhost`, an address in 127.0.0.0/8, or `::1`; without a port.
    static func isLoopback(_ host: String) -> Bool {
        let name = host.lowercased()
        if name == "localhost" || name == "::1" { return true }
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127"
            && parts.allSatisfy { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } && UInt8($0) != nil }
    }

    /// The same for the value of a Host header field: a port may follow, IPv6 is in brackets.
    static func isLoopback(authority: String) -> Bool {
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return false }
            return isLoopback(String(authority[authority.index(after: authority.startIndex)..<end]))
        }
        return isLoopback(authority.split(separator: ":", maxSplits: 1).first.map(String.init) ?? "")
    }
}
