@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials

/// The program's own notes in `$XDG_STATE_HOME/chappie/notes.json`. They are the accounts that have signed in, the
/// route of the last login, the store that the user chose when asked, and what is known of reset credits. They do not
/// contain a secret.
///
/// Members of a later version are kept. If the file cannot be read, every command continues without it.
struct ProgramNotes: Equatable {
    /// The accounts that have signed in to one issuer and backend.
    struct Accounts: Equatable {
        /// The names in the order of their sign-ins.
        var names: [String] = []
        /// The account that commands use without `--account`.
        var current: String?
        /// The known e-mail addresses of the accounts.
        var emails: [String: String] = [:]
    }

    private var root = ChappieJSONObject()

    /// Creates empty notes.
    init() {}

    private init(_ file: UserFile) throws {
        guard let bytes = try file.contents() else { return }
        guard let object = (try? UserFile.object(in: bytes)) ?? nil else {
            throw CommandLineError.usage(
                "\(file.path), which lists your accounts, is damaged.", suggestion: "Move it away, and sign in again.")
        }
        root = object
    }

    /// Reads the notes.
    ///
    /// - Returns: the notes. If they cannot be used, empty notes and the reason.
    static func read(_ environment: ProgramEnvironment) -> (notes: ProgramNotes, problem: CommandLineError?) {
        guard let file = file(environment) else { return (ProgramNotes(), nil) }
        do {
            return (try ProgramNotes(file), nil)
        } catch {
            return (ProgramNotes(), CommandLineError(error))
        }
    }

    /// Changes the file and keeps the changes that other processes make at the same time.
    ///
    /// - Parameter limit: the maximum time to wait for other processes.
    /// - Throws: ``CommandLineError``, errors of `change`, or `CancellationError`. After an error of `change`
    ///   the file is unchanged.
    static func change(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5),
        _ change: (inout ProgramNotes) throws -> Void
    ) async throws {
        let file = UserFile(path: try environment.folder(\.state, for: "the list of accounts") + name)
        try await file.locked(environment, within: limit) {
            let kept = try ProgramNotes(file)
            var notes = kept
            try change(&notes)
            if notes != kept { try file.write(notes.root) }
        }
    }

    private static let name = "/notes.json"

    private static func file(_ environment: ProgramEnvironment) -> UserFile? {
        environment.folders.state.map { UserFile(path: $0 + name) }
    }

    // MARK: Accounts

    /// Returns the accounts of an issuer.
    ///
    /// - Parameter issuer: the issuer as a credential slot names it, or `nil` for the default one.
    func accounts(of issuer: String?) -> Accounts {
        let object = object(of: issuer)
        return Accounts(
            names: object["accounts"]?.array?.compactMap(\.string) ?? [], current: object["account"]?.string,
            emails: Dictionary(
                (object["emails"]?.object?.members ?? []).compactMap { member in
                    member.value.string.map { (member.name, $0) }
                }
            ) { $1 })
    }

    /// Adds `account` to the accounts that have signed in.
    mutating func add(_ account: String, email: String? = nil, of issuer: String?) {
        var accounts = accounts(of: issuer)
        if !accounts.names.contains(account) { accounts.names.append(account) }
        accounts.emails[account] = email
        set(accounts, of: issuer)
    }

    /// Makes `account` the current account.
    ///
    /// - Throws: ``CommandLineError`` if the account has not signed in.
    mutating func use(_ account: String, of issuer: String?) throws {
        var accounts = accounts(of: issuer)
        guard accounts.names.contains(account) else { throw Self.unknown(account) }
        accounts.current = account
        set(accounts, of: issuer)
    }

    /// Forgets the name of `account`.
    mutating func remove(_ account: String, of issuer: String?) {
        var accounts = accounts(of: issuer)
        accounts.names.removeAll { $0 == account }
        accounts.emails[account] = nil
        if accounts.current == account { accounts.current = nil }
        set(accounts, of: issuer)
        set(Resets(), of: account, issuer)
    }

    /// Returns the error about a name that is not in the list.
    static func unknown(_ account: String) -> CommandLineError {
        .usage(
            "No account \"\(account)\" has signed in here.",
            suggestion: "Run `chappie login --account \(account)`, or see `chappie accounts list`.")
    }

    private func object(of issuer: String?) -> ChappieJSONObject {
        guard let issuer else { return root }
        return root["issuers"]?[issuer]?.object ?? ChappieJSONObject()
    }

    private mutating func set(_ accounts: Accounts, of issuer: String?) {
        var object = object(of: issuer)
        object["account"] = accounts.current.map { .string($0) }
        object["accounts"] = accounts.names.isEmpty ? nil : .array(accounts.names.map { .string($0) })
        let emails = accounts.emails.sorted { $0.key < $1.key }.map { ($0.key, ChappieJSON.string($0.value)) }
        object["emails"] = emails.isEmpty ? nil : .object(ChappieJSONObject(emails))
        set(object, of: issuer)
    }

    private mutating func set(_ object: ChappieJSONObject, of issuer: String?) {
        guard let issuer else { return root = object }
        var issuers = root["issuers"]?.object ?? ChappieJSONObject()
        issuers[issuer] = object.isEmpty ? nil : .object(object)
        root["issuers"] = issuers.isEmpty ? nil : .object(issuers)
    }

    // MARK: Reset credits

    /// The known reset credits of an account.
    struct Resets: Equatable {
        /// A request to redeem a credit, as long as its outcome is not known.
        var request: ChappieRedemptionRequest?
        /// The id of the account at the service that the request is for.
        var owner: String?
        /// The time until which a credit can be redeemed, according to the last list.
        var until: Date?

        /// Returns the request if it is for the account `owner` at the service.
        func request(of owner: String) -> ChappieRedemptionRequest? { owner == self.owner ? request : nil }
    }

    /// Returns what is known of an account's reset credits.
    func resets(of account: String, _ issuer: String?) -> Resets {
        let json = object(of: issuer)["resets"]?[account]
        return Resets(
            request: json?["request"]?.string.map {
                ChappieRedemptionRequest(creditID: json?["credit"]?.string, id: $0)
            }, owner: json?["owner"]?.string, until: json?["until"]?.string.flatMap(HTTPDate.rfc3339))
    }

    /// Replaces what is known of an account's reset credits.
    mutating func set(_ resets: Resets, of account: String, _ issuer: String?) {
        var json = ChappieJSONObject()
        if let request = resets.request {
            json["request"] = .string(request.id)
            json["credit"] = request.creditID.map(ChappieJSON.string)
            json["owner"] = resets.owner.map(ChappieJSON.string)
        }
        json["until"] = resets.until.map { .string($0.formatted(.iso8601)) }
        var object = object(of: issuer)
        var all = object["resets"]?.object ?? ChappieJSONObject()
        all[account] = json.isEmpty ? nil : .object(json)
        object["resets"] = all.isEmpty ? nil : .object(all)
        set(object, of: issuer)
    }

    // MARK: Route and store

    /// The route that commands use without `--route`. A value of a later version counts as the default.
    var usualRoute: Route { root["route"]?.string.flatMap(Route.init) ?? .device }

    /// Makes `route` the route of later commands.
    mutating func use(_ route: Route) { root["route"] = route == .device ? nil : .string(route.rawValue) }

    /// The store that the user chose at a sign-in.
    var store: StoreChoice? {
        get { root["store"]?.string.flatMap(StoreChoice.init) }
        set { root["store"] = newValue.map { .string($0.rawValue) } }
    }
}
