import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc

/// The user's choices, kept in `$XDG_CONFIG_HOME/chappie/settings.json`: the credential store, the route, and the names
/// of the accounts. Nothing in it is secret.
struct UserSettings: Equatable {
    /// The accounts that have signed in to one issuer and backend.
    struct Accounts: Equatable {
        /// In the order of their sign-ins.
        var names: [String] = []
        /// The account that commands use without `--account`.
        var current: String?
    }

    /// `keyring` or `file`; `nil` while the user has not chosen.
    var store: String?
    /// The route of the last login, unless it is ``Route/device``.
    var route: String?
    private var accounts: [String?: Accounts] = [:]

    /// - Parameter issuer: as a credential slot names it; `nil` for the default one.
    func accounts(of issuer: String?) -> Accounts { accounts[issuer] ?? Accounts() }

    /// Reads the file; the settings are empty if the file is missing.
    ///
    /// - Throws: ``CommandLineError``, which names a file that can't be read or parsed.
    init(environment: ProgramEnvironment) throws {
        guard let path = Self.path(environment), access(path, F_OK) == 0 else { return }
        guard let json = try? ChappieJSON(parsing: try SmallFile.read(path)), let object = json.object else {
            throw CommandLineError.usage(
                "\(path) is not what chappie wrote.", suggestion: "Fix it, or remove it: nothing secret is in it.")
        }
        store = object["store"]?.string
        route = object["route"]?.string
        accounts[nil] = Accounts(json)
        for issuer in object["issuers"]?.object?.members ?? [] { accounts[issuer.name] = Accounts(issuer.value) }
    }

    private static func path(_ environment: ProgramEnvironment) -> String? {
        environment.folder("XDG_CONFIG_HOME", else: "/.config").map { $0 + "/settings.json" }
    }

    /// Changes the file, and keeps what other processes change at the same time.
    ///
    /// - Parameter limit: how long it waits for other processes. The change is then made all the same: one of them may
    ///   be stopped.
    /// - Throws: ``CommandLineError``; errors of `change`, and then the file is unchanged; `CancellationError`.
    static func change(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5),
        _ change: (inout UserSettings) throws -> Void
    ) async throws {
        guard let path = path(environment) else {
            throw CommandLineError.usage("There is no home directory for the settings.", suggestion: "Set HOME.")
        }
        // The change is made without the lock if there can be none.
        let slot = CredentialSlot(service: "settings", account: path)
        let hold = try? await environment.lock.acquire(slot, within: limit)
        try Task.checkCancellation()
        let kept = try UserSettings(environment: environment)
        var settings = kept
        try change(&settings)
        if settings != kept { try settings.save(at: path) }
        withExtendedLifetime(hold) {}
    }

    /// The route that commands use without `--route`. A word of a later version counts as the default.
    var usualRoute: Route { route.flatMap(Route.init) ?? .device }

    /// Commands use `route` from now on.
    mutating func use(_ route: Route) { self.route = route == .device ? nil : route.rawValue }

    /// Notes that `account` has signed in.
    mutating func add(_ account: String, of issuer: String?) {
        guard !accounts(of: issuer).names.contains(account) else { return }
        accounts[issuer, default: Accounts()].names.append(account)
    }

    /// - Throws: ``CommandLineError`` when the account has not signed in.
    mutating func use(_ account: String, of issuer: String?) throws {
        guard accounts(of: issuer).names.contains(account) else {
            throw Self.unknown(account)
        }
        accounts[issuer]?.current = account
    }

    /// The error about a name that is not in the list.
    static func unknown(_ account: String) -> CommandLineError {
        .usage(
            "No account \"\(account)\" has signed in here.",
            suggestion: "Run `chappie login --account \(account)`, or see `chappie accounts list`.")
    }

    mutating func remove(_ account: String, of issuer: String?) {
        accounts[issuer]?.names.removeAll { $0 == account }
        if accounts[issuer]?.current == account { accounts[issuer]?.current = nil }
    }

    private func save(at path: String) throws {
        var object = accounts(of: nil).json
        object["store"] = store.map { .string($0) }
        object["route"] = route.map { .string($0) }
        let others = accounts.compactMap { issuer, accounts -> (String, ChappieJSON)? in
            guard let issuer, accounts != Accounts() else { return nil }
            return (issuer, .object(accounts.json))
        }
        if !others.isEmpty { object["issuers"] = .object(ChappieJSONObject(others.sorted { $0.0 < $1.0 })) }
        guard PrivateFile.replace(path, with: ChappieJSON.object(object).serializedBytes()) else {
            throw CommandLineError.usage(
                "\(path) can't be written: \(String(cString: strerror(errno))).", suggestion: "Check the folder.")
        }
    }
}

extension UserSettings.Accounts {
    fileprivate init(_ json: ChappieJSON) {
        current = json["account"]?.string
        names = (json["accounts"]?.array ?? []).compactMap(\.string)
    }

    fileprivate var json: ChappieJSONObject {
        var object = ChappieJSONObject()
        object["account"] = current.map { .string($0) }
        object["accounts"] = .array(names.map { .string($0) })
        return object
    }
}

/// The way in which an account's last answer travelled, kept for `chappie status` in
/// `$XDG_STATE_HOME/chappie/last-answer-ACCOUNT.json`: the kind of transport, reconnects and the time; no part of the
/// conversation.
struct LastAnswer {
    private let path: String
    private let account: ChappieJSON
    private let backend: ChappieJSON

    /// `nil` without a home directory.
    init?(environment: ProgramEnvironment, configuration: ChappieConfiguration) {
        guard let folder = environment.folder("XDG_STATE_HOME", else: "/.local/state") else { return nil }
        account = .string(configuration.keychainAccount)
        backend = .string(configuration.endpoints.profile.backend.absoluteString)
        path = "\(folder)/last-answer-\(Self.fileName(of: configuration.keychainAccount)).json"
    }

    /// Another one for each account, whatever characters its name has. (A name too long for a file is not kept.)
    private static func fileName(of account: String) -> String {
        account.utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            let isPlain = character.isASCII && (character.isLetter || character.isNumber || "-_".contains(character))
            return isPlain ? String(character) : "%" + String(byte, radix: 16)
        }.joined()
    }

    /// Keeps `summary`. A failure is ignored.
    func keep(_ summary: TransportSummary, now: Date = Date()) {
        guard summary.kind != nil || summary.reconnects > 0 else { return }
        let record: ChappieJSON = [
            "account": account, "transport": summary.json, "at": .string(now.formatted(.iso8601)), "backend": backend,
        ]
        _ = PrivateFile.replace(path, with: record.serializedBytes(), isDurable: false)
    }

    /// The record; `nil` if it is missing or belongs to another account or backend.
    func read() -> ChappieJSON? {
        guard access(path, R_OK) == 0, let bytes = try? SmallFile.read(path),
            let record = try? ChappieJSON(parsing: bytes), record["account"] == account,
            record["backend"] == backend
        else { return nil }
        return record
    }
}
