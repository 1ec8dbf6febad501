@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The way in which a tool of the service is carried out.
enum ServiceToolWay: Sendable, Hashable {
    /// The model calls a function, and the client asks the service's endpoint for the tool.
    case function
    /// The request names the tool, and the backend runs it during its answer. Only the full form can name one.
    case hosted

    /// Returns the way for a tool. This is the only place that decides it.
    ///
    /// | tool | public Responses API | in the lite form | in the full form | endpoint has failed |
    /// | --- | --- | --- | --- | --- |
    /// | search of the web | hosted | function | hosted | hosted |
    /// | pictures | refused | function | function | function |
    /// | any other | hosted | hosted | hosted | hosted |
    ///
    /// - Parameters:
    ///   - onPlan: whether requests go to the public Responses API.
    ///   - takesLite: whether the request can have the lite form.
    ///   - searchIsGone: whether the endpoint of the search was missing or blocked before in this process.
    /// - Throws: ``ChappieClientError/notWithThisSignIn(_:)``.
    init(
        of tool: ChappieServiceTool, onPlan: Bool, takesLite: Bool, searchIsGone: Bool
    ) throws(ChappieClientError) {
        switch tool.type {
        case ServiceOutputs.search: self = onPlan || !takesLite || searchIsGone ? .hosted : .function
        case ServiceOutputs.image:
            guard !onPlan else { throw .notWithThisSignIn("Making pictures") }
            self = .function
        default: self = .hosted
        }
    }
}

/// The functions with which a model uses the service's tools in one turn.
struct ServiceFunctions: Sendable {
    let caller: ServiceCaller
    /// The id of the conversation.
    let id: String
    /// The id of the turn.
    let turnID: String
    let model: String
    /// Sends a notice to the user.
    let tell: @Sendable (ChappieNotice) async -> Void
    /// Keeps that the search's endpoint is missing or blocked.
    let loseSearch: @Sendable () async -> Void

    /// Returns the function for a tool that is carried out this way.
    func function(for tool: ChappieServiceTool) -> ChappieHostTool {
        tool.type == ServiceOutputs.image ? imageFunction(tool) : searchFunction(tool)
    }

    // MARK: Search

    private func searchFunction(_ tool: ChappieServiceTool) -> ChappieHostTool {
        let search = SearchService(caller: caller, id: id, turnID: turnID, model: model)
        let settings = tool.searchSettings
        return ChappieHostTool(
            serviceTool: ServiceOutputs.search, description: SearchParameters.description,
            inputSchema: SearchParameters.schema, timeout: .seconds(300)
        ) { call, history in
            do {
                let answer = try await search.run(
                    call.argumentsJSON?.object ?? [:], settings, input: SearchInput.end(of: history))
                var result = ChappieToolResult(output: answer.text)
                result.sources = answer.results.map(\.source)
                return result
            } catch {
                return try await failedSearch(error)
            }
        }
    }

    /// Tells the user about a failed search, and returns the text for the model.
    private func failedSearch(_ error: any Error) async throws -> ChappieToolResult {
        try Task.checkCancellation()
        guard let error = ChappieClientError.wrapping(error) as? ChappieClientError else { throw error }
        let words = error.errorDescription ?? "The web search failed."
        let unavailable = "The web search is not available now. Answer without it, and tell the user so."
        if error.isGone {
            await loseSearch()
            await tell(
                ChappieNotice(
                    .serviceToolFailed,
                    "The web search can't be reached here. The next questions use the search inside of answers."))
            return ChappieToolResult(output: unavailable, isError: true)
        }
        switch error {
        case .httpError(400, _), .searchFailed: return ChappieToolResult(output: words, isError: true)
        case .usageLimitReached, .httpError(429, _):
            await tell(ChappieNotice(.serviceToolFailed, "No search is possible now. \(words)"))
            return ChappieToolResult(output: unavailable, isError: true)
        default:
            await tell(ChappieNotice(.serviceToolFailed, "A search of the web failed. \(words)"))
            return ChappieToolResult(output: "The web search failed. \(words)", isError: true)
        }
    }

    // MARK: Pictures

    private func imageFunction(_ tool: ChappieServiceTool) -> ChappieHostTool {
        let images = ImageService(caller: caller, turnID: turnID)
        var function = ChappieHostTool(
            serviceTool: ServiceOutputs.image, description: ImageParameters.description,
            inputSchema: ImageParameters.schema, timeout: .seconds(1200)
        ) { call, history in
            let known = history.flatMap(ImageParameters.pictures)
            do {
                let wanted = try ImageParameters(call.argumentsJSON ?? .null, among: known)
                var request = ChappieImageRequest(
                    wanted.prompt, size: wanted.size, background: wanted.isTransparent ? .transparent : .opaque)
                if let model = tool.declaration["model"]?.string { request.model = model }
                let image = try await images.make(request, images: wanted.images)
                let words =
                    "Picture \(known.count + 1) is made and the user sees it: \(image.format.rawValue.uppercased()), \(image.width) × \(image.height) pixels."
                return ChappieToolResult(output: words, parts: [image.part])
            } catch let error as ImageParameters.Mistake {
                return ChappieToolResult(output: error.message, isError: true)
            } catch {
                try Task.checkCancellation()
                guard let error = ChappieClientError.wrapping(error) as? ChappieClientError else { throw error }
                let words = error.errorDescription ?? "No picture came back."
                await tell(ChappieNotice(.serviceToolFailed, words))
                return ChappieToolResult(output: words, isError: true)
            }
        }
        // Each picture has a number, which depends on those before it.
        function.runsAlone = true
        return function
    }
}

/// The end of a conversation, in the form in which a search gets it.
enum SearchInput {
    /// The largest part of the assistant's text, in bytes. This is about 1,000 tokens.
    private static let limit = 4000

    /// Returns the last two messages of the user, as text, and the end of the assistant's text between them, like the
    /// Codex CLI 0.163.0.
    static func end(of items: [ChappieJSON]) -> [ChappieJSON] {
        let questions = items.indices.filter { items[$0]["role"]?.string == "user" && items[$0]["type"] == "message" }
        guard let last = questions.last else { return [] }
        let first = questions.dropLast().last ?? last
        var input = [user(text(of: items[first]))]
        guard first != last else { return input }
        let between = items[first..<last].filter { $0["role"]?.string == "assistant" }.map(text).joined(separator: "\n")
        let end = String(decoding: between.utf8.suffix(limit), as: UTF8.self).drop { $0 == "\u{FFFD}" }
        if !end.isEmpty { input.append(ChappieInputMessage.assistant(String(end)).inputItem) }
        return input + [user(text(of: items[last]))]
    }

    /// Returns a message of the user.
    static func user(_ text: String) -> ChappieJSON { ChappieInputMessage.user(text).inputItem }

    private static func text(of message: ChappieJSON) -> String {
        if let text = message["content"]?.string { return text }
        return (message["content"]?.array ?? []).compactMap { $0["text"]?.string }.joined(separator: "\n")
    }
}
