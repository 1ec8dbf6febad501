extension SimulatorConfiguration {
    /// - Throws: ``SimulatorError`` for the first setting that is out of bounds.
    func validate() throws(SimulatorError) {
        guard LoopbackHost.isLoopback(host) else {
            throw SimulatorError(.notLoopback, reason: "\"\(host)\" is not a loopback address")
        }
        try check(port, in: 0...65_535, "port")
        try check(pollInterval, in: Self.pollIntervalBounds, "pollInterval")
        try check(accessTokenLifetime.seconds, in: Self.lifetimeBounds, "accessTokenLifetime")
        if let lifetime = refreshTokenLifetime {
            try check(lifetime.seconds, in: Self.lifetimeBounds, "refreshTokenLifetime")
        }
        if let rate = deltasPerSecond { try check(rate, in: Self.rateBounds, "deltasPerSecond") }
        if let interval = webSocketPingInterval {
            try check(interval, in: .zero ... .seconds(86_400), "webSocketPingInterval")
        }
        try check(recordedRequestLimit, in: 0...1_000_000, "recordedRequestLimit")
        let accounts = settings(issuer: "").accounts
        guard Set(accounts.map(\.id)).count == accounts.count else {
            throw SimulatorError(.invalidConfiguration, reason: "two accounts have the same id")
        }
    }

    /// The rate, after the scenario's word.
    var resolvedRate: Double? { scenario?.settings.deltasPerSecond ?? deltasPerSecond }

    func settings(issuer: String) -> BackendSettings {
        let wish = scenario?.settings ?? ScenarioSettings()
        var account = account
        if let plan = wish.plan { account.plan = plan }
        var usage = usage
        if let percent = wish.primaryUsedPercent { usage.primaryUsedPercent = percent }
        if let percent = wish.secondaryUsedPercent { usage.secondaryUsedPercent = percent }
        return BackendSettings(
            issuer: issuer, account: account, otherAccounts: wish.otherAccounts ?? otherAccounts,
            pollInterval: wish.pollInterval ?? pollInterval,
            approvesOnPoll: wish.autoApprove ?? autoApprove ? (wish.pollInterval ?? pollInterval == 0 ? 1 : 2) : nil,
            accessTokenLifetime: wish.accessTokenLifetime ?? accessTokenLifetime.seconds,
            firstAccessTokenLifetime: wish.firstAccessTokenLifetime,
            refreshTokenLifetime: wish.refreshTokenLifetime ?? refreshTokenLifetime?.seconds,
            revokesFamilyOnReuse: wish.revokesFamilyOnReuse ?? revokesFamilyOnReuse, usage: usage,
            offersWebSocket: wish.webSocket ?? webSocket)
    }

    /// Whether compression is agreed to, after the scenario's word.
    var resolvedDeflate: Bool { scenario?.settings.webSocketDeflate ?? webSocketDeflate }

    /// The time between pings, after the scenario's word; `nil` for none.
    var resolvedPingInterval: Duration? {
        let interval = scenario?.settings.webSocketPingInterval ?? webSocketPingInterval
        return interval == .zero ? nil : interval
    }

    private func check<Value: Comparable>(
        _ value: Value, in bounds: ClosedRange<Value>, _ name: String
    ) throws(SimulatorError) {
        guard !bounds.contains(value) else { return }
        throw SimulatorError(
            .invalidConfiguration, reason: "\(name) must be from \(bounds.lowerBound) to \(bounds.upperBound)")
    }
}

extension Duration {
    fileprivate var seconds: Int { Int(clamping: components.seconds) }
}
