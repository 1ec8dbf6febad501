import ChappieCore

extension Backend {
    /// Where the account's workspace lives.
    ///
    /// The origin is the public service's own, on purpose: a client whose model URL and account URL differ in origin
    /// keeps the model URL it was given, and one that is bound to a plain http origin refuses to start.
    func accountsCheck(of account: SimulatorAccount) -> BackendResponse {
        let entry: ChappieJSON = [
            "id": .string(account.id), "plan_type": .string(account.plan), "name": "Personal",
            "structure": "personal", "profile_picture_url": nil,
            "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT",
        ]
        return .json([
            "accounts": [entry], "account_ordering": [.string(account.id)],
            "default_account_id": .string(account.id),
        ])
    }

    func usage(of account: SimulatorAccount, now: Int) -> BackendResponse {
        let usage = settings.usage(of: account)
        let isReached = usage.primaryUsedPercent >= 100 || usage.secondaryUsedPercent >= 100
        return .json([
            "user_id": .string(account.userID), "account_id": .string(account.id),
            "plan_type": .string(account.plan),
            "rate_limit": [
                "allowed": .bool(!isReached), "limit_reached": .bool(isReached),
                "primary_window": window(usage.primaryUsedPercent, usage.primaryWindowMinutes, now: now),
                "secondary_window": window(usage.secondaryUsedPercent, usage.secondaryWindowMinutes, now: now),
            ],
            "credits": ["has_credits": false, "unlimited": false, "balance": "0"],
            "additional_rate_limits": [],
            "rate_limit_reached_type": isReached ? ["type": "rate_limit_reached"] : nil,
        ])
    }

    /// The usage as header fields, as every answer of the Responses endpoint has them.
    func usageHeaders(of account: SimulatorAccount, now: Int) -> [(String, String)] {
        let usage = settings.usage(of: account)
        return [
            ("x-codex-primary-used-percent", "\(usage.primaryUsedPercent)"),
            ("x-codex-primary-window-minutes", "\(usage.primaryWindowMinutes)"),
            ("x-codex-primary-reset-at", "\(now + resetAfter(usage.primaryWindowMinutes))"),
            ("x-codex-secondary-used-percent", "\(usage.secondaryUsedPercent)"),
            ("x-codex-secondary-window-minutes", "\(usage.secondaryWindowMinutes)"),
            ("x-codex-secondary-reset-at", "\(now + resetAfter(usage.secondaryWindowMinutes))"),
            ("x-codex-credits-has-credits", "false"),
            ("x-codex-credits-unlimited", "false"),
            ("x-codex-credits-balance", "0"),
        ]
    }

    /// The usage as an event, which takes the header fields' place over WebSocket.
    func usageEvent(of account: SimulatorAccount, now: Int) -> ChappieJSON {
        let usage = settings.usage(of: account)
        let isReached = usage.primaryUsedPercent >= 100 || usage.secondaryUsedPercent >= 100
        func window(_ percent: Double, _ minutes: Int) -> ChappieJSON {
            [
                "used_percent": .double(percent), "window_minutes": .integer(minutes),
                "reset_at": .integer(now + resetAfter(minutes)),
            ]
        }
        return [
            "type": "codex.rate_limits", "plan_type": .string(account.plan),
            "rate_limits": [
                "allowed": .bool(!isReached), "limit_reached": .bool(isReached),
                "primary": window(usage.primaryUsedPercent, usage.primaryWindowMinutes),
                "secondary": window(usage.secondaryUsedPercent, usage.secondaryWindowMinutes),
            ],
            "code_review_rate_limits": nil,
            "credits": ["has_credits": false, "unlimited": false, "balance": "0"], "promo": nil,
        ]
    }

    private func window(_ percent: Double, _ minutes: Int, now: Int) -> ChappieJSON {
        [
            "used_percent": .integer(Int(percent.rounded())), "limit_window_seconds": .integer(minutes * 60),
            "reset_after_seconds": .integer(resetAfter(minutes)), "reset_at": .integer(now + resetAfter(minutes)),
        ]
    }

    /// Half a window from now: near enough to be told, far enough not to pass meanwhile.
    private func resetAfter(_ minutes: Int) -> Int { minutes * 30 }
}
