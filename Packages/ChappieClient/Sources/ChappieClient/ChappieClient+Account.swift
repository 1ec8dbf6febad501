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
    /// Asked anew each time with the list's `ETag`, so that an unchanged list costs one small exchange, also in the next run of
    /// the program where there is a ``ChappieModelCache``. A 429 is tried again as the configuration's backoff policy says.
    ///
    /// A model that is not in the list can be used all the same.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func models(filter: ChappieModelFilter = ChappieModelFilter()) async throws -> [ChappieModel] {
        let account = try await accountInfo()
        let record = record(of: account)
        let known = await knownModels(of: account, record)
        let url = configuration.endpoints.profile.modelsURL.appending(queryItems: [
            URLQueryItem(name: "client_version", value: Self.wireFormatVersion)
        ])
        let (tag, json) = try await get(url, credentials.authorization(onlyFor: account), unless: known?.tag)
        if json == nil, let known {
            modelList = (account, known.tag, known.models)
            return known.models.filter(filter.matches)
        }
        guard let json, let models = ChappieModel.list(json) else { throw ChappieClientError.invalidResponse }
        modelList = tag.map { (account, $0, models) }
        if let tag, let record, let document = record.document(tag: tag, list: json) {
            await modelCache?.save(document, record.name)
        }
        return models.filter(filter.matches)
    }

    /// `nil` for an account that can't be told from others.
    private func record(of account: ChappieAccountInfo) -> ModelListRecord? {
        let profile = configuration.endpoints.profile
        guard let id = account.accountID, let user = account.userID else { return nil }
        return ModelListRecord(
            owner: [profile.issuer.absoluteString, profile.backend.absoluteString, user, id],
            format: Self.wireFormatVersion)
    }

    /// The list as this client has it, else as an earlier run has kept it.
    private func knownModels(
        of account: ChappieAccountInfo, _ record: ModelListRecord?
    ) async -> (tag: String, models: [ChappieModel])? {
        if let modelList, modelList.account.isSameAccount(as: account) { return (modelList.tag, modelList.models) }
        guard let record, let document = await modelCache?.load(record.name) else { return nil }
        return record.read(document)
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

    /// Whether `model` wants its tools as the first item of the input. The list of models says; where it can't be had, the
    /// usual form is taken.
    func wantsToolsInInput(_ model: String) async -> Bool {
        guard model != Self.defaultModel else { return false }
        let all = ChappieModelFilter(includesHidden: true)
        var known = modelList?.models
        if known == nil { known = try? await models(filter: all) }
        return known?.first { $0.slug == model }?.usesResponsesLite ?? false
    }

    /// How much of the account's limits is used. A 429 is tried again as the configuration's backoff policy says.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func usageLimits() async throws -> ChappieUsageLimitSnapshot {
        let (_, json) = try await get(configuration.endpoints.profile.usageURL, credentials.authorization)
        guard let usage = json.flatMap(ChappieUsageLimitSnapshot.init(usageBody:)) else {
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

    /// - Returns: the answer's tag, and its body; no body where the one with `tag` still holds.
    private func get(
        _ url: URL, _ authorization: Authorization, unless tag: String? = nil
    ) async throws -> (tag: String?, json: ChappieJSON?) {
        let authorized = MiddlewareTransport(
            transport, middleware: middleware + [authorization, FreshConnectionRetry()])
        var request = HTTPExchangeRequest(url: url, headerFields: [.accept: "application/json"])
        request.headerFields[.ifNoneMatch] = tag
        var retries = 0
        do {
            while true {
                let response = try await authorized.send(request)
                if response.status == .notModified { return (tag, nil) }
                if response.status.kind == .successful {
                    let body = try await response.body.collect(upTo: Self.listLimit)
                    guard let json = try? ChappieJSON(parsing: body) else { throw ChappieClientError.invalidResponse }
                    return (response.headerFields[.eTag], json)
                }
                let errors = BackendErrors(configuration.endpoints.profile)
                let failure = try await errors.failure(response, now: clock.now)
                retries += 1
                guard case .rateLimited(let resetsIn) = failure.kind,
                    let pause = configuration.rateLimitBackoff.pause(
                        beforeRetry: retries, asked: failure.retryAfter, resetsIn: resetsIn)
                else { throw failure }
                log.asksAgain(
                    .waiting(attempt: retries, maximum: configuration.rateLimitBackoff.maxRetries, delay: pause),
                    after: failure, over: .serverSentEvents, hasDelivered: false)
                try await clock.sleep(for: pause)
            }
        } catch { throw ChappieClientError.wrapping(error) }
    }
}
