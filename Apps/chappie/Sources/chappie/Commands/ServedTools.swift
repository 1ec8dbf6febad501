@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieMCP
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import ChappieThreadsSQLite

/// The tools of ``ToolServer``.
struct ServedTools: Sendable {
    private let program: Program
    private let options: AnswerOptions
    private let threads: ChappieFileThreadStore?
    private let store: ChappieFileThreadStore?
    private let searches: Bool
    private let draws: Bool

    init(
        _ program: Program, _ options: AnswerOptions, _ threads: ChappieFileThreadStore?,
        keepsIn store: ChappieFileThreadStore?, searches: Bool, draws: Bool
    ) {
        self.program = program
        self.options = options
        self.threads = threads
        self.store = store
        self.searches = searches
        self.draws = draws
    }

    var declarations: [ChappieJSON] {
        let text: ChappieJSON = ["type": "string"]
        var all: [ChappieJSON] = [
            Self.tool(
                "ask", "Asks a model of the user's ChatGPT account, and gives its answer.",
                ["question": text, "model": text, "system": text], required: ["question"])
        ]
        let count: ChappieJSON = ["type": "integer", "minimum": 1]
        if threads != nil {
            all.append(
                Self.tool(
                    "search_threads", "Finds kept conversations that contain every given word.", ["words": text],
                    required: ["words"]))
            all.append(
                Self.tool(
                    "read_thread", "Gives a kept conversation as Markdown; turns: only its last ones.",
                    ["thread": text, "turns": count], required: ["thread"]))
        }
        if searches {
            all.append(
                Self.tool(
                    "search_web", "Searches the web; domains: only pages of these; recent_days: only newer pages.",
                    ["query": text, "domains": ["type": "array", "items": text], "recent_days": count],
                    required: ["query"]))
            all.append(
                Self.tool("open_page", "Gives the text of a page of the web.", ["address": text], required: ["address"])
            )
        }
        if draws {
            let qualities = PictureQuality.allCases.map { ChappieJSON.string($0.rawValue) }
            all.append(
                Self.tool(
                    "draw_picture",
                    "Makes a picture on the user's plan, which takes minutes; size: WIDTHxHEIGHT in pixels.",
                    [
                        "prompt": text, "size": text, "quality": ["type": "string", "enum": .array(qualities)],
                        "transparent": ["type": "boolean"],
                    ], required: ["prompt"]))
        }
        return all
    }

    private static func tool(
        _ name: String, _ description: String, _ properties: ChappieJSONObject, required: [String]
    ) -> ChappieJSON {
        [
            "name": .string(name), "description": .string(description),
            "inputSchema": [
                "type": "object", "properties": .object(properties),
                "required": .array(required.map { .string($0) }), "additionalProperties": false,
            ],
        ]
    }

    /// Carries out a call.
    ///
    /// - Parameter report: sends a growing number and a message to the client.
    func carryOut(
        _ call: MCPHostSession.Call, _ report: @escaping @Sendable (Int, String) -> Void
    ) async -> Result<[MCPHostSession.Content], MCPCallFailure> {
        do {
            guard call.tool != "draw_picture" else { return .success(try await draw(call.arguments, report)) }
            return .success([.text(try await perform(call))])
        } catch {
            let problem = CommandLineError(error)
            return .failure(
                MCPCallFailure([problem.message, problem.suggestion].compactMap(\.self).joined(separator: " ")))
        }
    }

    private func perform(_ call: MCPHostSession.Call) async throws -> String {
        func text(_ name: String) throws -> String { try Self.text(name, in: call.arguments) }
        switch call.tool {
        case "search_web": return try await searchWeb(text("query"), call.arguments)
        case "open_page": return try await program.client().openPage(text("address")).text
        case "search_threads": return try await search(text("words"))
        case "read_thread":
            guard let threads else { throw CommandLineError.usage("Conversations are not offered.") }
            let thread = try await Threads.read(text("thread"), from: threads)
            guard let turns = call.arguments["turns"] else { return ChappieThreadFormat.markdown.text(of: thread) }
            guard let count = turns.int, count > 0 else {
                throw CommandLineError.usage("The argument turns must be a whole number of at least 1.")
            }
            return ChappieThreadFormat.markdown.text(of: thread.last(count))
        default:
            return try await ask(
                text("question"), model: call.arguments["model"]?.string, system: call.arguments["system"]?.string)
        }
    }

    private static func text(_ name: String, in arguments: ChappieJSON) throws -> String {
        if let text = arguments[name]?.string, !text.isEmpty { return text }
        throw CommandLineError.usage("The argument \(name) must be a text.")
    }

    private func searchWeb(_ query: String, _ arguments: ChappieJSON) async throws -> String {
        let domains = (arguments["domains"]?.array ?? []).compactMap(\.string)
        let answer = try await program.client().search(
            ChappieSearchRequest(query, domains: domains, recency: arguments["recent_days"]?.int))
        let results = answer.results.map { "\($0.title)\n\($0.url)\n\($0.excerpt)" }
        return results.isEmpty ? answer.text : results.joined(separator: "\n\n")
    }

    /// Makes a picture, and reports the elapsed time in the meantime.
    private func draw(
        _ arguments: ChappieJSON, _ report: @escaping @Sendable (Int, String) -> Void
    ) async throws -> [MCPHostSession.Content] {
        let request = try ChappieImageRequest(
            Self.text("prompt", in: arguments), size: arguments["size"]?.string ?? "auto",
            quality: .init(rawValue: arguments["quality"]?.string ?? "auto"),
            background: arguments["transparent"]?.bool == true ? .transparent : .opaque)
        let start = ContinuousClock.now
        report(0, "Drawing")
        let reporting = Task {
            while (try? await Task.sleep(for: .seconds(5))) != nil {
                let seconds = Int((ContinuousClock.now - start).inSeconds)
                report(seconds, "Drawing, \(seconds) s")
            }
        }
        defer { reporting.cancel() }
        let picture = try await program.client().generateImage(request)
        return [
            .image(bytes: picture.bytes, mediaType: picture.mediaType), .text("The picture: \(picture.description)."),
        ]
    }

    private func search(_ words: String) async throws -> String {
        guard let threads else { throw CommandLineError.usage("Conversations are not offered.") }
        let found = try await threads.readableHits(ChappieThreadQuery(words))
        let hits = found.hits.prefix(20).map {
            "\($0.thread.shortID)  \($0.date.localMinute)  \($0.thread.shownName)\n  \($0.excerpt)"
        }
        return ((hits.isEmpty ? ["Nothing was found."] : hits) + found.problems.map(\.words)).joined(separator: "\n")
    }

    /// Asks the question in a separate conversation, because clients have their own memory.
    private func ask(_ question: String, model: String?, system: String?) async throws -> String {
        let approval = ToolApproval(approvesAll: options.approveTools, reader: NobodyToAsk())
        let client = try program.client(options, approval: approval)
        let request = options.request(
            (system.map { [.developer($0)] } ?? []) + [
                ChappieInputMessage(role: .user, parts: [.text(question)], options: options.messageOptions)
            ],
            model: model ?? options.model, schema: nil, searchesWeb: options.web)
        let conversation: any ChappieConversation =
            store.map { program.runtime(client, LenientThreadStore($0)) } ?? client
        defer { Task { await client.disconnect() } }
        var response: ChappieResponse?
        for try await event in conversation.streamResponse(request) {
            if case .approvalRequested(let request) = event { approval.announce(request) }
            if case .notice(let notice) = event { program.note(notice) }
            if case .completed(let whole) = event { response = whole }
        }
        guard let response else { throw CommandLineError(.unavailable, code: "answer_empty", "There was no answer.") }
        try Ask.checkWhole(response)
        let sources = SourceList.lines(response.sources)
        return response.outputText + (sources.isEmpty ? "" : "\n\n" + sources.joined(separator: "\n"))
    }
}

/// A reader that never asks. The terminal, if there is one, belongs to the client.
private struct NobodyToAsk: LineReader {
    func read(_ question: Question) async throws -> LineEditor.Entry? { nil }
}
