@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema

/// The assistant's role inside the host app: the first item of every transcript.
///
/// ```swift
/// let harness: ChappieHarness = "Answer in one sentence."
/// let shop = ChappieHarness(name: "Shop", instructions: "Help with orders.", tools: [lookUp])
/// ```
public struct ChappieHarness: Sendable, Hashable, Codable, ExpressibleByStringInterpolation {
    /// The name for the program's user. The model does not see it.
    public var name: String
    /// One sentence for the program's user. The model does not see it.
    public var summary: String
    /// The instructions to the model. An empty string means none.
    public var instructions: String
    /// The assistant's abilities, one phrase each. The model gets them as a list below the instructions.
    public var capabilities: [String]
    /// The tools that the model may call. The client needs a ``ChappieHostTool`` of the same name for each.
    public var tools: [ChappieHarnessTool]
    /// The additions, in the order in which the model gets them.
    public var plugins: [ChappieHarnessPlugin]

    /// Creates a harness from its parts. Without `instructions` it has those of ``default``.
    public init(
        name: String, summary: String = "", instructions: String = ChappieHarness.defaultInstructions,
        capabilities: [String] = [], tools: [ChappieHarnessTool] = [], plugins: [ChappieHarnessPlugin] = []
    ) {
        self.name = name
        self.summary = summary
        self.instructions = instructions
        self.capabilities = capabilities
        self.tools = tools
        self.plugins = plugins
    }

    /// Creates a harness that has only instructions. Its name is `Inline Harness`.
    public init(stringLiteral value: String) { self.init(name: "Inline Harness", instructions: value) }

    /// Decodes a document in which every member except `name` may be missing.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try values.decode(String.self, forKey: .name),
            summary: try values.decodeIfPresent(String.self, forKey: .summary) ?? "",
            instructions: try values.decodeIfPresent(String.self, forKey: .instructions) ?? Self.defaultInstructions,
            capabilities: try values.decodeIfPresent([String].self, forKey: .capabilities) ?? [],
            tools: try values.decodeIfPresent([ChappieHarnessTool].self, forKey: .tools) ?? [],
            plugins: try values.decodeIfPresent([ChappieHarnessPlugin].self, forKey: .plugins) ?? [])
    }

    /// The instructions of ``default``: a plain assistant that states what it is.
    public static let defaultInstructions = """
        You are an assistant inside an application that uses the person's own ChatGPT account. \
        Answer the person directly. Do not present yourself as the Codex app, a coding agent or any other \
        OpenAI product surface, and do not claim abilities that the conversation does not show.
        """

    /// A plain assistant that states what it is, without further instructions.
    public static let `default` = ChappieHarness(name: "Chappie", summary: "A plain assistant inside an app.")

    /// A harness without instructions.
    public static let none = ChappieHarness(name: "None", instructions: "")

    /// All tools: the harness's, then its plugins'. Of two tools with the same name, the first counts.
    public var allTools: [ChappieHarnessTool] { (tools + plugins.flatMap(\.tools)).uniqued() }

    /// The first input item, or `nil` if the harness has no text. The same harness always has the same bytes.
    var inputItem: ChappieJSON? {
        let list = capabilities.map { "- \($0)" }.joined(separator: "\n")
        let parts =
            [instructions, list.isEmpty ? "" : "You can:\n\(list)"]
            + plugins.map { $0.instructions.isEmpty ? "" : "# \($0.name)\n\($0.instructions)" }
        let said = parts.filter { !$0.isEmpty }
        guard !said.isEmpty else { return nil }
        return ChappieInputMessage.developer(said.joined(separator: "\n\n")).inputItem
    }
}

/// The declaration of a tool to the model. A ``ChappieHostTool`` of the same name runs it.
public struct ChappieHarnessTool: Sendable, Hashable, Codable {
    /// The name that the model calls.
    public var name: String
    /// The explanation of the tool for the model.
    public var description: String
    /// The JSON Schema of the arguments. It has no meaning if there is a ``textFormat``.
    public var inputSchema: ChappieJSONValue
    /// The form of the free text that the tool takes instead of JSON arguments, or `nil` for most tools.
    public var textFormat: ChappieToolTextFormat?

    /// Creates a declaration. Without a schema the tool takes no arguments.
    public init(
        name: String, description: String = "", inputSchema: ChappieJSONValue = Self.noArguments,
        textFormat: ChappieToolTextFormat? = nil
    ) {
        self.name = name
        self.description = description
        self.inputSchema = inputSchema
        self.textFormat = textFormat
    }

    /// Decodes a document in which every member except `name` may be missing.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try values.decode(String.self, forKey: .name),
            description: try values.decodeIfPresent(String.self, forKey: .description) ?? "",
            inputSchema: try values.decodeIfPresent(ChappieJSONValue.self, forKey: .inputSchema) ?? Self.noArguments,
            textFormat: try values.decodeIfPresent(ChappieToolTextFormat.self, forKey: .textFormat))
    }

    /// The schema of a tool without arguments.
    public static let noArguments: ChappieJSONValue = ["type": "object", "properties": [:]]
}

/// An addition to a harness: more instructions and more tools.
public struct ChappieHarnessPlugin: Sendable, Hashable, Codable {
    /// The heading of its instructions.
    public var name: String
    /// One sentence for the program's user. The model does not see it.
    public var summary: String
    /// The instructions to the model, below the harness's own. An empty string means none.
    public var instructions: String
    /// The tools that it adds.
    public var tools: [ChappieHarnessTool]

    /// Creates a plugin with the given properties.
    public init(name: String, summary: String = "", instructions: String = "", tools: [ChappieHarnessTool] = []) {
        self.name = name
        self.summary = summary
        self.instructions = instructions
        self.tools = tools
    }

    /// Decodes a document in which every member except `name` may be missing.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try values.decode(String.self, forKey: .name),
            summary: try values.decodeIfPresent(String.self, forKey: .summary) ?? "",
            instructions: try values.decodeIfPresent(String.self, forKey: .instructions) ?? "",
            tools: try values.decodeIfPresent([ChappieHarnessTool].self, forKey: .tools) ?? [])
    }
}

/// A harness described by a file, with its additions.
///
/// ```json
/// {"name": "shop", "version": "1.0",
///  "harness": {"name": "Shop", "instructions": "Help with orders."},
///  "tools": [{"name": "look_up", "description": "Finds an order.", "inputSchema": {"type": "object"}}],
///  "plugins": [{"name": "Returns", "instructions": "Returns take 14 days."}]}
/// ```
public struct ChappiePluginManifest: Sendable, Hashable, Codable {
    /// The manifest's own name.
    public var name: String
    /// The manifest's version, in any format. Default empty.
    public var version: String
    /// The harness to which everything else is added. Default ``ChappieHarness/default``.
    public var harness: ChappieHarness
    /// The tools that are added. A tool whose name the harness already has is left out.
    public var tools: [ChappieHarnessTool]
    /// The plugins that are appended to the harness's own.
    public var plugins: [ChappieHarnessPlugin]

    /// Creates a manifest with the given properties.
    public init(
        name: String, version: String = "", harness: ChappieHarness = .default, tools: [ChappieHarnessTool] = [],
        plugins: [ChappieHarnessPlugin] = []
    ) {
        self.name = name
        self.version = version
        self.harness = harness
        self.tools = tools
        self.plugins = plugins
    }

    /// Decodes a document in which every member except `name` may be missing.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try values.decode(String.self, forKey: .name),
            version: try values.decodeIfPresent(String.self, forKey: .version) ?? "",
            harness: try values.decodeIfPresent(ChappieHarness.self, forKey: .harness) ?? .default,
            tools: try values.decodeIfPresent([ChappieHarnessTool].self, forKey: .tools) ?? [],
            plugins: try values.decodeIfPresent([ChappieHarnessPlugin].self, forKey: .plugins) ?? [])
    }

    /// Reads a manifest's JSON.
    ///
    /// - Throws: ``ChappieManifestError``, which names the key path, for text that is not JSON, a missing or mistyped
    ///   member, or a tool whose schema can't be used.
    public init(json: [UInt8]) throws(ChappieManifestError) {
        do {
            self = try JSONDecoder().decode(ChappiePluginManifest.self, from: Data(json))
        } catch {
            throw ChappieManifestError(error)
        }
        let lists =
            [("harness.tools", harness.tools), ("tools", tools)]
            + harness.plugins.enumerated().map { ("harness.plugins[\($0)].tools", $1.tools) }
            + plugins.enumerated().map { ("plugins[\($0)].tools", $1.tools) }
        for (path, tools) in lists {
            for (index, tool) in tools.enumerated() {
                do throws(ChappieClientError) {
                    try tool.check()
                } catch {
                    throw ChappieManifestError(
                        keyPath: "\(path)[\(index)]", reason: error.errorDescription ?? "The tool can't be used.")
                }
            }
        }
    }

    /// Reads a manifest from a file of at most 1 MiB.
    ///
    /// - Throws: ``ChappieManifestError``.
    public init(contentsOf url: URL) throws(ChappieManifestError) {
        func failure(_ words: String) -> ChappieManifestError {
            ChappieManifestError(keyPath: "", reason: "\(url.path) \(words).")
        }
        // A device or a pipe may never end.
        let facts = try? FileManager.default.attributesOfItem(atPath: url.resolvingSymlinksInPath().path)
        guard let facts else { throw failure("can't be read") }
        guard facts[.type] as? FileAttributeType == .typeRegular else { throw failure("is not a plain file") }
        guard let size = facts[.size] as? UInt64, size <= 1 << 20 else { throw failure("is larger than 1 MiB") }
        guard let data = try? Data(contentsOf: url) else { throw failure("can't be read") }
        try self.init(json: Array(data))
    }

    /// The harness with everything that the manifest adds. Of tools with the same name, the base harness's counts.
    /// Plugins follow the harness's own.
    public var resolvedHarness: ChappieHarness {
        var harness = harness
        harness.tools = (harness.tools + tools).uniqued()
        harness.plugins += plugins
        return harness
    }
}

/// The reason for which a manifest can't be used, and the place of the mistake in it.
public struct ChappieManifestError: ChappieError, Hashable {
    /// The place, such as `tools[1].inputSchema`. It is empty for the entire file.
    public var keyPath: String
    /// The reason as a sentence.
    public var reason: String

    /// Creates an error with the given properties.
    public init(keyPath: String, reason: String) {
        self.keyPath = keyPath
        self.reason = reason
    }

    public var errorDescription: String? {
        keyPath.isEmpty
            ? "The manifest can't be used: \(reason)" : "The manifest can't be used, at \(keyPath): \(reason)"
    }

    fileprivate init(_ error: any Error) {
        guard let error = error as? DecodingError, !error.keyPath.isEmpty else {
            self.init(keyPath: "", reason: "It is not JSON.")
            return
        }
        self.init(keyPath: error.keyPath, reason: error.sentence)
    }
}

/// Four harnesses to start with.
public enum ChappieHarnessSamples {
    /// A harness that answers questions about a stock of goods, with two tools that the host provides.
    public static let inventory = ChappieHarness(
        name: "Inventory", summary: "Answers questions about a stock of goods.",
        instructions: """
            You help with an inventory. Look items up before you say anything about them, and say so when something is \
            not there. Never invent a quantity.
            """,
        capabilities: ["find items by name or number", "tell how many are in stock"],
        tools: [
            ChappieHarnessTool(
                name: "find_items", description: "Finds items whose name or number contains a text.",
                inputSchema: [
                    "type": "object", "properties": ["text": ["type": "string"]], "required": ["text"],
                    "additionalProperties": false,
                ]),
            ChappieHarnessTool(
                name: "stock_level", description: "Tells how many of an item are in stock.",
                inputSchema: [
                    "type": "object", "properties": ["item": ["type": "string"]], "required": ["item"],
                    "additionalProperties": false,
                ]),
        ])

    /// A harness that answers customers from the host's own text in the conversation.
    public static let support = ChappieHarness(
        name: "Support", summary: "Answers customers.",
        instructions: """
            You answer a product's customers. Use only what the conversation tells you about the product. When it does \
            not tell, say that you don't know and offer to pass the question on.
            """)

    /// A harness that improves texts without changing their meaning.
    public static let writing = ChappieHarness(
        name: "Writing", summary: "Improves texts.",
        instructions: """
            You edit texts. Keep the meaning, the language and the author's voice; fix grammar, spelling and clumsy \
            sentences. Answer with the edited text alone, unless you are asked for reasons.
            """)

    /// A harness that explains step by step, and leaves the last step to the learner.
    public static let tutor = ChappieHarness(
        name: "Tutor", summary: "Explains things step by step.",
        instructions: """
            You are a patient tutor. Explain in small steps, check after each whether it was understood, and give hints \
            before you give solutions.
            """)

    /// All samples.
    public static let all = [inventory, support, writing, tutor]
}

extension [ChappieHarnessTool] {
    /// Returns the tools, with only the first of those that have the same name.
    fileprivate func uniqued() -> [ChappieHarnessTool] {
        var names: Set<String> = []
        return filter { names.insert($0.name).inserted }
    }
}

extension ChappieHarnessTool {
    /// Throws an error for a tool that the backend would refuse, or a schema that arguments can't be checked against.
    func check() throws(ChappieClientError) {
        guard ToolName.isValid(name) else {
            throw .invalidTool(name, "a name has 1 to 64 letters, digits, _ and -")
        }
        if let textFormat {
            guard textFormat.definition?.isEmpty != true else {
                throw .invalidTool(name, "its grammar must not be empty")
            }
            return
        }
        guard ChappieJSONSchema(inputSchema).allowsObjects else {
            throw .invalidTool(name, "the schema must be of type object")
        }
        do throws(ChappieJSONSchemaError) {
            try ChappieJSONSchema(inputSchema).check()
        } catch {
            throw .invalidTool(name, "the schema can't be used, at \(error.path): \(error.reason)")
        }
    }
}

extension DecodingError {
    private var context: Context? {
        switch self {
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .keyNotFound(_, let context),
            .dataCorrupted(let context):
            context
        @unknown default: nil
        }
    }

    /// The place in the document, as a JSON Pointer (RFC 6901).
    var path: String {
        (context?.codingPath ?? []).map { "/\($0.intValue.map(String.init) ?? $0.stringValue)" }.joined()
    }

    /// The place in a programmer's notation, such as `tools[1].name`. For a missing member it is the place of that
    /// member.
    var keyPath: String {
        var keys = context?.codingPath ?? []
        if case .keyNotFound(let key, _) = self { keys.append(key) }
        return keys.keyPath
    }

    /// A sentence about the problem in that place.
    var sentence: String {
        switch self {
        case .keyNotFound(let key, _): "The member \(key.stringValue) is missing."
        case .typeMismatch(let type, _), .valueNotFound(let type, _): "A value of the kind \(type) is expected here."
        default: "This value can't be used."
        }
    }
}
