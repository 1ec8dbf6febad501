@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

extension ChappieClient {
    /// The time that a turn waits for a list that it requires. The Codex CLI 0.163.0 waits as long.
    static let patience: ChappieDeadlines = {
        let wait = Duration.seconds(5)
        return ChappieDeadlines(connect: wait, responseHead: wait, firstByte: wait, idle: wait)
    }()
    /// The time that turns wait after a failed request before they request the list again.
    private static let listPause = Duration.seconds(300)
    private static let secondTryDelay = Duration.milliseconds(200)

    /// Returns the models that the account may use, starting with the best. Models that are unlikely to answer, such as
    /// retired ones, are at the end.
    ///
    /// Each call requests the list with its `ETag`, so that an unchanged list costs only one small exchange. With a
    /// `ChappieModelCache` this also applies to the next run of the program. A request that fails with 429 is repeated
    /// as the configuration's backoff policy specifies.
    ///
    /// A model that is not in the list can be requested anyway. The service decides.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func models(filter: ChappieModelFilter = ChappieModelFilter()) async throws -> [ChappieModel] {
        try await askedList(of: accountInfo()).bestFirst(at: clock.now).filter(filter.matches)
    }

    /// Returns the best model that `filter` accepts, or `nil` if there is none.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func bestAvailableModel(filter: ChappieModelFilter = .textInAPI) async throws -> ChappieModel? {
        try await models(filter: filter).first { !$0.isInternal }
    }

    /// Returns the best model other than `slug`, for use when `slug` is at capacity, or `nil` if there is none.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func fallbackModel(
        excluding slug: String, filter: ChappieModelFilter = .textInAPI
    ) async throws -> ChappieModel? {
        try await models(filter: filter).first { $0.slug != slug && !$0.isInternal }
    }

    // MARK: The list of a turn

    /// Returns the list from which a turn chooses its model. A known list is used. If it is old, it is renewed while
    /// the turn runs. The first list of an account is requested here, twice if the first request fails. Returns `nil`
    /// if both fail.
    ///
    /// - Throws: `CancellationError`.
    func listForTurn(of account: ChappieAccountInfo) async throws -> ModelList? {
        if let known = await knownList(of: account) {
            modelList = known
            if !known.models.isEmpty {
                if known.isDue(at: clock.now) { renewList(of: account) }
                return known
            }
            let age = clock.now.timeIntervalSince(known.listedAt)
            if 0..<Self.listPause.inSeconds ~= age { return known }
        }
        if let listFailed, clock.elapsed - listFailed < Self.listPause { return nil }
        do {
            do {
                return try await askedList(of: account, within: Self.patience)
            } catch {
                try Task.checkCancellation()
                try await clock.sleep(for: Self.secondTryDelay)
                return try await askedList(of: account, within: Self.patience)
            }
        } catch {
            try Task.checkCancellation()
            listFailed = clock.elapsed
            return nil
        }
    }

    /// Requests the list while a turn continues.
    func renewList(of account: ChappieAccountInfo) {
        guard listing == nil else { return }
        if let listFailed, clock.elapsed - listFailed < Self.listPause { return }
        listing = Task { [weak self] in await self?.renew(account) }
    }

    /// Renews the list if the backend names another tag than the list's, since it is out of date then.
    func note(_ tag: String?) {
        guard let tag, let list = modelList, list.tag != tag else { return }
        renewList(of: list.account)
    }

    private func renew(_ account: ChappieAccountInfo) async {
        do {
            _ = try await askedList(of: account, within: Self.patience)
        } catch {
            listFailed = clock.elapsed
        }
        listing = nil
    }

    /// Waits some seconds at most for a list that is being renewed. A program that ends after its turn calls it.
    @_spi(ChappieInternals) public func finishRenewingList() async { await listing?.value }

    /// Completes a refusal with the facts of the account's current list. A list that had the model was out of date.
    ///
    /// - Parameter earlier: the turn's earlier refusals. Their models are not suggested.
    func explain(
        _ refusal: ChappieModelRefusal, after earlier: [ChappieModelRefusal], of account: ChappieAccountInfo
    ) async -> ChappieModelRefusal {
        var refusal = refusal
        let before = modelList
        let list = (try? await askedList(of: account, within: Self.patience)) ?? before
        if let entry = list?[refusal.slug] {
            await remember(refusalOf: entry, of: account)
            if refusal.reason == .notInPlan, entry.needsNewerClient { refusal.reason = .newerClientNeeded }
        }
        let refused = Set(earlier.map(\.slug))
        refusal.suggestion = list?.replacement(of: refusal.slug, without: refused, at: clock.now)?.slug
        let wasListed = before?[refusal.slug] != nil && list?[refusal.slug] == nil
        if refusal.reason == .notInPlan, wasListed || list?[refusal.slug]?.upgrade != nil { refusal.reason = .retired }
        return refusal
    }

    /// Requests the list, and keeps it.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    private func askedList(
        of account: ChappieAccountInfo, within deadlines: ChappieDeadlines? = nil
    ) async throws -> ModelList {
        let record = record(of: account)
        let known = await knownList(of: account)
        let endpoints = configuration.endpoints
        var url = endpoints.modelsURL
        if !endpoints.usesPlan {
            url.append(queryItems: [URLQueryItem(name: "client_version", value: WireFormat.version)])
        }
        let (tag, json) = try await get(
            url, authorization(onlyFor: account), unless: known?.tag, within: deadlines)
        let now = clock.now
        var list: ModelList
        if json == nil, let known {
            list = ModelList(account: account, tag: known.tag, models: known.models, listedAt: now)
            if let record, let document = await modelCache?.load(record.name) {
                await save(record.renewed(document, at: now), record)
            }
        } else {
            guard let json, let models = ChappieModel.list(json, ranked: !endpoints.usesPlan) else {
                throw ChappieClientError.invalidResponse
            }
            list = ModelList(account: account, tag: tag, models: models, listedAt: now)
            if let record { await save(record.document(tag: tag, list: json, at: now), record) }
        }
        list.refused = await refused(in: list.models, of: account)
        modelList = list
        listFailed = nil
        return list
    }

    /// Keeps a refusal, so that the model is not chosen again for a day.
    private func remember(refusalOf entry: ChappieModel, of account: ChappieAccountInfo) async {
        var parts = await refusedParts(of: entry.slug, entry, in: account)
        parts.wholeModel = true
        await learn(parts, of: entry.slug, entry, in: account)
        modelList?.refused.insert(entry.slug)
    }

    private func refused(in models: [ChappieModel], of account: ChappieAccountInfo) async -> Set<String> {
        await refusedPartsRecord(of: account)?.refused(in: models, at: clock.now) ?? []
    }

    private func save(_ document: [UInt8]?, _ record: ModelListRecord) async {
        if let document { await modelCache?.save(document, record.name) }
    }

    /// Returns the record of the account's list, or `nil` for an account without an id.
    private func record(of account: ChappieAccountInfo) -> ModelListRecord? {
        let endpoints = configuration.endpoints
        guard let id = account.ownerID, let user = account.userID else { return nil }
        return ModelListRecord(
            owner: [endpoints.issuer.absoluteString, endpoints.backend.absoluteString, user, id],
            format: WireFormat.version, ranked: !endpoints.usesPlan)
    }

    // MARK: What the service refuses

    /// Returns the parts to leave out of a request to the model `slug`, whose entry in the list is `listed`.
    func refusedParts(
        of slug: String, _ listed: ChappieModel?, in account: ChappieAccountInfo
    ) async -> RefusedParts {
        guard let record = await refusedPartsRecord(of: account) else { return RefusedParts() }
        refusedParts = record
        return record.parts(of: slug, listed, at: clock.now)
    }

    /// Keeps the parts that requests to a model must not have.
    func learn(
        _ parts: RefusedParts, of slug: String, _ listed: ChappieModel?, in account: ChappieAccountInfo
    ) async {
        guard var record = await refusedPartsRecord(of: account) else { return }
        record.learn(parts, of: slug, listed, at: clock.now)
        refusedParts = record
        if let document = record.document { await modelCache?.save(document, record.name) }
    }

    private func refusedPartsRecord(of account: ChappieAccountInfo) async -> RefusedPartsRecord? {
        guard let owner = record(of: account)?.owner else { return nil }
        if let refusedParts, refusedParts.owner == owner { return refusedParts }
        let document = await modelCache?.load(RefusedPartsRecord.name(owner: owner))
        return document.flatMap { RefusedPartsRecord($0, owner: owner) } ?? RefusedPartsRecord(owner: owner)
    }

    /// Returns the model of the next turn, unless `slug` names one, and the number of tokens of its window, as far as
    /// this machine knows them. No request is sent. Either value is `nil` if it is unknown.
    ///
    /// - Parameter readsStore: whether to read the account's list of an earlier run, which may have to wait for the
    ///   credential.
    @_spi(ChappieInternals) public func knownWindow(
        of slug: String?, readsStore: Bool
    ) async -> (model: String?, contextWindow: Int?) {
        var list = modelList
        if list == nil, readsStore, let account = try? await accountInfo() { list = await knownList(of: account) }
        let model = slug ?? knownModel ?? list?.best(at: clock.now)?.slug
        return (model, model.flatMap { list?[$0]?.contextWindow })
    }

    /// Returns the list that this client has, or else the one that an earlier run has kept.
    private func knownList(of account: ChappieAccountInfo) async -> ModelList? {
        if let modelList, modelList.account.isSameAccount(as: account) { return modelList }
        guard let record = record(of: account), let document = await modelCache?.load(record.name) else { return nil }
        var list = record.read(document, of: account)
        if let models = list?.models {
            list?.refused = await refused(in: models, of: account)
        }
        return list
    }
}
