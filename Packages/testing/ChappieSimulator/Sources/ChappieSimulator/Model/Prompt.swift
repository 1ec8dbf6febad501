import ChappieCore

/// The part of a request that the model answers.
struct Prompt: Sendable, Hashable {
    struct ToolOutput: Sendable, Hashable {
        /// The tool's name, or an empty string if the call itself is not in the input.
        let toolName: String
        let text: String
        let imageCount: Int
    }

    let body: ChappieJSON
    private let items: [ChappieJSON]
    /// The index of the last user message.
    private let lastUser: Int?

    init(_ body: ChappieJSON) {
        self.body = body
        let items = body["input"]?.array ?? []
        self.items = items
        lastUser = items.lastIndex { Prompt.role(of: $0) == "user" }
    }

    var model: String { body["model"]?.string ?? "" }
    /// The text of the last user message, or an empty string if there is none.
    var text: String { Prompt.text(of: lastUser.flatMap { items[$0]["content"] }) }
    /// The number of images in that message.
    var imageCount: Int { Prompt.imageCount(of: lastUser.flatMap { items[$0]["content"] }) }
    /// The number of this answer in the conversation, counted from 1.
    var turn: Int { items.count { Prompt.role(of: $0) == "assistant" && $0["phase"] != "commentary" } + 1 }
    /// The number of steps that the model has taken since that message.
    var stepsTaken: Int {
        items.dropFirst(lastUser ?? 0).count {
            Prompt.role(of: $0) == "assistant" && Prompt.text(of: $0["content"]).hasPrefix("Step ")
        }
    }
    /// The results of tools since that message.
    var toolOutputs: [ToolOutput] {
        items.dropFirst(lastUser.map { $0 + 1 } ?? 0).compactMap { item in
            guard item["type"]?.string?.hasSuffix("_call_output") == true else { return nil }
            let call = items.last { $0["call_id"] == item["call_id"] && $0["type"]?.string?.hasSuffix("_call") == true }
            return ToolOutput(
                toolName: call?["name"]?.string ?? "", text: Prompt.text(of: item["output"]),
                imageCount: Prompt.imageCount(of: item["output"]))
        }
    }
    var tools: [DeclaredTool] {
        let inInput = items.filter { $0["type"] == "additional_tools" }.flatMap { $0["tools"]?.array ?? [] }
        return DeclaredTool.list((body["tools"]?.array ?? []) + inInput + items.flatMap(Self.found))
    }
    /// The tools that searches since the last user message have found, or `nil` if there was no search.
    var foundTools: [DeclaredTool]? {
        let outputs = items.dropFirst(lastUser ?? 0).filter { $0["type"] == "tool_search_output" }
        return outputs.isEmpty ? nil : DeclaredTool.list(outputs.flatMap(Self.found))
    }
    /// Whether the model may search for tools.
    var offersToolSearch: Bool { (body["tools"]?.array ?? []).contains { $0["type"] == "tool_search" } }
    /// Whether the model may search the web. The service runs none of its tools for the lite form.
    var offersWebSearch: Bool {
        (body["tools"]?.array ?? []).contains { $0["type"]?.string?.hasPrefix("web_search") == true }
    }
    /// The value of `tool_choice`, which is a string or an object.
    var toolChoice: ChappieJSON { body["tool_choice"] ?? "auto" }
    /// The reasoning effort, or `nil` if no reasoning is requested.
    var reasoningEffort: String? { body["reasoning"]?["effort"]?.string.flatMap { $0 == "none" ? nil : $0 } }
    /// The schema that the answer must fit, or `nil` for text.
    var outputSchema: ChappieJSON? {
        let format = body["text"]?["format"]
        return format?["type"] == "json_schema" ? format?["schema"] : nil
    }
    /// Whether the last item asks for the conversation to be compacted.
    var wantsCompaction: Bool { items.last?["type"] == "compaction_trigger" }
    /// The number of bytes of all text in the input, from which input tokens are estimated.
    var inputSize: Int {
        items.reduce(body["instructions"]?.string?.utf8.count ?? 0) { total, item in
            total + Prompt.text(of: item["content"]).utf8.count + Prompt.text(of: item["output"]).utf8.count
        }
    }

    /// Returns the tools that a search for tools has returned. Other items have none.
    private static func found(in item: ChappieJSON) -> [ChappieJSON] {
        item["type"] == "tool_search_output" ? item["tools"]?.array ?? [] : []
    }

    /// Returns the role of a message, or `nil` for another item. The type of a message may be omitted.
    private static func role(of item: ChappieJSON) -> String? {
        (item["type"] ?? "message") == "message" ? item["role"]?.string : nil
    }

    /// Returns the number of images in content or output.
    private static func imageCount(of content: ChappieJSON?) -> Int {
        content?.array?.count { $0["type"] == "input_image" } ?? 0
    }

    /// Returns the text of content or output, which is a string or a list of parts.
    private static func text(of content: ChappieJSON?) -> String {
        content?.string ?? (content?.array ?? []).compactMap { $0["text"]?.string }.joined()
    }
}

/// A tool that the request offers to the model.
struct DeclaredTool: Sendable, Hashable {
    enum Kind: String, Sendable { case function, custom }

    let name: String
    let kind: Kind
    /// The namespace in which it was declared, or `nil` at the top level.
    let namespace: String?
    /// The JSON schema of a function's arguments.
    let parameters: ChappieJSON
    /// The name with its namespace, or `nil` at the top level.
    var qualifiedName: String? { namespace.map { "\($0).\(name)" } }

    /// Returns every function and custom tool in `tools`, including those inside namespaces.
    static func list(_ tools: [ChappieJSON], namespace: String? = nil) -> [DeclaredTool] {
        tools.flatMap { tool -> [DeclaredTool] in
            guard let name = tool["name"]?.string, let type = tool["type"]?.string else { return [] }
            // This wire format has only one level of nesting.
            if type == "namespace", namespace == nil {
                return list(tool["tools"]?.array ?? [], namespace: name)
            }
            return Kind(rawValue: type).map { kind in
                [DeclaredTool(name: name, kind: kind, namespace: namespace, parameters: tool["parameters"] ?? .null)]
            } ?? []
        }
    }
}
