import ChappieAuth
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Where the login session's D-Bus listens.
enum SessionBus {
    /// The address that `environment` names, or that of the user's bus under `XDG_RUNTIME_DIR`.
    ///
    /// An `autolaunch:` entry is passed over: a bus that a library starts on the side has no keyring and outlives us.
    ///
    /// - Throws: `absent`.
    static func address(
        environment: [String: String], isSocket: (String) -> Bool
    ) throws(CredentialStoreError) -> String {
        if let named = environment["DBUS_SESSION_BUS_ADDRESS"], !named.isEmpty {
            let entries = named.split(separator: ";").filter { !$0.hasPrefix("autolaunch:") }
            guard !entries.isEmpty else {
                throw .absent("DBUS_SESSION_BUS_ADDRESS asks for a new session bus, and none is running")
            }
            return entries.joined(separator: ";")
        }
        // The XDG Base Directory Specification: relative paths are invalid and ignored.
        if let folder = environment["XDG_RUNTIME_DIR"], folder.hasPrefix("/") {
            let path = folder + "/bus"
            if isSocket(path) { return "unix:path=" + escape(path) }
        }
        throw .absent(
            "there is no session bus (DBUS_SESSION_BUS_ADDRESS is not set and there is no $XDG_RUNTIME_DIR/bus)")
    }

    static func isSocket(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }

    /// D-Bus specification, "Server Addresses": every byte outside this set is written as `%` and two hex digits.
    private static func escape(_ path: String) -> String {
        let plain = Set("-_/.\\*".utf8)
        var escaped: [UInt8] = []
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                escaped.append(byte)
            case _ where plain.contains(byte):
                escaped.append(byte)
            default:
                let digits = Array("0123456789abcdef".utf8)
                escaped += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: escaped, as: UTF8.self)
    }
}
