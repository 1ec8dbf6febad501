import ChappieCore

/// The endpoints for accounts, usage and models.
extension Backend {
    /// Returns the owner of an access token, for a client that got the token from its owner.
    func whoAmI(_ request: BackendRequest, _ account: SimulatorAccount) -> BackendResponse {
        guard TokenLedger.bearer(request.header("authorization"))?.hasPrefix("at-") == true else {
            return Self.unauthorized(.unknown)
        }
        return .json([
            "email": .string(account.email), "chatgpt_user_id": .string(account.userID),
            "chatgpt_account_id": .string(account.id), "chatgpt_plan_type": .string(account.plan),
            "chatgpt_account_is_fedramp": false,
        ])
    }

    /// Returns the account's workspace and its origin.
    ///
    /// The origin is deliberately that of the public service. A client whose model URL and account URL differ in origin
    /// keeps the model URL that it was given, and a client that is bound to a plain http origin refuses to start.
    func accountsCheck(of account: SimulatorAccount) -> BackendResponse {
        let entry: ChappieJSON = [
            "id": .string(account.id), "plan_type": .string(account.plan), "name": "Personal",
            "structure": "personal", "profile_picture_url": nil,
            "workspace_backend_origin": .string(account.pin?.origin ?? "https://chatgpt.com"),
            "account_routing_override": .string(account.pin?.routingOverride ?? "NO_CONSTRAINT"),
        ]
        return .json([
            "accounts": [entry], "account_ordering": [.string(account.id)], "default_account_id": .string(account.id),
        ])
    }

    /// Returns the refusal of a request that is not for the region of the account's workspace. The description of the
    /// workspaces is available to every region.
    func refusal(of request: BackendRequest, to route: Route, in account: SimulatorAccount) -> BackendResponse? {
        guard let pin = account.pin, route.needsToken, ![.whoAmI, .accountsCheck].contains(route) else { return nil }
        let region = request.header("x-openai-internal-codex-residency")
        let override = request.header("x-openai-account-routing-override")
        let wanted = pin.region.lowercased() == "no_constraint" ? nil : pin.region
        guard region == wanted, override == pin.routingOverride, pin.origin == nil else {
            return .json(["detail": "Workspace is not authorized in this region."], status: 401)
        }
        return nil
    }

    // MARK: Usage

    /// One of the two windows of a plan.
    private struct Window {
        let name: String
        let percent: Double
        let minutes: Int
        /// The seconds until the window resets. Half a window is near enough to be reported, and far enough not to
        /// pass.
        var resetAfter: Int { minutes * 30 }
    }

    private func windows(of account: SimulatorAccount) -> [Window] {
        let usage = usage(of: account)
        return [
            Window(name: "primary", percent: usage.primaryUsedPercent, minutes: 300),
            Window(name: "secondary", percent: usage.secondaryUsedPercent, minutes: 10_080),
        ]
    }

    private func limits(of account: SimulatorAccount, _ member: (Window) -> (String, ChappieJSON)) -> ChappieJSON {
        let windows = windows(of: account)
        let isReached = windows.contains { $0.percent >= 100 }
        let allowed: [(String, ChappieJSON)] = [("allowed", .bool(!isReached)), ("limit_reached", .bool(isReached))]
        return .object(ChappieJSONObject(allowed + windows.map(member)))
    }

    private var credits: ChappieJSON { ["has_credits": false, "unlimited": false, "balance": "0"] }

    func usage(of account: SimulatorAccount, now: Int) -> BackendResponse {
        let limits = limits(of: account) { window in
            let value: ChappieJSON = [
                "used_percent": .integer(Int(window.percent.rounded())),
                "limit_window_seconds": .integer(window.minutes * 60),
                "reset_after_seconds": .integer(window.resetAfter), "reset_at": .integer(now + window.resetAfter),
            ]
            return (window.name + "_window", value)
        }
        return .json([
            "user_id": .string(account.userID), "account_id": .string(account.id), "plan_type": .string(account.plan),
            "rate_limit": limits, "credits": credits, "additional_rate_limits": [],
            "rate_limit_reset_credits": ["available_count": .integer(availableResetCredits(of: account).count)],
            "rate_limit_reached_type": limits["limit_reached"] == true ? ["type": "rate_limit_reached"] : nil,
        ])
    }

    /// Returns the usage as the header fields that every answer of the Responses endpoint has.
    func usageHeaders(of account: SimulatorAccount, now: Int) -> [(String, String)] {
        windows(of: account).flatMap { window in
            [
                ("x-codex-\(window.name)-used-percent", "\(window.percent)"),
                ("x-codex-\(window.name)-window-minutes", "\(window.minutes)"),
                ("x-codex-\(window.name)-reset-at", "\(now + window.resetAfter)"),
            ]
        } + [
            ("x-codex-credits-has-credits", "false"), ("x-codex-credits-unlimited", "false"),
            ("x-codex-credits-balance", "0"),
        ]
    }

    /// Returns the usage as an event, which replaces the header fields over WebSocket.
    func usageEvent(of account: SimulatorAccount, now: Int) -> ChappieJSON {
        let limits = limits(of: account) { window in
            let value: ChappieJSON = [
                "used_percent": .double(window.percent), "window_minutes": .integer(window.minutes),
                "reset_at": .integer(now + window.resetAfter),
            ]
            return (window.name, value)
        }
        return [
            "type": "codex.rate_limits", "plan_type": .string(account.plan), "rate_limits": limits,
            "code_review_rate_limits": nil, "credits": credits, "promo": nil,
        ]
    }

    /// Returns the 429 that is sent when a window is used up.
    func usageLimitReached(resetsIn seconds: Int, account: SimulatorAccount, now: Int) -> BackendResponse {
        let error: ChappieJSON = [
            "type": "usage_limit_reached", "message": "The usage limit has been reached",
            "plan_type": .string(account.plan), "resets_at": .integer(now + seconds),
            "resets_in_seconds": .integer(seconds),
        ]
        return .json(
            ["error": error], status: 429,
            headers: [
                ("x-codex-active-limit", "codex"), ("x-codex-primary-used-percent", "100.0"),
                ("x-codex-primary-window-minutes", "\(windows(of: account)[0].minutes)"),
                ("x-codex-primary-reset-at", "\(now + seconds)"),
                ("x-codex-rate-limit-reached-type", "rate_limit_reached"),
            ])
    }

    // MARK: Models

    /// Returns the catalogue, or 304 for a client that has it already (RFC 9110, 13.1.2).
    func models(_ request: BackendRequest, for account: SimulatorAccount) -> BackendResponse {
        if let refusal = refusal(ofHeadersOf: request, model: nil) { return refusal }
        let client = ClientVersion(request.query["client_version"]) ?? request.clientVersion
        let models = catalogue.models(for: account, client: client)
        let tag = ModelCatalogue.entityTag(of: models)
        // Entity tags are compared without the mark of weakness (RFC 9110, 8.8.3.2).
        let isKnown = request.list("if-none-match").contains { $0 == "*" || tag.hasSuffix($0) }
        return isKnown
            ? BackendResponse(status: 304, headers: [("etag", tag)])
            : .json(["models": .array(models.map(\.json))], headers: [("etag", tag)])
    }
}
