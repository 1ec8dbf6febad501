@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

extension ChappieClient {
    // MARK: Search

    /// Searches the web without a turn, and returns the pages that were found. The conversation is not changed.
    ///
    /// Up to three requests are sent if the service or the network fails. To let a model search, use
    /// ``ChappieServiceTool/webSearch(readsLivePages:allowedDomains:location:)``.
    ///
    /// - Throws: ``ChappieClientError``, such as ``ChappieClientError/unsupportedInput(_:_:)`` for a search without a
    ///   query, ``ChappieClientError/usageLimitReached(_:)``, and ``ChappieClientError/notWithThisSignIn(_:)`` for a
    ///   sign-in with "Continue with ChatGPT"; `CancellationError`. An answer without results is not an error.
    public func search(_ request: ChappieSearchRequest) async throws -> ChappieSearchAnswer {
        let queries = request.queries.filter { !$0.allSatisfy(\.isWhitespace) }
        guard (1...ChappieSearchRequest.queryLimit).contains(queries.count) else {
            throw ChappieClientError.unsupportedInput(
                queries.isEmpty ? "A search needs a query." : "A search takes at most 4 queries.",
                queries.isEmpty ? "Give the words to search for." : "Search more than once.")
        }
        let search = queries.map { query -> ChappieJSON in
            var command: ChappieJSONObject = ["q": .string(query)]
            if let recency = request.recency { command["recency"] = .integer(max(recency, 1)) }
            if !request.domains.isEmpty { command["domains"] = .array(request.domains.map { .string($0) }) }
            return .object(command)
        }
        var commands: ChappieJSONObject = ["search_query": .array(search)]
        // The service takes this many queries only with a longer answer.
        if queries.count == ChappieSearchRequest.queryLimit { commands["response_length"] = "medium" }
        let tool = ChappieServiceTool.webSearch(
            readsLivePages: request.readsLivePages, allowedDomains: request.domains, location: request.location)
        return try await run(commands, tool.searchSettings, asking: queries.joined(separator: "\n"))
    }

    /// Opens a page of the web without a turn, and returns its text. The service fetches the page, not this machine.
    ///
    /// - Parameters:
    ///   - address: The address, which begins with `https:` or `http:`.
    ///   - line: The line of the page's text with which the answer begins, counted from 0. Default `nil`, which is line 0.
    /// - Throws: as ``search(_:)``.
    public func openPage(_ address: String, line: Int? = nil) async throws -> ChappieSearchAnswer {
        guard ChappieSource.isAddress(address) else {
            throw ChappieClientError.unsupportedInput(
                "\(UntrustedText.forTerminal(String(address.prefix(200)))) is not an address of the web.",
                "Give an address that begins with https: or http:.")
        }
        var command: ChappieJSONObject = ["ref_id": .string(address)]
        if let line { command["lineno"] = .integer(line) }
        return try await run(
            ["open": [.object(command)]], ChappieServiceTool.webSearch().searchSettings, asking: address)
    }

    private func run(
        _ commands: ChappieJSONObject, _ settings: ChappieJSONObject, asking question: String
    ) async throws -> ChappieSearchAnswer {
        let search = SearchService(
            caller: serviceCaller(onlyFor: nil), id: newID(), turnID: newID(), model: try await serviceModel())
        do {
            return try await search.run(commands, settings, input: [SearchInput.user(question)])
        } catch {
            throw ChappieClientError.wrapping(error)
        }
    }

    /// Returns the model that a search names.
    private func serviceModel() async throws -> String {
        guard configuration.endpoints.searchURL != nil else {
            throw ChappieClientError.notWithThisSignIn("The web search")
        }
        return try await model.slug
    }

    // MARK: Pictures

    /// Makes a picture. This takes from 40 seconds to 4 minutes, and uses a part of the plan's quota for pictures.
    ///
    /// A request that may have been carried out is not repeated. The limit is 10 minutes until the answer begins, and
    /// 64 MiB of it.
    ///
    /// - Throws: ``ChappieClientError``, such as ``ChappieClientError/imageFailed(_:)``,
    ///   ``ChappieClientError/usageLimitReached(_:)``, and ``ChappieClientError/notWithThisSignIn(_:)`` for a sign-in
    ///   with "Continue with ChatGPT"; `CancellationError`. A picture of another size than requested is not an error.
    public func generateImage(_ request: ChappieImageRequest) async throws -> ChappieGeneratedImage {
        try await make(request, images: [])
    }

    /// Changes pictures, or combines them, as the prompt describes. See ``generateImage(_:)``.
    ///
    /// ```swift
    /// let photo = try ChappieImage(path: "photo.jpg")
    /// let image = try await client.editImage(ChappieImageRequest("make the hat red"), images: [photo])
    /// ```
    ///
    /// - Parameters:
    ///   - request: the change, and the properties of the new picture.
    ///   - images: 1 to 5 pictures with their bytes.
    public func editImage(
        _ request: ChappieImageRequest, images: [ChappieImage]
    ) async throws -> ChappieGeneratedImage {
        guard (1...ChappieImageRequest.imageLimit).contains(images.count) else {
            throw ChappieClientError.unsupportedInput(
                images.isEmpty ? "There is no picture to change." : "At most 5 pictures can be changed at once.",
                "Give 1 to 5 pictures.")
        }
        let urls = try images.map { image in
            guard case .url(let url) = image.source, url.hasPrefix("data:") else {
                throw ChappieClientError.unsupportedInput(
                    "A picture can be changed only if its bytes are given.", "Load the picture from its address.")
            }
            return url
        }
        return try await make(request, images: urls)
    }

    private func make(_ request: ChappieImageRequest, images: [String]) async throws -> ChappieGeneratedImage {
        guard !request.prompt.allSatisfy(\.isWhitespace) else {
            throw ChappieClientError.unsupportedInput("A picture needs a description.", "Describe the picture.")
        }
        let service = ImageService(caller: serviceCaller(onlyFor: nil), turnID: newID())
        do {
            return try await service.make(request, images: images)
        } catch {
            throw ChappieClientError.wrapping(error)
        }
    }

    // MARK: Turns

    /// Returns the functions with which the model of a turn uses the service's tools.
    func serviceFunctions(of transcript: Transcript, model: String, _ context: TurnContext) -> ServiceFunctions {
        ServiceFunctions(
            caller: serviceCaller(onlyFor: transcript.account), id: transcript.id, turnID: newID(), model: model,
            tell: { [weak self] in await self?.tell($0, context) },
            loseSearch: { [weak self] in await self?.loseSearch() })
    }

    private func loseSearch() { searchIsGone = true }

    func serviceCaller(onlyFor account: ChappieAccountInfo?) -> ServiceCaller {
        ServiceCaller(
            endpoints: configuration.endpoints, transport: transport, middleware: middleware,
            authorization: authorization(onlyFor: account), clock: clock)
    }

    private func newID() -> String { UUIDv7.make(now: clock.now, entropy: entropy) }
}
