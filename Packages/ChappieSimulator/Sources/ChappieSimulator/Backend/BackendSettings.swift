/// A configuration and a scenario's settings, resolved.
struct BackendSettings: Sendable {
    /// Scheme, host and port, without a slash at the end.
    var issuer = "http://127.0.0.1:0"
    /// Who signs in, unless the approval names another.
    var account = SimulatorAccount()
    var otherAccounts: [SimulatorAccount] = []
    /// Whole seconds between polls, as clients are told.
    var pollInterval = 1
    /// Approve without a person on this poll; `nil` waits for the person.
    var approvesOnPoll: Int?
    /// Seconds.
    var accessTokenLifetime = 3600
    /// Seconds; `nil` for the same as every other.
    var firstAccessTokenLifetime: Int?
    /// Seconds; `nil` for no end.
    var refreshTokenLifetime: Int?
    var revokesFamilyOnReuse = false
    var usage = SimulatorUsage()
    /// Whether the Responses endpoint can be had over WebSocket.
    var offersWebSocket = true

    var accounts: [SimulatorAccount] { [account] + otherAccounts }
    func account(id: String) -> SimulatorAccount? { accounts.first { $0.id == id } }
    func usage(of account: SimulatorAccount) -> SimulatorUsage { account.usage ?? usage }
}
