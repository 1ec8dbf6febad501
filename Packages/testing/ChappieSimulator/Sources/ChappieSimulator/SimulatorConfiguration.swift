@_spi(ChappieInternals) public import ChappieCore

/// How a simulator is set up. Every member has a default that suits tests.
public struct SimulatorConfiguration: Sendable {
    /// The address on which it listens; only loopback addresses and `localhost`. Default `127.0.0.1`.
    public var host: String
    /// The port on which it listens; 0, the default, takes any free port.
    public var port: Int
    /// Approves sign-ins without the user, on the first poll. Default false.
    public var autoApprove: Bool
    /// Seconds between polls, which clients learn, up to 60. Default 1.
    public var pollInterval: Int
    /// Pieces of text for each second, 0.1 to 100,000; `nil`, the default, for as fast as it goes.
    public var deltasPerSecond: Double?
    /// Whole seconds count, up to a year. Default one hour. Clients refresh when fewer than five minutes are left.
    public var accessTokenLifetime: Duration
    /// Whole seconds count; `nil`, the default, for no end.
    public var refreshTokenLifetime: Duration?
    /// Whether a refresh token that comes a second time ends every token of that sign-in. Default false: only the
    /// second use is refused.
    public var revokesFamilyOnReuse: Bool
    /// The account that signs in, unless the approval names another.
    public var account: SimulatorAccount
    /// More accounts that can sign in; with any, the page lets the user choose. Every id must be different. Default
    /// none.
    public var otherAccounts: [SimulatorAccount]
    /// How much of the plan is used, for accounts without a separate usage.
    public var usage: SimulatorUsage
    /// Whether the Responses endpoint can be had over WebSocket. Default true; when false an upgrade is answered with
    /// 426 (RFC 9110, 15.5.22), which sends clients to server-sent events at once.
    public var webSocket: Bool
    /// Whether permessage-deflate (RFC 7692) is agreed to when a client offers it. Default true.
    public var webSocketDeflate: Bool
    /// Time between the pings of the server, on every connection; `nil` or zero for none. Default 30 seconds.
    public var webSocketPingInterval: Duration?
    /// The month whose service this is. Default the newest.
    public var asOf: SimulatorMonth
    /// The faults to play. Its settings win over the ones here.
    public var scenario: SimulatorScenario?
    /// How many requests ``Simulator/receivedRequests`` and messages ``Simulator/receivedMessages`` keep, the newest of
    /// each; 0 for none. Default 256.
    public var recordedRequestLimit: Int
    /// The wall clock that tokens and codes expire by.
    public var clock: any ChappieClock
    /// The lifetime of a sign-in's access token if it differs from the lifetime after refreshes; only scenarios set it.
    var firstAccessTokenLifetime: Duration?
    /// Whether neither the form of requests nor their header fields are checked; only scenarios set it.
    var isLenient = false
    /// How models are refused, by slug, whether or not the list has them; only scenarios set it.
    var modelRefusals: [String: ModelRefusal] = [:]
    /// Whether the list still has gpt-5.5; only scenarios set it.
    var listsRetiredModels = false
    /// Whether events are as they were in September; only scenarios set it.
    var hasOlderEvents = false
    /// Whether the user lets apps use the plan; only scenarios set it.
    var planUse = PlanUse.granted
    /// The forms of tools that the plan route takes; only scenarios set it.
    var planTools = PlanTools.any
    /// Turns that each app may ask for on the plan route; `nil` for no cap. Only scenarios set it.
    var planTurnLimit: Int?
    /// Time from an answer of the plan route's token endpoint until its refresh token may be used; `nil` for six
    /// minutes before the access token ends. Only scenarios set it.
    var earliestRefresh: Duration?

    /// Creates a configuration; the defaults are the members'.
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
    /// The account (workspace) id: the claim `chatgpt_account_id`.
    public var id: String
    /// The claim `chatgpt_user_id`.
    public var userID: String
    /// The claim `email`.
    public var email: String
    /// The claim `name`.
    public var name: String
    /// The plan as it is on the wire: `free`, `plus`, `pro`, `team`, or any other word.
    public var plan: String
    /// How much of its plan is used; `nil`, the default, for ``SimulatorConfiguration/usage``.
    public var usage: SimulatorUsage?
    /// The slugs of the models that it may use; `nil`, the default, for its plan's. Only models of the catalogue count.
    public var models: [String]?
    /// Whether the tokens have the claim `chatgpt_account_id`; only scenarios clear it.
    var isNamed = true
    /// How the workspace is pinned to a region; `nil` if it is not. Only scenarios set it.
    var pin: WorkspacePin?

    /// Creates an account; every member has a default.
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

/// A workspace that takes only requests that are for its region.
struct WorkspacePin: Codable, Sendable, Hashable {
    /// The claim `chatgpt_compute_residency`, which requests must repeat unless it is `no_constraint`.
    var region: String
    /// The `account_routing_override`, which requests must have as well; `nil` for none.
    var routingOverride: String?
    /// The `workspace_backend_origin`. The workspace is only there: every request here is refused. `nil` for none.
    var origin: String?
}

/// How much of the plan is used up, as the header fields of every answer and the usage endpoint report it.
public struct SimulatorUsage: Sendable, Hashable {
    /// Percent of the short window, which is 5 hours; 0 to 100.
    public var primaryUsedPercent: Double
    /// Percent of the long window, which is 7 days; 0 to 100.
    public var secondaryUsedPercent: Double

    /// Little is used by default.
    public init(primaryUsedPercent: Double = 12, secondaryUsedPercent: Double = 3) {
        self.primaryUsedPercent = primaryUsedPercent
        self.secondaryUsedPercent = secondaryUsedPercent
    }
}

extension SimulatorConfiguration {
    /// With the scenario's settings, which win.
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

    /// Returns the address of a simulator of this configuration, as text; without a port if that is `nil`.
    package func issuer(port: Int?) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host)\(port.map { ":\($0)" } ?? "")"
    }

    /// Whether requests must have the form that November's models demand.
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
