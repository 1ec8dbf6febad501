import ChappieCore

/// The endpoints of the credits that reset a used plan.
extension Backend {
    /// Returns the credits of an account. The one that expires first comes last.
    func resetCredits(of account: SimulatorAccount, now: Int) -> BackendResponse {
        let redeemed = redemptions[account.id]?.credits ?? []
        let ids = resetCreditIDs
        let credits = ids.enumerated().map { index, id -> ChappieJSON in
            let start = now - now % 86_400
            return [
                "id": .string(id), "reset_type": "codex_rate_limits",
                "status": redeemed.contains(id) ? "redeemed" : "available",
                "granted_at": .string(Self.timestamp(start - 86_400 * (index + 1))),
                "expires_at": .string(Self.timestamp(start + 86_400 * 10 * (ids.count - index))),
                "title": "Full reset", "description": "Resets both windows of your plan.",
            ]
        }
        return .json([
            "available_count": .integer(availableResetCredits(of: account).count), "credits": .array(credits),
        ])
    }

    /// Redeems a credit, at most once for each request id.
    mutating func consumeResetCredit(_ request: BackendRequest, for account: SimulatorAccount) -> BackendResponse {
        let body: ChappieJSON
        do throws(BackendResponse) {
            body = try request.plainObject(allowing: ["redeem_request_id", "credit_id"])
        } catch {
            return error
        }
        guard let id = body["redeem_request_id"]?.string, UUID(uuidString: id) != nil else {
            return .missing("redeem_request_id")
        }
        var redemptions = redemptions[account.id] ?? Redemptions()
        if redemptions.requests.contains(id) { return Self.redemption("already_redeemed") }
        let available = availableResetCredits(of: account)
        let wanted = body["credit_id"]?.string ?? available.last
        guard let credit = available.first(where: { $0 == wanted }) else { return Self.redemption("no_credit") }
        let usage = usage(of: account)
        guard usage.primaryUsedPercent > 0 || usage.secondaryUsedPercent > 0 else {
            return Self.redemption("nothing_to_reset")
        }
        redemptions.requests.insert(id)
        redemptions.credits.insert(credit)
        self.redemptions[account.id] = redemptions
        return Self.redemption("reset", windows: 2)
    }

    /// Returns the ids of the credits that can be redeemed.
    func availableResetCredits(of account: SimulatorAccount) -> [String] {
        resetCreditIDs.filter { redemptions[account.id]?.credits.contains($0) != true }
    }

    /// The usage of an account's plan, which a redeemed credit resets.
    func usage(of account: SimulatorAccount) -> SimulatorUsage {
        guard redemptions[account.id] == nil else {
            return SimulatorUsage(primaryUsedPercent: 0, secondaryUsedPercent: 0)
        }
        return account.usage ?? configuration.usage
    }

    private var resetCreditIDs: [String] { (0..<configuration.resetCreditCount).map { "credit_\($0 + 1)" } }

    private static func redemption(_ code: String, windows: Int = 0) -> BackendResponse {
        .json(["code": .string(code), "windows_reset": .integer(windows)])
    }

    private static func timestamp(_ seconds: Int) -> String {
        Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
    }
}

/// The redeemed credits of one account.
struct Redemptions: Sendable {
    /// The ids of the requests that redeemed a credit.
    var requests: Set<String> = []
    /// The ids of the redeemed credits.
    var credits: Set<String> = []
}
