@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes

extension ChappieClient {
    static let listLimit = 16 << 20

    /// Returns the usage of the account's limits. If the service names another plan than the sign-in, the sign-in is
    /// renewed, at most once an hour. A request that fails with 429 is repeated as the configuration's backoff policy
    /// specifies.
    ///
    /// - Throws: ``ChappieClientError``: ``ChappieClientError/usageNotReported(_:)`` if the backend does not report
    ///   them, in which case nothing is sent; `CancellationError`.
    public func usageLimits() async throws -> ChappieUsageLimitSnapshot {
        let endpoints = configuration.endpoints
        guard let url = endpoints.usageURL else { throw ChappieClientError.usageNotReported(endpoints.usagePage) }
        let (_, json) = try await get(url, authorization(onlyFor: nil))
        guard let usage = json.flatMap(ChappieUsageLimitSnapshot.init(usageBody:)) else {
            throw ChappieClientError.invalidResponse
        }
        if let plan = usage.plan, let known = try? await accountInfo().plan, !plan.isSame(as: known) {
            _ = try await credentials.renewAfterPlanChange()
        }
        return usage.dated(at: clock.now)
    }

    /// The plans of the account at the service and in the sign-in, if they are known to differ.
    struct PlanChange: Sendable {
        let service: ChappiePlan
        let signIn: ChappiePlan
    }

    /// The time for which the service is not asked again for the account's plan.
    private static let planPause = Duration.seconds(3600)

    /// Returns the change of the account's plan since its tokens were issued, if there is one. It is called after a
    /// request that the plan did not allow. The answer may name the plan. Otherwise the service is asked, once an hour.
    func planChange(after limit: ChappieUsageLimit, of account: ChappieAccountInfo) async -> PlanChange? {
        guard let known = account.plan else { return nil }
        var plan = limit.plan
        if plan?.isSame(as: known) ?? true, let url = configuration.endpoints.usageURL {
            if let planAsked, clock.elapsed - planAsked < Self.planPause { return nil }
            planAsked = clock.elapsed
            let answer = try? await get(url, authorization(onlyFor: account), within: Self.patience)
            plan = answer?.json.flatMap(ChappieUsageLimitSnapshot.init(usageBody:))?.plan
        }
        return plan.flatMap { $0.isSame(as: known) ? nil : PlanChange(service: $0, signIn: known) }
    }

    /// Adds the two plans to a limit, if the sign-in still names the old one.
    func explain(_ limit: ChappieUsageLimit, _ change: PlanChange?) async -> ChappieUsageLimit {
        var limit = limit
        if let change, let plan = try? await accountInfo().plan, !plan.isSame(as: change.service) {
            limit.planOfService = change.service
            limit.planOfSignIn = plan
        }
        return limit
    }

    /// Returns the account that is signed in according to the stored credential.
    ///
    /// - Throws: ``ChappieClientError/missingCredential``, ``ChappieClientError/credentialStoreFailed(_:)``.
    public func accountInfo() async throws -> ChappieAccountInfo {
        do {
            guard let info = try await credentials.accountInfo() else { throw ChappieClientError.missingCredential }
            return info
        } catch { throw ChappieClientError.wrapping(error) }
    }

    /// Returns the authorization to send requests in the name of this client's program.
    func authorization(onlyFor account: ChappieAccountInfo?) -> Authorization {
        credentials.authorization(onlyFor: account, as: configuration.endpoints.registration)
    }

    /// Loads a resource of the backend.
    ///
    /// - Parameter deadlines: the deadlines of an exchange for which a turn waits. It is not repeated after a 429.
    /// - Returns: the answer's tag and body. There is no body if the caller's `tag` is still current.
    func get(
        _ url: URL, _ authorization: Authorization, unless tag: String? = nil, within deadlines: ChappieDeadlines? = nil
    ) async throws -> (tag: String?, json: ChappieJSON?) {
        // A turn that waits for the answer has no time for a second attempt.
        let retry: [any HTTPMiddleware] = deadlines == nil ? [FreshConnectionRetry()] : []
        let errors = BackendErrors(configuration.endpoints)
        let authorized = MiddlewareTransport(
            transport,
            middleware: middleware + [authorization] + retry + [PlanRefusals(errors: errors, clock: clock)])
        var fields: HTTPFields = [.accept: "application/json"]
        if !configuration.endpoints.usesPlan { fields[.wireFormatVersion] = WireFormat.version }
        var request = HTTPExchangeRequest(url: url, headerFields: fields, deadlines: deadlines)
        request.headerFields[.ifNoneMatch] = tag
        var (retries, hasWaited) = (0, false)
        do {
            while true {
                let response: HTTPExchangeResponse
                do {
                    response = try await authorized.send(request)
                } catch let error as ChappieTransportError
                    where error.code == .unknownHost && deadlines == nil && !hasWaited
                {
                    hasWaited = true
                    try await clock.sleep(for: TurnPlan.servicePause)
                    continue
                }
                if response.status == .notModified { return (tag, nil) }
                if response.status.kind == .successful {
                    let body = try await response.body.collect(upTo: Self.listLimit)
                    let json = try? ChappieJSON(parsing: body)
                    let isError = [json?["error"], json?["detail"]].contains { $0?.isNull == false }
                    guard let json, !isError else {
                        if json == nil, let error = ChappieTransportError.compressed(response, host: errors.host) {
                            throw error
                        }
                        throw errors.failure(
                            ofSuccess: response.status.code, headerFields: response.headerFields, body: body,
                            now: clock.now)
                    }
                    return (response.headerFields[.eTag], json)
                }
                let failure = try await errors.failure(response, now: clock.now)
                if failure.kind == .outage, deadlines == nil, !hasWaited {
                    hasWaited = true
                    try await clock.sleep(for: TurnPlan.servicePause)
                    continue
                }
                retries += 1
                let backoff = configuration.rateLimitBackoff
                let pause: Duration? =
                    switch failure.kind {
                    case .rateLimited(let resetsIn):
                        backoff.pause(beforeRetry: retries, asked: failure.retryAfter, resetsIn: resetsIn)
                    case .overloaded: backoff.pause(beforeOverloadRetry: retries, asked: failure.retryAfter)
                    default: nil
                    }
                guard let pause, deadlines == nil else { throw failure }
                log.asksAgain(
                    .waiting(attempt: retries, maximum: backoff.maxRetries, delay: pause),
                    after: failure, over: .serverSentEvents, hasDelivered: false)
                try await clock.sleep(for: pause)
            }
        } catch { throw ChappieClientError.wrapping(error) }
    }
}
