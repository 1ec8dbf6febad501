@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The tools that a request does not declare, and the search by which the model finds them.
///
/// The model searches with the tool `tool_search`, which the client executes (Codex CLI 0.163.0). Afterwards it may call
/// every one of these tools, even one that no search has returned.
struct ToolSearch: Sendable {
    /// A tool that is not declared.
    struct Tool: Sendable, Hashable {
        let key: ToolSet.Key
        /// The description of its namespace.
        let about: String
        let declaration: ChappieHarnessTool

        /// The namespace under which the model calls it.
        var namespace: String { key.namespace ?? ToolName.noGroup }

        /// The text by which it is found. Its name counts twice.
        fileprivate var text: String {
            let parameters = declaration.inputSchema["properties"]?.object?.names ?? []
            let words = [namespace, key.name, key.name, declaration.description] + parameters
            return words.joined(separator: " ")
        }
    }

    /// The number of tools from which on tools of providers are deferred.
    static let toolLimit = 64
    /// The size of all declarations in bytes from which on tools of providers are deferred.
    static let byteLimit = 32 << 10
    /// The number of tools in an answer. The model may request more, up to the second number.
    private static let answerLimits = (usual: 8, greatest: 32)
    /// The longest query, in bytes.
    private static let queryLimit = 4096
    /// The length of a source's description in the declaration, in characters.
    private static let aboutLimit = 200

    let tools: [Tool]
    private let index: ToolIndex

    init(_ tools: [Tool]) {
        self.tools = tools
        index = ToolIndex(tools.map(\.text))
    }

    /// The namespaces of the tools.
    var namespaces: Set<String> { Set(tools.map(\.namespace)) }

    /// The declaration of the search.
    var declaration: ChappieJSON {
        var sources: [String] = []
        var named: Set<String> = []
        for tool in tools where named.insert(tool.namespace).inserted {
            let about = tool.about.prefix(Self.aboutLimit).split(whereSeparator: \.isNewline).joined(separator: " ")
            sources.append(about.isEmpty ? "- \(tool.namespace)" : "- \(tool.namespace): \(about)")
        }
        let text = """
            Finds tools by words of their names, descriptions and parameters. More tools exist than are declared here. \
            Search before you say that something can't be done. You can call the tools that a search returns from then \
            on. They come from these sources:

            """
        return [
            "type": "tool_search", "execution": "client",
            "description": .string(text + sources.joined(separator: "\n")),
            "parameters": [
                "type": "object",
                "properties": [
                    "query": ["type": "string", "description": "What the tool should do, in a few words."],
                    "limit": [
                        "type": "number",
                        "description": .string("The maximum number of tools. Default \(Self.answerLimits.usual)."),
                    ],
                ],
                "required": ["query"], "additionalProperties": false,
            ],
        ]
    }

    /// Returns the items that answer the searches among `items`. A search that can't be carried out finds nothing, and a
    /// note to the model gives the reason.
    func outputs(for items: [ChappieOutputItem]) -> [ChappieJSON] {
        items.filter(\.isToolSearch).flatMap { item -> [ChappieJSON] in
            let query = item.json["arguments"]?["query"]?.string ?? ""
            let refusal: String? =
                if ToolIndex.words(of: String(query.prefix(Self.queryLimit))).isEmpty {
                    "The query must be a text with words."
                } else if query.utf8.count > Self.queryLimit {
                    "The query is longer than \(Self.queryLimit) bytes. Use a few words."
                } else {
                    nil
                }
            let limit = item.json["arguments"]?["limit"]?.int ?? Self.answerLimits.usual
            let count = min(max(limit, 1), Self.answerLimits.greatest)
            let output: ChappieJSON = [
                "type": "tool_search_output", "call_id": item.json["call_id"] ?? .null, "status": "completed",
                "execution": "client",
                "tools": .array(refusal == nil ? found(index.best(count, for: query).map { tools[$0] }) : []),
            ]
            let note = refusal.map { ChappieInputMessage.developer("The search for tools found nothing. \($0)") }
            return [output] + (note.map { [$0.inputItem] } ?? [])
        }
    }

    /// Returns the items without searches for tools.
    static func withoutSearches(_ items: [ChappieJSON]) -> [ChappieJSON] {
        items.filter { $0["type"]?.string?.hasPrefix("tool_search_") != true }
    }

    /// Returns the namespaces that the searches among `items` have returned.
    static func namespaces(foundIn items: [ChappieJSON]) -> Set<String> {
        let outputs = items.filter { $0["type"]?.string == "tool_search_output" }
        return Set(outputs.flatMap { ($0["tools"]?.array ?? []).compactMap { $0["name"]?.string } })
    }

    /// Returns the namespaces with these tools, the best tool first.
    private func found(_ found: [Tool]) -> [ChappieJSON] {
        var names: [String] = []
        for tool in found where !names.contains(tool.namespace) { names.append(tool.namespace) }
        return names.map { name in
            let inside = found.filter { $0.namespace == name }
            let about = inside.first { !$0.about.isEmpty }?.about
            return [
                "type": "namespace", "name": .string(name), "description": .string(about ?? "Tools of \(name)."),
                "tools": .array(inside.map { $0.declaration.declared(isDeferred: true) }),
            ]
        }
    }
}

extension ChappieOutputItem {
    /// Whether it is a search for tools that the client executes.
    var isToolSearch: Bool { type == "tool_search_call" && callID?.isEmpty == false }
}

extension ChappieClient {
    /// Defers tools of providers if there are many tools. On the plan's route, which has no search for tools, the tools
    /// above its limit are left out instead, and the user gets a notice.
    ///
    /// A conversation that has searched for tools keeps that form of its requests.
    func limit(
        _ tools: inout ToolSet, _ frame: inout RequestFrame, _ items: [ChappieJSON], _ transcript: inout Transcript,
        _ context: TurnContext
    ) {
        if configuration.endpoints.usesPlan {
            let names = tools.declareFirst(ToolSet.planLimit).map { UntrustedText.forTerminal($0.name) }
            guard !names.isEmpty else { return }
            let more = names.count > 5 ? " and \(names.count - 5) more" : ""
            let list = names.prefix(5).joined(separator: ", ") + more
            tell(
                ChappieNotice(
                    .toolsUnavailable,
                    "This sign-in takes \(ToolSet.planLimit) tools at most. Left out: \(list)."), context)
            return
        }
        // An exchange declares all of its tools.
        guard context.exchange == nil else { return }
        let hasSearched = [transcript.items, items].contains { items in
            items.contains { $0["type"]?.string == "tool_search_call" }
        }
        var chosen: String?
        if case .function(let name) = frame.toolChoice { chosen = name }
        tools.deferTools(except: chosen, always: hasSearched, known: toolSearch)
        toolSearch = tools.search
        transcript.deferredNamespaces = tools.search?.namespaces ?? []
        // Only the full form is known to take a search for tools.
        if tools.search != nil { frame.isLite = false }
    }
}
