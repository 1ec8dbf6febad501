import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
public import ChappieJSONSchema

/// A tool that the host runs for the model.
///
/// ```swift
/// let weather = ChappieHostTool(
///     name: "weather", description: "The weather in a town.",
///     inputSchema: ["type": "object", "properties": ["town": ["type": "string"]], "required": ["town"]]
/// ) { call in
///     ChappieToolResult(output: "Sunny in \(call.argumentsJSON?["town"]?.string ?? "")")
/// }
/// ```
public struct ChappieHostTool: Sendable {
    /// Runs one call. What it throws is told to the model, unless the configuration's `toolFailureBehavior` says otherwise.
    public typealias Handler = @Sendable (ChappieToolCall) async throws -> ChappieToolResult

    /// Letters, digits, `_` and `-`, at most 64.
    public var name: String
    /// Tells the model what the tool does, and when to use it.
    public var description: String
    /// The JSON Schema of the arguments, checked before the handler runs.
    public var inputSchema: ChappieJSONValue
    /// Whether the user is asked first. Default `.automatic`; a ``ChappieToolProvider``'s tools ask by default.
    public var policy: ChappieToolPolicy {
        get { chosenPolicy ?? .automatic }
        set { chosenPolicy = newValue }
    }
    /// A call that takes longer has failed; its task is cancelled. Default 5 minutes.
    public var timeout: Duration
    /// Whether no other call of the same round runs beside it. Default `false`: calls run in parallel.
    public var runsAlone: Bool
    /// Groups tools of one origin, such as a server; `nil` for most.
    public var namespace: String?
    /// `nil` if the default applies, which depends on where the tool comes from.
    private var chosenPolicy: ChappieToolPolicy?
    let handler: Handler

    /// A tool with the given properties; without a `policy` the default applies.
    public init(
        name: String, description: String = "", inputSchema: ChappieJSONValue = ["type": "object", "properties": [:]],
        policy: ChappieToolPolicy? = nil, timeout: Duration = .seconds(300), runsAlone: Bool = false,
        namespace: String? = nil, handler: @escaping Handler
    ) {
        self.name = name
        self.description = description
        self.inputSchema = inputSchema
        chosenPolicy = policy
        self.timeout = timeout
        self.runsAlone = runsAlone
        self.namespace = namespace
        self.handler = handler
    }

    /// A tool whose arguments are a value of `Input`; the schema is the type's own.
    public init<Input: Decodable & ChappieJSONSchemaProviding & SendableMetatype>(
        name: String, description: String = "", input: Input.Type, policy: ChappieToolPolicy? = nil,
        timeout: Duration = .seconds(300), runsAlone: Bool = false, namespace: String? = nil,
        handler: @escaping @Sendable (Input) async throws -> ChappieToolResult
    ) {
        self.init(
            name: name, description: description, inputSchema: Input.jsonSchema.json, policy: policy, timeout: timeout,
            runsAlone: runsAlone, namespace: namespace
        ) { call in try await handler(try call.decode(Input.self)) }
    }

    /// The tool as a provider's: it asks unless it says otherwise.
    var fromProvider: ChappieHostTool {
        var tool = self
        tool.policy = chosenPolicy ?? .ask
        return tool
    }
}

/// Tools that come and go, such as those of a Model Context Protocol server: a port.
///
/// The client asks for the tools at the beginning of every turn, and calls them like its own. They ask for approval unless
/// they say otherwise, as this complete fake's does:
///
/// ```swift
/// struct Clock: ChappieToolProvider {
///     func tools() async throws -> [ChappieHostTool] {
///         [ChappieHostTool(name: "time", policy: .automatic) { _ in "12:00" }]
///     }
/// }
/// ```
public protocol ChappieToolProvider: Sendable {
    /// The tools as they are now, with the handlers that call them.
    ///
    /// - Throws: anything; the turn then fails before a request is sent.
    func tools() async throws -> [ChappieHostTool]
}

/// Asks the user whether a tool may be run. It may take as long as the user does; cancelling the turn cancels its task.
public typealias ChappieToolApprovalHandler = @Sendable (ChappieApprovalRequest) async -> ChappieApprovalDecision

/// The tools of one turn: what the model is told, and what runs.
struct Toolbox: Sendable {
    /// What identifies a tool in a call.
    struct Key: Hashable {
        var namespace: String?
        var name: String
    }

    private var order: [Key] = []
    private(set) var declarations: [Key: ChappieHarnessTool] = [:]
    private var handlers: [Key: ChappieHostTool] = [:]

    /// Of tools with one name the first counts: the harness's declaration, then the host's tools, then the providers'.
    ///
    /// - Parameter checked: the declarations of the turn before; what is the same is not checked again.
    /// - Throws: ``ChappieClientError/invalidTool(_:_:)``: a name that the backend refuses, or a schema that can't be used.
    init(
        harness: ChappieHarness, tools: [ChappieHostTool], checked: [Key: ChappieHarnessTool]
    ) throws(ChappieClientError) {
        func declare(_ tool: ChappieHarnessTool, in namespace: String?) throws(ChappieClientError) {
            let key = Key(namespace: namespace, name: tool.name)
            guard declarations[key] == nil else { return }
            if checked[key] != tool { try Self.check(tool) }
            declarations[key] = tool
            order.append(key)
        }
        for tool in harness.allTools { try declare(tool, in: nil) }
        for tool in tools {
            let key = Key(namespace: tool.namespace, name: tool.name)
            guard handlers[key] == nil else { continue }
            handlers[key] = tool
            try declare(
                ChappieHarnessTool(name: tool.name, description: tool.description, inputSchema: tool.inputSchema),
                in: tool.namespace)
        }
    }

    /// Refuses what the backend would refuse, and what the arguments could not be checked against.
    static func check(_ tool: ChappieHarnessTool) throws(ChappieClientError) {
        let isName = tool.name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard isName, (1...64).contains(tool.name.utf8.count) else {
            throw .invalidTool(tool.name, "a name has 1 to 64 letters, digits, _ and -")
        }
        guard tool.inputSchema["type"]?.string == "object" else {
            throw .invalidTool(tool.name, "the schema must be of type object")
        }
        do throws(ChappieJSONSchemaError) { try ChappieJSONSchema(tool.inputSchema).check() } catch {
            throw .invalidTool(tool.name, "the schema can't be used, at \(error.path): \(error.reason)")
        }
    }

    var isEmpty: Bool { order.isEmpty }

    /// The tools as a request declares them, always in the same order.
    ///
    /// - Parameter inNamespace: whether the tools that belong to no namespace stand in the one called `functions`.
    func declared(as envelope: ChappieEndpointProfile.ToolEnvelope, inNamespace: Bool = false) -> [ChappieJSON] {
        var namespaces: [String] = []
        for key in order { if let name = key.namespace, !namespaces.contains(name) { namespaces.append(name) } }
        func list(_ namespace: String?) -> [ChappieJSON] {
            order.filter { $0.namespace == namespace }.compactMap { declarations[$0]?.declared(as: envelope) }
        }
        func namespace(_ name: String, _ description: String, _ tools: [ChappieJSON]) -> ChappieJSON {
            [
                "type": "namespace", "name": .string(name), "description": .string(description),
                "tools": .array(tools),
            ]
        }
        let own = list(nil)
        return (inNamespace && !own.isEmpty ? [namespace("functions", "", own)] : own)
            + namespaces.map { namespace($0, "Tools of \($0).", list($0)) }
    }

    /// The tool that carries `call` out; its schema is what the model was told.
    func tool(for call: ChappieToolCall) -> ChappieHostTool? {
        let key = Key(namespace: call.namespace, name: call.name)
        guard var tool = handlers[key] else { return nil }
        if let declared = declarations[key] {
            tool.inputSchema = declared.inputSchema
            if !declared.description.isEmpty { tool.description = declared.description }
        }
        return tool
    }
}

extension ChappieHarnessTool {
    fileprivate func declared(as envelope: ChappieEndpointProfile.ToolEnvelope) -> ChappieJSON {
        let function = ChappieJSONObject([
            ("name", .string(name)), ("description", .string(description)), ("strict", false),
            ("parameters", inputSchema),
        ])
        switch envelope {
        case .flatFunction:
            return .object(ChappieJSONObject(members: [.init(name: "type", value: "function")] + function.members))
        case .nestedFunction: return ["type": "function", "function": .object(function)]
        }
    }
}
