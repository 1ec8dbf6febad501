@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials

/// The way in which a command treats `CHAPPIE_ACCESS_TOKEN`.
enum AccessTokenUse {
    /// The program signs in with the token before the command's work, for as long as the command runs.
    case signsIn
    /// The command signs in with the token itself.
    case signsInItself
    /// The command is about the stored sign-in, so the token is a mistake.
    case refused
    /// The command does not need a sign-in.
    case ignored
}

/// The part of the settings that a command uses. The command stops only at a setting that it uses and that is invalid.
enum SettingsUse: Int {
    /// The service's addresses, the account and the store.
    case credential
    /// Also the settings of the network.
    case network
    /// All settings, which are needed to ask or to sign in.
    case all
}

/// The settings of one run, from the arguments, the environment and the settings file. They are checked before anything
/// is done.
struct ResolvedSettings {
    var configuration: ChappieConfiguration
    let route: Route
    /// The issuer and the backend of each route, in the form in which ``issuer`` names them for ``route``.
    let issuers: [Route: String]
    var store: StoreChoice
    /// The store without an access token of the environment, which does not need a store.
    let keptStore: StoreChoice
    /// Whether the user has chosen the store. Otherwise it is the default.
    let isStoreChosen: Bool
    /// The addresses to check before anything is sent. They are the issuer and the backend if the user has set anything
    /// about the network.
    let givenURLs: [URL]
    /// The error of a network setting that cannot be used. It is an error only for commands that need the network.
    let networkProblem: CommandLineError?
    /// Lines about settings that cannot be used and that the command does not need.
    let notices: [String]
    /// The values of the environment and of the user's file.
    private let chosen: [Setting: ChappieJSON]
    /// The maximum size of the threads, in bytes.
    var threadLimit: Int { (chosen[.threadsLimit]?.int ?? 512) << 20 }
    /// The folder of the user's file, to which paths in the file are relative.
    private let folder: String?
    private let home: String?
    /// The access token to sign in with only for this command.
    let accessToken: String?
    /// The file with the passphrase of the encrypted file.
    let passphraseFile: String?
    /// The value without the command line.
    subscript(setting: Setting) -> ChappieJSON? { chosen[setting] }
    /// The choice of when Markdown is drawn.
    var markdown: MarkdownChoice? { chosen[.markdown]?.string.flatMap(MarkdownChoice.init) }
    /// The manifests of tools. A relative path begins at the folder of the user's file, or at the home folder after
    /// `~/`.
    var tools: [String] {
        (chosen[.tools]?.array ?? []).compactMap(\.string).map { path in
            if path.hasPrefix("~/"), let home { return home + path.dropFirst() }
            return path.hasPrefix("/") ? path : "\(folder ?? ".")/\(path)"
        }
    }
    /// The issuer and the backend that sign-ins and accounts belong to, or `nil` for the default ones.
    var issuer: String? { configuration.credentialSlot.issuer }
    /// The issuer and the backend for messages: `https://issuer for https://backend`.
    var issuerWords: String? { issuer?.split(separator: " ").prefix(2).joined(separator: " for ") }

    /// - Parameters:
    ///   - accessTokenUse: the command's use of the access token.
    ///   - use: the command's use of the settings.
    init(
        options: GlobalOptions, environment: ProgramEnvironment, accessTokenUse: AccessTokenUse = .ignored,
        use: SettingsUse = .all
    ) throws {
        let token = options.simulate ? nil : environment.accessToken
        if token != nil, accessTokenUse == .refused {
            throw CommandLineError.usage(
                "\(ProgramEnvironment.accessTokenVariable) is set, and this command is about the stored sign-in.",
                suggestion: "Unset \(ProgramEnvironment.accessTokenVariable) for this command.")
        }
        accessToken = [.signsIn, .signsInItself].contains(accessTokenUse) ? token : nil
        passphraseFile = environment["CHAPPIE_PASSPHRASE_FILE"]
        let kept = options.simulate ? SettingsFile() : SettingsFile(environment: environment)
        if use == .all { try kept.check(.unusable) }
        var notices = [kept.notice].compactMap(\.self)
        let (notes, problem) = options.simulate ? (notes: ProgramNotes(), problem: nil) : ProgramNotes.read(environment)
        if let problem { notices.append("\(problem.message) \(problem.suggestion ?? "")") }
        let folders = environment.folders
        folder = folders.configuration
        home = folders.home
        // A simulation uses its own store.
        var chosen: [Setting: ChappieJSON] = [:]
        for setting in Setting.allCases where !options.simulate || setting != .store {
            do {
                chosen[setting] = try setting.chosen(environment, kept, notes)?.value
            } catch let error as CommandLineError where use != .all && setting != .store {
                notices.append("\(error.message) \(error.suggestion ?? "")")
            }
        }
        self.chosen = chosen
        // An access token belongs to the service behind the device code.
        let route = options.route ?? (accessToken == nil ? notes.usualRoute : nil) ?? .device
        guard accessToken == nil || route == .device else {
            throw CommandLineError.usage(
                "--route \(route.rawValue) takes no access token.",
                suggestion: "Leave out --route, or unset \(ProgramEnvironment.accessTokenVariable).")
        }
        guard !options.simulate || route == .device else {
            throw CommandLineError.usage(
                "A simulation signs in with a device code.", suggestion: "Leave out --route or --simulate.")
        }
        self.route = route
        var endpoints = route.endpoints
        var issuers: [Route: String] = [:]
        if !options.simulate {
            let issuer = try Self.url("CHAPPIE_ISSUER", environment)
            let backend = try Self.url("CHAPPIE_BACKEND", environment)
            for route in Route.allCases {
                let usual = route.endpoints
                let endpoints = route.endpoints(
                    issuer: issuer ?? usual.issuer, backend: backend ?? usual.backend)
                issuers[route] = endpoints.credentialIssuer
            }
            endpoints = route.endpoints(
                issuer: issuer ?? endpoints.issuer, backend: backend ?? endpoints.backend)
        }
        self.issuers = issuers
        let isGiven = ["CHAPPIE_ISSUER", "CHAPPIE_BACKEND", Self.caFileVariable].contains { environment[$0] != nil }
        givenURLs = isGiven && !options.simulate ? [endpoints.issuer, endpoints.backend] : []
        // The transport checks the content of the file.
        var caFile: String?
        // If the choice cannot be read, the safer one applies.
        var minimumTLS = ChappieNetworkPolicy.TLSVersion.tls13
        do {
            caFile = try environment.path(Self.caFileVariable)
            minimumTLS = try Self.choice(Self.minimumTLSVariable, environment[Self.minimumTLSVariable]) ?? .tls12
            networkProblem = nil
        } catch {
            let problem = CommandLineError(error)
            networkProblem = problem
            if use == .credential { notices.append("\(problem.message) \(problem.suggestion ?? "")") }
        }
        self.notices = notices
        configuration = ChappieConfiguration(
            automaticCompaction: 0.8, endpoints: endpoints,
            network: ChappieNetworkPolicy(
                extraCAFile: caFile, minimumTLS: minimumTLS, deadlines: try Self.deadlines(options.timeout)))
        let word = chosen[.store]?.string
        isStoreChosen = options.simulate || word != nil
        keptStore = options.simulate ? .memory : word.flatMap(StoreChoice.init) ?? .keyring
        store = accessToken == nil ? keptStore : .memory
        let account =
            options.account ?? environment["CHAPPIE_ACCOUNT"]
            ?? notes.accounts(of: configuration.credentialSlot.issuer).current ?? "default"
        guard !account.isEmpty else { throw CommandLineError.usage("The account name is empty.") }
        configuration.keychainAccount = account
    }

    /// Returns the choice that a setting names, or `nil` if it is not set.
    private static func choice<Choice: RawRepresentable & CaseIterable>(
        _ name: String, _ text: String?
    ) throws -> Choice? where Choice.RawValue == String {
        guard let text else { return nil }
        if let choice = Choice(rawValue: text) { return choice }
        let words = Choice.allCases.map(\.rawValue)
        let list = words.dropLast().joined(separator: ", ") + " or \(words.last ?? "")"
        throw CommandLineError.usage("\(name) is \"\(text)\".", suggestion: "Set it to \(list), or unset it.")
    }

    static let caFileVariable = "CHAPPIE_CA_FILE"
    private static let minimumTLSVariable = "CHAPPIE_MINIMUM_TLS"

    private static func url(_ name: String, _ environment: ProgramEnvironment) throws -> URL? {
        guard let text = environment[name] else { return nil }
        guard let url = URL(string: text), let host = url.host(), !host.isEmpty, url.user() == nil,
            url.query() == nil, url.fragment() == nil, ["http", "https"].contains(url.scheme?.lowercased())
        else {
            throw CommandLineError.usage(
                "\(name) is not a web address.",
                suggestion: "Set it to something like https://host\(name == "CHAPPIE_BACKEND" ? "/backend-api" : "").")
        }
        return url
    }

    private static func deadlines(_ seconds: Double?) throws -> ChappieDeadlines {
        guard let seconds else { return .default }
        guard seconds > 0, seconds <= 86_400 else {
            throw CommandLineError.usage("--timeout takes seconds, more than 0 and at most 86400.")
        }
        let limit = Duration.seconds(seconds)
        return ChappieDeadlines(
            connect: min(limit, ChappieDeadlines.default.connect), responseHead: limit, firstByte: limit, idle: limit,
            upgrade: min(limit, ChappieDeadlines.default.upgrade),
            liveness: min(max(limit, .seconds(2)), ChappieDeadlines.default.liveness))
    }
}
