public import ChappieCore

/// How a simulator is set up. Every member has a default that suits tests.
public struct SimulatorConfiguration: Sendable {
    /// Bounds of ``pollInterval``, in seconds.
    public static let pollIntervalBounds = 0...60
    /// Bounds of ``deltasPerSecond``.
    public static let rateBounds = 0.1...100_000.0
    /// Bounds of the token lifetimes, in seconds: up to a year.
    public static let lifetimeBounds = 0...31_536_000

    /// Where it listens; only loopback addresses and `localhost`. Default `127.0.0.1`.
    public var host: String
    /// Where it listens; 0, the default, takes any free port.
    public var port: Int
    /// Approves sign-ins without a person, on the second poll, so that clients see one that is pending; on the first when
    /// ``pollInterval`` is 0. Default false.
    public var autoApprove: Bool
    /// Seconds between polls, as clients are told. Default 1.
    public var pollInterval: Int
    /// Pieces of text for each second; `nil`, the default, for as fast as it goes.
    public var deltasPerSecond: Double?
    /// Whole seconds count. Default one hour. Clients refresh when fewer than five minutes are left.
    public var accessTokenLifetime: Duration
    /// Whole seconds count; `nil`, the default, for no end.
    public var refreshTokenLifetime: Duration?
    /// Whether a refresh token that comes a second time ends every token of that sign-in. Default false: only the second
    /// use is refused.
    public var revokesFamilyOnReuse: Bool
    /// Who signs in, unless the approval names another.
    public var account: SimulatorAccount
    /// Who else can sign in: where there is anybody, the page lets the person choose. Every id must be another. Default
    /// none.
    public var otherAccounts: [SimulatorAccount]
    /// How much of the plan is used, for accounts that don't say.
    public var usage: SimulatorUsage
    /// Whether the Responses endpoint can be had over WebSocket. Default true; when false an upgrade is answered with 426
    /// (RFC 9110, 15.5.22), which sends clients to server-sent events at once.
    public var webSocket: Bool
    /// Whether permessage-deflate (RFC 7692) is agreed to when a client offers it. Default true.
    public var webSocketDeflate: Bool
    /// Time between the pings of the server, on every connection; `nil` or zero for none. Default 30 seconds.
    public var webSocketPingInterval: Duration?
    /// What is to go wrong. Its settings win over the ones here.
    public var scenario: SimulatorScenario?
    /// How many requests ``Simulator/receivedRequests`` and messages ``Simulator/receivedMessages`` keep, the newest of
    /// each; 0 for none. Default 256; never more than 128 MiB of bodies together.
    public var recordedRequestLimit: Int
    /// The wall clock that tokens and codes expire by.
    public var clock: any ChappieClock

    public init(
        host: String = "127.0.0.1", port: Int = 0, autoApprove: Bool = false, pollInterval: Int = 1,
        deltasPerSecond: Double? = nil, accessTokenLifetime: Duration = .seconds(3600),
        refreshTokenLifetime: Duration? = nil, revokesFamilyOnReuse: Bool = false,
        account: SimulatorAccount = SimulatorAccount(), otherAccounts: [SimulatorAccount] = [],
        usage: SimulatorUsage = SimulatorUsage(),
        webSocket: Bool = true, webSocketDeflate: Bool = true, webSocketPingInterval: Duration? = .seconds(30),
        scenario: SimulatorScenario? = nil, recordedRequestLimit: Int = 256, clock: any ChappieClock = SystemClock()
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
        self.scenario = scenario
        self.recordedRequestLimit = recordedRequestLimit
        self.clock = clock
    }
}
