@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import FoundationEssentials
import HTTPTypes

extension ChappieClient {
    /// The version of the backend's wire format that this client speaks; the backend filters its model list by it. It
    /// names a format, not a program: who asks is said by `originator` and `user-agent`.
    private static let wireFormatVersion = "0.163.0"
    private static let listLimit = 16 << 20

    /// The models that the account may use, best first.
    ///
    /// Asked anew each time with the list's `ETag`, so that an unchanged list costs one small exchange.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func models(filter: ChappieModelFilter = ChappieModelFilter()) async throws -> [ChappieModel] {
        let account = try await accountInfo()
        var fields: HTTPFields = [.accept: "application/json"]
        if let tag = modelList.tag(for: account) { fields[.ifNoneMatch] = tag }
        let base = configuration.endpoints.profile.modelsURL.absoluteString
        guard let url = URL(string: "\(base)?client_version=\(Self.wireFormatVersion)") else {
            throw ChappieClientError.invalidResponse
        }
        let response = try await exchange(
            HTTPExchangeRequest(url: url, headerFields: fields), credentials.authorization(onlyFor: account))
        if response.status == .notModified, let models = modelList.models(for: account) {
            return models.filter(filter.matches)
        }
        guard let models = ChappieModel.list(try await json(of: response)) else {
            throw ChappieClientError.invalidResponse
        }
        modelList.store(models, tag: response.headerFields[.eTag], for: account)
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

    /// How much of the account's limits is used.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func usageLimits() async throws -> ChappieUsageLimitSnapshot {
        let request = HTTPExchangeRequest(
            url: configuration.endpoints.profile.usageURL, headerFields: [.accept: "application/json"])
        guard
            let usage = ChappieUsageLimitSnapshot(
                usageBody: try await json(of: try await exchange(request, credentials.authorization)))
        else {
            throw ChappieClientError.invalidResponse
        }
        return usage
    }

    /// Who is signed in, as the stored credential says.
    ///
    /// - Throws: ``ChappieClientError/missingCredential``, ``ChappieClientError/credentialStoreFailed(_:)``.
    public func accountInfo() async throws -> ChappieAccountInfo {
        do {
            guard let info = try await credentials.accountInfo() else { throw ChappieClientError.missingCredential }
            return info
        } catch { throw ErrorMapping.clientError(error) }
    }

    private func exchange(
        _ request: HTTPExchangeRequest, _ authorization: Authorization
    ) async throws -> HTTPExchangeResponse {
        let authorized = MiddlewareTransport(transport, middleware: [authorization])
        do { return try await authorized.send(request) } catch { throw ErrorMapping.clientError(error) }
    }

    private func json(of response: HTTPExchangeResponse) async throws -> ChappieJSON {
        do {
            guard response.status.kind == .successful else {
                let verdict = mapping.verdict(
                    status: response.status.code, headerFields: response.headerFields,
                    body: try await ErrorBody.bytes(of: response.body))
                throw verdict.error
            }
            let body = try await response.body.collect(upTo: Self.listLimit)
            guard let json = try? ChappieJSON(parsing: body) else { throw ChappieClientError.invalidResponse }
            return json
        } catch { throw ErrorMapping.clientError(error) }
    }
}
