@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes

extension ChappieClient {
    /// The version of the backend's wire format that this client speaks; the backend filters its model list by it. It
    /// names a format, not a program: `originator` and `user-agent` name the program.
    private static let wireFormatVersion = "0.163.0"
    private static let listLimit = 16 << 20

    /// The models that the account may use, best first.
    ///
    /// Asked anew each time with the list's `ETag`, so that an unchanged list costs one small exchange. A 429 is tried
    /// again as the configuration's backoff policy says.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func models(filter: ChappieModelFilter = ChappieModelFilter()) async throws -> [ChappieModel] {
        let account = try await accountInfo()
        let known = modelList.flatMap { $0.account.isSameAccount(as: account) ? $0 : nil }
        var fields: HTTPFields = [.accept: "application/json"]
        if let known { fields[.ifNoneMatch] = known.tag }
        let base = configuration.endpoints.profile.modelsURL.absoluteString
        guard let url = URL(string: "\(base)?client_version=\(Self.wireFormatVersion)") else {
            throw ChappieClientError.invalidResponse
        }
        let response = try await exchange(
            HTTPExchangeRequest(url: url, headerFields: fields), credentials.authorization(onlyFor: account))
        if response.status == .notModified, let known { return known.models.filter(filter.matches) }
        guard let models = ChappieModel.list(try await json(of: response)) else {
            throw ChappieClientError.invalidResponse
        }
        modelList = response.headerFields[.eTag].map { ModelListCache(account: account, tag: $0, models: models) }
        return models.filter(filter.matches)
    }

    /// The best model that `filter` lets through; `nil` when there is none.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func bestAvailableModel(filter: ChappieModelFilter = .textInAPI) async throws -> ChappieModel? {
        try await models(filter: filter).first
    }

    /// The best model other than `slug`, for when that one is at capacity; `nil` when there is none.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func fallbackModel(
        excluding slug: String, filter: ChappieModelFilter = .textInAPI
    ) async throws -> ChappieModel? {
        try await models(filter: filter).first { $0.slug != slug }
    }

    /// How much of the account's limits is used. A 429 is tried again as the configuration's backoff policy says.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func usageLimits() async throws -> ChappieUsageLimitSnapshot {
        let request = HTTPExchangeRequest(
            url: configuration.endpoints.profile.usageURL, headerFields: [.accept: "application/json"])
        let response = try await exchange(request, credentials.authorization)
        guard let usage = ChappieUsageLimitSnapshot(usageBody: try await json(of: response)) else {
            throw ChappieClientError.invalidResponse
        }
        return usage
    }

    /// The account that is signed in, by the stored credential.
    ///
    /// - Throws: ``ChappieClientError/missingCredential``, ``ChappieClientError/credentialStoreFailed(_:)``.
    public func accountInfo() async throws -> ChappieAccountInfo {
        do {
            guard let info = try await credentials.accountInfo() else { throw ChappieClientError.missingCredential }
            return info
        } catch { throw ChappieClientError.wrapping(error) }
    }

    /// - Returns: a success, or 304.
    private func exchange(
        _ request: HTTPExchangeRequest, _ authorization: Authorization
    ) async throws -> HTTPExchangeResponse {
        let authorized = MiddlewareTransport(transport, middleware: [authorization])
        var retries = RateLimitRetries(configuration.rateLimitBackoff)
        while true {
            do {
                let response = try await authorized.send(request)
                if response.status.kind == .successful || response.status == .notModified { return response }
                let failure = errors.failure(
                    status: response.status.code, headerFields: response.headerFields,
                    body: try await response.errorBody(), now: clock.now)
                guard case .rateLimited(let resetsIn) = failure.kind,
                    let pause = retries.next(asked: failure.retryAfter, resetsIn: resetsIn)
                else { throw failure }
                try await clock.sleep(for: pause)
            } catch { throw ChappieClientError.wrapping(error) }
        }
    }

    private func json(of response: HTTPExchangeResponse) async throws -> ChappieJSON {
        do {
            let body = try await response.body.collect(upTo: Self.listLimit)
            guard let json = try? ChappieJSON(parsing: body) else { throw ChappieClientError.invalidResponse }
            return json
        } catch { throw ChappieClientError.wrapping(error) }
    }
}

/// The model list of one account and the tag it came with.
struct ModelListCache: Sendable {
    let account: ChappieAccountInfo
    let tag: String
    let models: [ChappieModel]
}
