@_spi(ChappieInternals) public import ChappieCore

/// The configuration of a simulator. Every member has a default that suits tests.
public struct SimulatorConfiguration: Sendable {
    /// The address on which the simulator listens, which is a loopback address or `localhost`. Default `127.0.0.1`.
    public var host: String
    /// The port on which the simulator listens. The default, 0, takes any free port.
    public var port: Int
    /// Whether sign-ins are approved without the user, on the first poll. Default false.
    public var autoApprove: Bool
    /// The number of seconds between polls, which is reported to clients. At most 60, default 1.
    public var pollInterval: Int
    /// The pieces of text per second, from 0.1 to 100,000. `nil`, the default, sends them without pauses.
    public var deltasPerSecond: Double?
    /// The lifetime of access tokens, up to a year. Fractions of a second are ignored. Default one hour. Clients
    /// refresh when fewer than five minutes are left.
    public var accessTokenLifetime: Duration
    /// The lifetime of refresh tokens. Fractions of a second are ignored. `nil`, the default, means no end.
    public var refreshTokenLifetime: Duration?
    /// Whether a second use of a refresh token ends every token of that sign-in. With false, the default, only the
    /// second use is refused.
    public var revokesFamilyOnReuse: Bool
    /// The account that signs in, unless the approval names another.
    public var account: SimulatorAccount
    /// Additional accounts that can sign in. If there are any, the page lets the user choose. Every id must be
    /// different. Default none.
    public var otherAccounts: [SimulatorAccount]
    /// The usage of the plan, for accounts that do not specify their own.
    public var usage: SimulatorUsage
    /// Whether the Responses endpoint is available over WebSocket. Default true. If false, the answer to an upgrade is
    /// 426 (RFC 9110, 15.5.22), after which clients immediately use server-sent events.
    public var webSocket: Bool
    /// Whether the server accepts permessage-deflate (RFC 7692) when a client offers it. Default true.
    public var webSocketDeflate: Bool
    /// The time between the server's pings on every connection. `nil` or zero sends none. Default 30 seconds.
    public var webSocketPingInterval: Duration?
    /// The month whose service the simulator reproduces. Default the newest.
    public var asOf: SimulatorMonth
    /// The faults to play. The scenario's settings take precedence over this configuration.
    public var scenario: SimulatorScenario?
    /// The number of newest requests that ``Simulator/receivedRequests`` keeps, and of newest messages that
    /// ``Simulator/receivedMessages`` keeps. 0 keeps none. Default 256.
    public var recordedRequestLimit: Int
    /// The wall clock that determines when tokens and codes expire.
    public var clock: any ChappieClock
    /// The lifetime of a sign-in's first access token, if it differs from the lifetime after refreshes. Only scenarios
    /// set it.
    var firstAccessTokenLifetime: Duration?
    /// Whether the checks of the form of requests and of their header fields are skipped. Only scenarios set it.
    var isLenient = false
    /// The refusals of models by slug, whether or not the list contains them. Only scenarios set it.
    var modelRefusals: [String: ModelRefusal] = [:]
    /// Whether the list still contains gpt-5.5. Only scenarios set it.
    var listsRetiredModels = false
    /// Whether events have the form of September. Only scenarios set it.
    var hasOlderEvents = false
    /// The number of credits with which each account can reset its usage. Only scenarios set it.
    var resetCreditCount = 0
    /// Whether the user lets apps use the plan. Only scenarios set it.
    var planUse = PlanUse.granted
    /// The forms of tools that the plan route accepts. Only scenarios set it.
    var planTools = PlanTools.any
    /// The number of turns that each app may request on the plan route, or `nil` for no limit. Only scenarios set it.
    var planTurnLimit: Int?
    /// The time from an answer of the plan route's token endpoint until its refresh token may be used. `nil` means six
    /// minutes before the access token expires. Only scenarios set it.
    var earliestRefresh: Duration?

    /// Creates a configuration. The defaults are those of the members.
    public init(
        host: String = "127.0.0.1", port: Int = 0, autoApprove: Bool = false, pollInterval: Int = 1,
        deltasPerSecond: Double? = nil, accessTokenLifetime: Duration = .seconds(3600),
        refreshTokenLifetime: Duration? = nil, revokesFamilyOnReuse: Bool = false,
        account: SimulatorAccount = SimulatorAccount(), otherAccounts: [SimulatorAccount] = [],
        usage: SimulatorUsage = SimulatorUsage(),
        webSocket: Bool = true, webSocketDeflate: Bool = true, webSocketPingInterval: Duration? = .seconds(30),
        asOf: SimulatorMonth = .november2026, scenario: SimulatorScenario? = nil, recordedRequestLimit: Int = 256,
        clock: any ChappieClock = SystemClock()
    ) {
        self.host = host
        self.port = port
        self.autoApprove = autoApprove
        self.pollInterval = pollInterval
        self.deltasPerSecond = deltasPerSecond
        self.accessTokenLifetime = accessTokenLifetime
        self.refreshTokenLifetime = refreshTokenLifetime
        self.revokesFamilyOnReuse = revokesFamilyOnReuse
        self.account = account
        self.otherAccounts = otherAccounts
        self.usage = usage
        self.webSocket = webSocket
        self.webSocketDeflate = webSocketDeflate
        self.webSocketPingInterval = webSocketPingInterval
        self.asOf = asOf
        self.scenario = scenario
        self.recordedRequestLimit = recordedRequestLimit
        self.clock = clock
    }
}

/// A user and the account they sign in as.
public struct SimulatorAccount: Sendable, Hashable {
    /// The account (workspace) id, in the claim `chatgpt_account_id`.
    public var id: String
    /// The claim `chatgpt_user_id`.
    public var userID: String
    /// The claim `email`.
    public var email: String
    /// The claim `name`.
    public var name: String
    /// The plan's name on the wire: `free`, `plus`, `pro`, `team`, or any other word.
    public var plan: String
    /// The usage of its plan. `nil`, the default, means ``SimulatorConfiguration/usage``.
    public var usage: SimulatorUsage?
    /// The slugs of the models that it may use. `nil`, the default, means those of its plan. Only models of the
    /// catalogue count.
    public var models: [String]?
    /// Whether the tokens have the claim `chatgpt_account_id`. Only scenarios clear it.
    var isNamed = true
    /// The region to which the workspace is pinned, or `nil` if it is not pinned. Only scenarios set it.
    var pin: WorkspacePin?

    /// Creates an account. Every member has a default.
    public init(
        id: String = "acct_00000000-0000-4000-8000-000000000001",
        userID: String = "user-simulated",
        email: String = "ada@example.com",
        name: String = "Ada Example",
        plan: String = "plus",
        usage: SimulatorUsage? = nil,
        models: [String]? = nil
    ) {
        self.id = id
        self.userID = userID
        self.email = email
        self.name = name
        self.plan = plan
        self.usage = usage
        self.models = models
    }
}

/// The region to which a workspace is pinned. The workspace accepts only requests for that region.
struct WorkspacePin: Codable, Sendable, Hashable {
    /// The claim `chatgpt_compute_residency`, which requests must repeat unless it is `no_constraint`.
    var region: String
    /// The `account_routing_override`, which requests must also have, or `nil` for none.
    var routingOverride: String?
    /// The `workspace_backend_origin`, or `nil` for none. The workspace exists only at that origin, so every request
    /// here is refused.
    var origin: String?
}

/// The usage of a plan, as the header fields of every answer and the usage endpoint report it.
public struct SimulatorUsage: Sendable, Hashable {
    /// The used percentage of the short window, which is 5 hours. From 0 to 100.
    public var primaryUsedPercent: Double
    /// The used percentage of the long window, which is 7 days. From 0 to 100.
    public var secondaryUsedPercent: Double

    /// Creates a usage, which is low by default.
    public init(primaryUsedPercent: Double = 12, secondaryUsedPercent: Double = 3) {
        self.primaryUsedPercent = primaryUsedPercent
        self.secondaryUsedPercent = secondaryUsedPercent
    }
}

extension SimulatorConfiguration {
    /// Returns the configuration with the scenario's settings, which take precedence.
    ///
    /// - Throws: ``SimulatorError`` for the first setting that is out of bounds.
    package func validated() throws(SimulatorError) -> SimulatorConfiguration {
        let result = scenario?.settings.applied(to: self) ?? self
        try result.validate()
        return result
    }

    private func validate() throws(SimulatorError) {
        guard Origin.isLoopback(host: host) else {
            throw SimulatorError(.notLoopback, reason: "\"\(host)\" is not a loopback address")
        }
        try check(port, in: 0...65_535, "port")
        try check(pollInterval, in: 0...60, "pollInterval")
        for lifetime in [accessTokenLifetime, firstAccessTokenLifetime, refreshTokenLifetime] {
            try check(lifetime?.wholeSeconds ?? 0, in: 0...31_536_000, "a token's lifetime")
        }
        try check(deltasPerSecond ?? 1, in: 0.1...100_000, "deltasPerSecond")
        try check(webSocketPingInterval ?? .zero, in: .zero ... .seconds(86_400), "webSocketPingInterval")
        try check(recordedRequestLimit, in: 0...1_000_000, "recordedRequestLimit")
        for usage in [usage] + otherAccounts.compactMap(\.usage) {
            try check(usage.primaryUsedPercent, in: 0...100, "primaryUsedPercent")
            try check(usage.secondaryUsedPercent, in: 0...100, "secondaryUsedPercent")
        }
        guard Set(accounts.map(\.id)).count == accounts.count, !accounts.map(\.id).contains("") else {
            throw SimulatorError(.invalidConfiguration, reason: "two accounts have the same id, or one has none")
        }
    }

    /// Returns the address of a simulator with this configuration, as text. If `port` is `nil`, the address has no
    /// port.
    package func issuer(port: Int?) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host)\(port.map { ":\($0)" } ?? "")"
    }

    /// Whether requests must have the form that November's models require.
    var isStrict: Bool { asOf != .september2026 && !isLenient }
    var sendsOlderEvents: Bool { asOf == .september2026 || hasOlderEvents }

    var accounts: [SimulatorAccount] { [account] + otherAccounts }
    func account(id: String) -> SimulatorAccount? { accounts.first { $0.id == id } }

    private func check<Value: Comparable>(
        _ value: Value, in bounds: ClosedRange<Value>, _ name: String
    ) throws(SimulatorError) {
        guard !bounds.contains(value) else { return }
        throw SimulatorError(
            .invalidConfiguration, reason: "\(name) must be from \(bounds.lowerBound) to \(bounds.upperBound)")
    }
}

extension Duration {
    var wholeSeconds: Int { Int(clamping: components.seconds) }
}
