import FoundationEssentials

/// KWallet as the program that provides the Secret Service.
///
/// A wallet that its user has opened is locked on this service until a client has called `Unlock` and run the prompt,
/// which shows nothing in that case (5.103; invent.kde.org/frameworks/kwallet). For a closed wallet, the same prompt
/// shows a dialogue that stays on the screen when the prompt is dismissed. For this reason, KWallet's own interface is
/// asked before.
struct KWallet {
    /// The limit for a prompt that shows nothing.
    static let patience = Duration.seconds(2)

    private static let names = [
        (name: "org.kde.kwalletd5", path: "/modules/kwalletd5"),
        (name: "org.kde.kwalletd6", path: "/modules/kwalletd6"),
    ]

    private let connection: BusConnection
    private let service: String
    private let name: String
    private let path: String
    private let environment: [String: String]

    /// Finds KWallet. Returns `nil` if another program provides the service.
    ///
    /// - Throws: ``LibraryError``.
    init?(behind service: String, on connection: BusConnection, _ environment: [String: String]) throws {
        let owner = try Self.owner(of: service, on: connection)
        guard let owner,
            let found = try Self.names.first(where: { try Self.owner(of: $0.name, on: connection) == owner })
        else { return nil }
        self.connection = connection
        self.service = service
        self.environment = environment
        (name, path) = found
    }

    /// Returns whether the prompt for this keyring, or for an item in it, shows nothing. That is the case if its wallet
    /// is open and its user does not want to be asked about each program.
    ///
    /// - Throws: ``LibraryError``.
    func opensSilently(_ object: String) throws -> Bool {
        let collection = object.split(separator: "/").prefix(5).map { "/" + $0 }.joined()
        let label = try connection.property(
            "Label", of: "org.freedesktop.Secret.Collection", at: collection, in: service)
        guard let wallet = label?.text else { return false }
        let answer = try connection.call("isOpen", of: "org.kde.KWallet", at: path, in: name, [.text(wallet)])
        return answer.member(0, ofTuple: "(b)")?.bool == true && !Self.asksAboutEachProgram(environment)
    }

    /// Returns whether the user has chosen to be asked when a program uses an open wallet (`kwalletrc`). No method of
    /// KWallet reports it.
    static func asksAboutEachProgram(_ environment: [String: String]) -> Bool {
        func folders(_ name: String, _ usual: String) -> [String] {
            let value = environment[name] ?? ""
            return (value.isEmpty ? usual : value).split(separator: ":").map(String.init)
        }
        let folders =
            folders("XDG_CONFIG_HOME", "\(environment["HOME"] ?? "")/.config") + folders("XDG_CONFIG_DIRS", "/etc/xdg")
        let lines = folders.lazy.compactMap { try? String(contentsOfFile: "\($0)/kwalletrc", encoding: .utf8) }
            .flatMap { $0.split(separator: "\n") }
        // The user's own file takes precedence. KDE writes a Boolean as one of these strings.
        guard let line = lines.first(where: { $0.hasPrefix("Prompt on Open") }) else { return false }
        let value = line.split(separator: "=").last.map { $0.lowercased().filter { !$0.isWhitespace } }
        return !["false", "off", "no", "0"].contains(value)
    }

    /// Returns the connection that owns a name on the bus, or `nil` if none does.
    private static func owner(of name: String, on connection: BusConnection) throws -> String? {
        do {
            return try connection.call(
                "GetNameOwner", of: "org.freedesktop.DBus", at: "/org/freedesktop/DBus", in: "org.freedesktop.DBus",
                [.text(name)]
            ).member(0, ofTuple: "(s)")?.text
        } catch let fault as LibraryError where fault.busName == "NameHasNoOwner" {
            return nil
        }
    }
}
