import ChappieSDK
import FoundationEssentials
import Glibc

/// What arguments and environment say, checked before anything is done.
struct Settings {
    /// Where credentials are kept.
    enum Store: String { case keyring, file, memory }

    var configuration: ChappieConfiguration
    var store: Store
    /// Whether somebody has said so; else it is the default.
    let isStoreChosen: Bool
    let isSimulated: Bool
    /// The addresses to look at before anything is sent: both when the person has set anything about the network.
    let givenURLs: [URL]

    init(options: GlobalOptions, environment: ProgramEnvironment) throws {
        isSimulated = options.simulate
        let kept = options.simulate ? nil : try UserSettings(environment: environment)
        let chosen = environment["CHAPPIE_CREDENTIAL_STORE"] ?? kept?.store
        isStoreChosen = options.simulate || chosen != nil
        store = options.simulate ? .memory : try Self.store(chosen)
        var endpoints = ChappieEndpoints.chatGPT
        if !options.simulate {
            let issuer = try Self.url("CHAPPIE_ISSUER", environment)
            let backend = try Self.url("CHAPPIE_BACKEND", environment)
            endpoints = ChappieEndpoints(
                issuer: issuer ?? endpoints.profile.issuer, backend: backend ?? endpoints.profile.backend)
        }
        let isGiven = ["CHAPPIE_ISSUER", "CHAPPIE_BACKEND", "CHAPPIE_CA_FILE"].contains { environment[$0] != nil }
        givenURLs = isGiven && !options.simulate ? [endpoints.profile.issuer, endpoints.profile.backend] : []
        let account = options.account ?? environment["CHAPPIE_ACCOUNT"] ?? kept?.account ?? "default"
        guard !account.isEmpty else { throw CommandLineError.usage("The account name is empty.") }
        configuration = ChappieConfiguration(
            keychainAccount: account, endpoints: endpoints,
            network: ChappieNetworkPolicy(
                extraCAFile: try Self.caFile(environment), minimumTLS: try Self.minimumTLS(environment),
                deadlines: try Self.deadlines(options.timeout)))
    }

    private static func store(_ name: String?) throws -> Store {
        guard let name else { return .keyring }
        if let store = Store(rawValue: name) { return store }
        throw CommandLineError.usage(
            "CHAPPIE_CREDENTIAL_STORE is \"\(name)\".", suggestion: "Set it to keyring, file or memory, or unset it.")
    }

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

    private static func minimumTLS(_ environment: ProgramEnvironment) throws -> ChappieNetworkPolicy.TLSVersion {
        guard let text = environment["CHAPPIE_MINIMUM_TLS"] else { return .tls12 }
        if let version = ChappieNetworkPolicy.TLSVersion(rawValue: text) { return version }
        throw CommandLineError.usage(
            "CHAPPIE_MINIMUM_TLS is \"\(text)\".",
            suggestion:
                "Set it to \(ChappieNetworkPolicy.TLSVersion.allCases.map(\.rawValue).joined(separator: " or "))"
                + ", or unset it.")
    }

    /// The file's name, once it has been seen to be readable; what is in it is judged by the transport.
    private static func caFile(_ environment: ProgramEnvironment) throws -> String? {
        guard let path = environment["CHAPPIE_CA_FILE"] else { return nil }
        guard access(path, R_OK) == 0 else {
            throw CommandLineError.usage(
                "CHAPPIE_CA_FILE (\(path)) can't be read: \(String(cString: strerror(errno))).",
                suggestion: "Point it at a PEM file of certificate authorities, or unset it.")
        }
        return path
    }
}
