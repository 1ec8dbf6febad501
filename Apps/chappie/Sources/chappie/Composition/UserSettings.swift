import ChappieSDK
import FoundationEssentials
import Glibc

/// What a person has chosen, kept in `$XDG_CONFIG_HOME/chappie/settings.json`: where credentials lie, and which accounts
/// there are. Names only; nothing secret.
struct UserSettings {
    /// `keyring` or `file`; `nil` while nobody has chosen.
    var store: String?
    /// The account that commands use without `--account`.
    var account: String?
    /// Every account that has signed in here, in that order.
    var accounts: [String] = []

    private let path: String?

    /// What is there; nothing where there is no file.
    ///
    /// - Throws: ``CommandLineError`` that names a file which can't be read as what was written.
    init(environment: ProgramEnvironment) throws {
        let folder = environment["XDG_CONFIG_HOME"] ?? environment["HOME"].map { $0 + "/.config" }
        path = folder.flatMap { $0.hasPrefix("/") ? $0 + "/chappie/settings.json" : nil }
        guard let path, access(path, F_OK) == 0 else { return }
        guard let json = try? ChappieJSON(parsing: try SmallFile.read(path)), json.object != nil else {
            throw CommandLineError.usage(
                "\(path) is not what chappie wrote.", suggestion: "Mend it, or remove it: nothing secret is in it.")
        }
        store = json["store"]?.string
        account = json["account"]?.string
        accounts = (json["accounts"]?.array ?? []).compactMap(\.string)
    }

    /// Notes that `account` has signed in.
    mutating func add(_ account: String) {
        if !accounts.contains(account) { accounts.append(account) }
    }

    mutating func remove(_ account: String) {
        accounts.removeAll { $0 == account }
        if self.account == account { self.account = nil }
    }

    /// Writes them, whole or not at all.
    ///
    /// - Throws: ``CommandLineError``.
    func save() throws {
        guard let path else {
            throw CommandLineError.usage("There is no home directory for the settings.", suggestion: "Set HOME.")
        }
        var object = ChappieJSONObject()
        object["store"] = store.map { .string($0) }
        object["account"] = account.map { .string($0) }
        object["accounts"] = .array(accounts.map { .string($0) })
        guard PrivateFile.replace(path, with: ChappieJSON.object(object).serializedBytes()) else {
            throw CommandLineError.usage(
                "\(path) can't be written: \(String(cString: strerror(errno))).", suggestion: "Check the folder.")
        }
    }
}
