import ChappieSDK
import FoundationEssentials
import Glibc

/// What a person has chosen, kept in `$XDG_CONFIG_HOME/chappie/settings.json`: where credentials lie, and which accounts
/// there are. Names only; nothing secret.
struct UserSettings: Equatable {
    /// `keyring` or `file`; `nil` while nobody has chosen.
    var store: String?
    /// The account that commands use without `--account`.
    var account: String?
    /// Every account that has signed in here, in that order.
    var accounts: [String] = []

    /// What is there; nothing where there is no file.
    ///
    /// - Throws: ``CommandLineError`` that names a file which can't be read as what was written.
    init(environment: ProgramEnvironment) throws {
        guard let path = Self.folder(environment).map({ $0 + "/settings.json" }), access(path, F_OK) == 0 else {
            return
        }
        guard let json = try? ChappieJSON(parsing: try SmallFile.read(path)), json.object != nil else {
            throw CommandLineError.usage(
                "\(path) is not what chappie wrote.", suggestion: "Mend it, or remove it: nothing secret is in it.")
        }
        store = json["store"]?.string
        account = json["account"]?.string
        accounts = (json["accounts"]?.array ?? []).compactMap(\.string)
    }

    private static func folder(_ environment: ProgramEnvironment) -> String? {
        let parent = environment["XDG_CONFIG_HOME"] ?? environment["HOME"].map { $0 + "/.config" }
        return parent.flatMap { $0.hasPrefix("/") ? $0 + "/chappie" : nil }
    }

    /// Changes what is kept, and loses nothing of what another process changes at the same time.
    ///
    /// - Throws: ``CommandLineError``; whatever `change` throws, with everything as it was.
    static func change(_ environment: ProgramEnvironment, _ change: (inout UserSettings) throws -> Void) throws {
        guard let folder = folder(environment) else {
            throw CommandLineError.usage("There is no home directory for the settings.", suggestion: "Set HOME.")
        }
        PrivateFile.makeFolders(above: folder + "/settings.json")
        try FolderLock.holding(folder) {
            let kept = try UserSettings(environment: environment)
            var settings = kept
            try change(&settings)
            if settings != kept { try settings.save(in: folder) }
        }
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
    private func save(in folder: String) throws {
        let path = folder + "/settings.json"
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
