import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials
import Glibc

/// The user's choices, kept in `$XDG_CONFIG_HOME/chappie/settings.json`: settings, the route, and the names of the
/// accounts. Nothing in it is secret.
struct UserSettings: Equatable {
    /// The accounts that have signed in to one issuer and backend.
    struct Accounts: Equatable {
        /// In the order of their sign-ins.
        var names: [String] = []
        /// The account that commands use without `--account`.
        var current: String?
    }

    /// The values that the user has set.
    private var values: [Setting: ChappieJSON] = [:]
    /// The route of the last login, unless it is ``Route/device``.
    private var route: String?
    private var accounts: [String?: Accounts] = [:]

    /// - Parameter issuer: as a credential slot names it; `nil` for the default one.
    func accounts(of issuer: String?) -> Accounts { accounts[issuer] ?? Accounts() }

    /// Reads the file; the settings are empty if the file is missing.
    ///
    /// - Throws: ``CommandLineError``, which names the file, the line and the member that can't be used.
    init(environment: ProgramEnvironment) throws {
        guard let path = Self.path(environment), let bytes = try Self.contents(of: path) else {
            self.init()
            return
        }
        try self.init(parsing: bytes, path: path)
    }

    private init() {}

    /// In bytes.
    private static let limit = 1 << 20

    /// The bytes of the file; `nil` if it is missing. It names the tools of the model: a file that every user can change
    /// is refused, and a pipe, which might never end.
    ///
    /// - Throws: ``CommandLineError``.
    static func contents(of path: String) throws -> [UInt8]? {
        do throws(WholeFile.Failure) {
            return try WholeFile.contents(of: path, limit: limit, kind: .guarded)
        } catch {
            var facts = stat()
            // A link that leads nowhere is a mistake, and no missing file.
            if error == .missing, lstat(path, &facts) != 0 { return nil }
            throw CommandLineError.usage(
                "\(path) can't be read: \(error.words).",
                suggestion: error == .changeable
                    ? "If you trust its contents: chmod o-w \(path)" : "Fix it, or move it away.")
        }
    }

    /// - Parameter path: for messages.
    /// - Throws: as ``init(environment:)``.
    init(parsing bytes: [UInt8], path: String) throws {
        do {
            let json = try ChappieJSON(parsing: bytes)
            guard let object = json.object else { throw Fault(nil, "it is not a JSON object.") }
            var names: Set<String> = []
            for member in object.members {
                guard names.insert(member.name).inserted else {
                    throw Fault(member.name, "\(Self.shown(member.name)) is there twice.")
                }
                if let setting = Setting(rawValue: member.name) {
                    if let problem = setting.problem(of: member.value) { throw Fault(member.name, problem) }
                    values[setting] = member.value
                } else {
                    try read(member)
                }
            }
        } catch let error as ChappieJSONError {
            let line = bytes.prefix(error.offset).count { $0 == UInt8(ascii: "\n") } + 1
            throw Self.unusable("\(path), line \(line): it is not JSON: \(error.reason).")
        } catch let fault as Fault {
            let line = fault.member.flatMap { Self.line(of: $0, in: bytes) }.map { ", line \($0)" } ?? ""
            throw Self.unusable("\(path)\(line): \(fault.what)")
        }
    }

    /// A member that can't be used.
    private struct Fault: Error {
        let member: String?
        let what: String

        init(_ member: String?, _ what: String) { (self.member, self.what) = (member, what) }
    }

    /// Reads what the program writes for itself.
    private mutating func read(_ member: ChappieJSONObject.Member) throws {
        switch member.name {
        case "route":
            guard let word = member.value.string else { throw Fault("route", "route takes a word.") }
            route = word
        case "account", "accounts": try read(member, of: nil, in: "")
        case "issuers":
            guard let issuers = member.value.object else { throw Fault("issuers", "issuers takes an object.") }
            for issuer in issuers.members {
                guard let object = issuer.value.object else {
                    throw Fault(issuer.name, "issuers.\(Self.shown(issuer.name)) takes an object.")
                }
                for inner in object.members {
                    try read(inner, of: issuer.name, in: "issuers.\(Self.shown(issuer.name)).")
                }
            }
        default:
            let guess = Setting.similar(to: member.name).map { " Did you mean \($0)?" } ?? ""
            throw Fault(member.name, "there is no setting \(Self.shown(member.name)).\(guess)")
        }
    }

    private mutating func read(_ member: ChappieJSONObject.Member, of issuer: String?, in path: String) throws {
        switch member.name {
        case "account":
            guard let name = member.value.string else { throw Fault("account", "\(path)account takes a name.") }
            accounts[issuer, default: Accounts()].current = name
        case "accounts":
            guard let all = member.value.array, all.allSatisfy({ $0.string != nil }) else {
                throw Fault("accounts", "\(path)accounts takes an array of names.")
            }
            accounts[issuer, default: Accounts()].names = all.compactMap(\.string)
        default: throw Fault(member.name, "there is no member \(path)\(Self.shown(member.name)).")
        }
    }

    private static func shown(_ name: String) -> String { UntrustedText.message(name, limit: 100) ?? "\"\"" }

    private static func unusable(_ message: String) -> CommandLineError {
        .usage(message, suggestion: "Run `chappie config edit`; `chappie config --help` lists the settings.")
    }

    /// The line of the first member with this name, wherever it is; `nil` if the name is written with escapes.
    private static func line(of member: String, in bytes: [UInt8]) -> Int? {
        let name = ChappieJSON.string(member).serializedBytes()
        var (line, rest) = (1, bytes[...])
        while let byte = rest.first {
            if byte == UInt8(ascii: "\n") { line += 1 }
            if byte == UInt8(ascii: "\""), rest.starts(with: name),
                rest.dropFirst(name.count).first(where: { !" \t\r\n".utf8.contains($0) }) == UInt8(ascii: ":")
            {
                return line
            }
            rest = rest.dropFirst()
        }
        return nil
    }

    /// `nil` is the default.
    subscript(setting: Setting) -> ChappieJSON? {
        get { values[setting] }
        set { values[setting] = newValue }
    }

    /// The file; `nil` without a home directory.
    static func path(_ environment: ProgramEnvironment) -> String? {
        environment.folder("XDG_CONFIG_HOME", else: "/.config").map { $0 + "/settings.json" }
    }

    /// Changes the file, and keeps what other processes change at the same time.
    ///
    /// - Parameter limit: how long it waits for other processes. The change is then made all the same: another process may
    ///   be stopped.
    /// - Throws: ``CommandLineError``; errors of `change`, and then the file is unchanged; `CancellationError`.
    static func change(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5),
        _ change: (inout UserSettings) throws -> Void
    ) async throws {
        try await locked(environment, within: limit) { path in
            let kept = try UserSettings(environment: environment)
            var settings = kept
            try change(&settings)
            if settings != kept { try Self.write(settings.text, to: path) }
        }
    }

    /// Puts what the user has edited in the place of the file.
    ///
    /// - Parameter before: the text that was edited. If the file has another text now, another process has changed it.
    /// - Throws: ``CommandLineError``; `CancellationError`.
    static func replace(
        _ environment: ProgramEnvironment, with text: [UInt8], ifStill before: [UInt8]
    ) async throws {
        try await locked(environment) { path in
            guard try contents(of: path) ?? [] == before else {
                throw CommandLineError.usage(
                    "\(path) was changed by another command while you edited it; your changes are not used.",
                    suggestion: "Edit it again.")
            }
            try Self.write(text, to: path)
        }
    }

    static var homeless: CommandLineError {
        .usage("There is no home directory for the settings.", suggestion: "Set HOME.")
    }

    private static func locked(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5), _ work: (String) throws -> Void
    ) async throws {
        guard let path = path(environment) else { throw homeless }
        // The change is made without the lock if there can be none.
        let slot = CredentialSlot(service: "settings", account: path)
        let hold = try? await environment.lock.acquire(slot, within: limit)
        try Task.checkCancellation()
        try work(path)
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

    /// The file: a line for each member, since users edit it.
    private var text: [UInt8] {
        var object = ChappieJSONObject()
        for setting in Setting.allCases { object[setting.rawValue] = values[setting] }
        for member in accounts(of: nil).json.members { object[member.name] = member.value }
        object["route"] = route.map { .string($0) }
        let others = accounts.compactMap { issuer, accounts -> (String, ChappieJSON)? in
            guard let issuer, accounts != Accounts() else { return nil }
            return (issuer, .object(accounts.json))
        }
        if !others.isEmpty { object["issuers"] = .object(ChappieJSONObject(others.sorted { $0.0 < $1.0 })) }
        let lines = object.members.map { "  \(ChappieJSON.string($0.name).serialized()): \($0.value.serialized())" }
        return Array("{\n\(lines.joined(separator: ",\n"))\n}\n".utf8)
    }

    private static func write(_ text: [UInt8], to path: String) throws {
        // A link leads to the place in which the user keeps the file.
        let target = realpath(path, nil)
        defer { free(target) }
        guard PrivateFile.replace(target.map { String(cString: $0) } ?? path, with: text) else {
            throw CommandLineError.usage(
                "\(path) can't be written: \(String(cString: strerror(errno))).", suggestion: "Check the folder.")
        }
    }
}

extension UserSettings.Accounts {
    fileprivate var json: ChappieJSONObject {
        var object = ChappieJSONObject()
        object["account"] = current.map { .string($0) }
        if !names.isEmpty { object["accounts"] = .array(names.map { .string($0) }) }
        return object
    }
}

extension Setting {
    /// The value without the command line, and its source; `nil` if the default holds.
    ///
    /// - Throws: ``CommandLineError`` about the environment.
    func chosen(
        _ environment: ProgramEnvironment, _ kept: UserSettings?
    ) throws -> (value: ChappieJSON, source: Source)? {
        if let variable, let text = environment[variable] {
            return (try value(from: [text], name: variable), .environment)
        }
        return kept?[self].map { ($0, .file) }
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
