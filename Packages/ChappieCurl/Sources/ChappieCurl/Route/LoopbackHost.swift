/// The hosts that never leave this machine.
public enum LoopbackHost {
    /// `localhost`, 127.0.0.0/8 in dotted decimal (RFC 1122, 3.2.1.3), and `::1`, with or without brackets. Nothing is
    /// resolved, and no shorthand counts (`127.1`, `0x7f.0.0.1`): another reader might see another address.
    public static func contains(_ host: String) -> Bool {
        switch host.lowercased() {
        case "localhost", "::1", "[::1]": return true
        case let host:
            let parts = host.split(separator: ".", omittingEmptySubsequences: false)
            return parts.count == 4 && parts[0] == "127" && parts.allSatisfy(isOctet)
        }
    }

    private static func isOctet(_ text: Substring) -> Bool {
        guard (1...3).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else { return false }
        guard text.utf8.count == 1 || text.utf8.first != UInt8(ascii: "0") else { return false }
        return Int(text).map { $0 <= 255 } ?? false
    }
}
