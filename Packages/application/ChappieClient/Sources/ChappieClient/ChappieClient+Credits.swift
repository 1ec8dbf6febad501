@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

extension ChappieClient {
    // MARK: Reset credits

    /// Returns the credits with which the user can reset the plan's limits. Those that can be redeemed come first, in
    /// the order in which they expire.
    ///
    /// - Throws: ``ChappieClientError``, such as ``ChappieClientError/notWithThisSignIn(_:)`` for a sign-in with
    ///   "Continue with ChatGPT"; `CancellationError`. An account without credits is not an error.
    public func resetCredits() async throws -> [ChappieResetCredit] {
        guard let url = configuration.endpoints.resetCreditsURL else { throw Self.noResetCredits }
        let (_, json) = try await get(url, authorization(onlyFor: nil), within: Self.patience)
        guard let credits = json?["credits"]?.array else { throw ChappieClientError.invalidResponse }
        let now = clock.now
        return credits.compactMap(ChappieResetCredit.init).sorted { $0.order(at: now) < $1.order(at: now) }
    }

    /// Redeems a credit, which resets the windows of the plan.
    ///
    /// One request is sent. If its outcome is not known, send the same ``ChappieRedemptionRequest`` again, also in
    /// another process. The service redeems at most one credit for each id.
    ///
    /// ```swift
    /// let request = ChappieRedemptionRequest(creditID: try await client.resetCredits().first?.id)
    /// // Store the request until this call returns, or throws `resetRefused`.
    /// let redemption = try await client.redeem(request)
    /// ```
    ///
    /// - Throws: ``ChappieClientError/resetRefused(_:)``, after which no credit was redeemed for this request, and
    ///   ``ChappieClientError/notWithThisSignIn(_:)``. After every other error, the outcome is not known.
    public func redeem(_ request: ChappieRedemptionRequest) async throws -> ChappieRedemption {
        guard let url = configuration.endpoints.resetCreditsURL else { throw Self.noResetCredits }
        var body: ChappieJSONObject = ["redeem_request_id": .string(request.id)]
        body["credit_id"] = request.creditID.map(ChappieJSON.string)
        do {
            let caller = serviceCaller(onlyFor: nil)
            let response = try await caller.post(body, to: url.appending(path: "consume"), [:])
            let bytes = try await response.body.collect(upTo: Self.listLimit)
            let json = try? ChappieJSON(parsing: bytes)
            switch json?["code"]?.string {
            case "reset", "already_redeemed":
                return ChappieRedemption(
                    windowsReset: json?["windows_reset"]?.int, wasRedeemedBefore: json?["code"] == "already_redeemed")
            case "nothing_to_reset": throw ChappieClientError.resetRefused(.nothingToReset)
            case "no_credit": throw ChappieClientError.resetRefused(.noCredit)
            default:
                throw caller.errors.failure(
                    ofSuccess: response.status.code, headerFields: response.headerFields, body: bytes, now: clock.now)
            }
        } catch {
            let error = ChappieClientError.wrapping(error)
            if case ChappieClientError.httpError(403, let body) = error, body.contains("rate_limit_reset_ineligible") {
                throw ChappieClientError.resetRefused(.ineligible)
            }
            throw error
        }
    }

    private static let noResetCredits = ChappieClientError.notWithThisSignIn("The reset of limits")
}
