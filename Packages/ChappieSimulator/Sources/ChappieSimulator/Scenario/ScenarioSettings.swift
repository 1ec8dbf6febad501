import ChappieCore

/// The part of a scenario that holds for every request; a member that is missing leaves the configuration as it is.
struct ScenarioSettings: Sendable, Hashable {
    var autoApprove: Bool?
    /// Whole seconds.
    var pollInterval: Int?
    var deltasPerSecond: Double?
    /// Seconds.
    var accessTokenLifetime: Int?
    /// Seconds, for the access token of a sign-in alone.
    var firstAccessTokenLifetime: Int?
    /// Seconds.
    var refreshTokenLifetime: Int?
    var revokesFamilyOnReuse: Bool?
    var plan: String?
    var otherAccounts: [SimulatorAccount]?
    var primaryUsedPercent: Double?
    var secondaryUsedPercent: Double?
    var webSocket: Bool?
    var webSocketDeflate: Bool?
    /// Zero for none.
    var webSocketPingInterval: Duration?

    init() {}

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow([
            "autoApprove", "pollInterval", "deltasPerSecond", "accessTokenLifetime", "firstAccessTokenLifetime",
            "refreshTokenLifetime", "revokesFamilyOnReuse", "plan", "otherAccounts", "primaryUsedPercent",
            "secondaryUsedPercent", "webSocket", "webSocketDeflate", "webSocketPingInterval",
        ])
        autoApprove = try reader["autoApprove"]?.bool()
        pollInterval = try reader["pollInterval"]?.integer(in: SimulatorConfiguration.pollIntervalBounds)
        deltasPerSecond = try reader["deltasPerSecond"]?.number(in: SimulatorConfiguration.rateBounds)
        accessTokenLifetime = try reader["accessTokenLifetime"]?.integer(in: SimulatorConfiguration.lifetimeBounds)
        firstAccessTokenLifetime = try reader["firstAccessTokenLifetime"]?.integer(
            in: SimulatorConfiguration.lifetimeBounds)
        refreshTokenLifetime = try reader["refreshTokenLifetime"]?.integer(in: SimulatorConfiguration.lifetimeBounds)
        revokesFamilyOnReuse = try reader["revokesFamilyOnReuse"]?.bool()
        plan = try reader["plan"]?.string()
        otherAccounts = try reader["otherAccounts"]?.elements { (element) throws(SimulatorError) in
            try SimulatorAccount(element)
        }
        primaryUsedPercent = try reader["primaryUsedPercent"]?.number(in: 0...100)
        secondaryUsedPercent = try reader["secondaryUsedPercent"]?.number(in: 0...100)
        webSocket = try reader["webSocket"]?.bool()
        webSocketDeflate = try reader["webSocketDeflate"]?.bool()
        webSocketPingInterval = try reader["webSocketPingInterval"]?.duration()
    }
}
