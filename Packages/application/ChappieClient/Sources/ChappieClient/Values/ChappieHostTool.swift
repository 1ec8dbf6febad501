public import ChappieCore
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
    /// Runs one call. The model gets an error's message, unless the configuration's `toolFailureBehavior` specifies
    /// another behaviour.
    public typealias Handler = @Sendable (ChappieToolCall) async throws -> ChappieToolResult

    /// The name of letters, digits, `_` and `-`, at most 64.
    public var name: String
    /// The explanation for the model of what the tool does, and when to use it.
    public var description: String
    /// The JSON Schema of the arguments. They are checked before the handler runs.
    public var inputSchema: ChappieJSONValue
    /// The form of the free text that the tool takes instead of JSON arguments. Default `nil`: the tool takes JSON
    /// arguments. A call's text is in `ChappieToolCall.arguments`.
    public var textFormat: ChappieToolTextFormat?
    /// The policy that decides whether the user is asked before a call. Default `.automatic`. The tools of a
    /// ``ChappieToolProvider`` ask by default.
    public var policy: ChappieToolPolicy {
        get { chosenPolicy ?? .automatic }
        set { chosenPolicy = newValue }
    }
    /// The time after which a call has failed and its task is cancelled. Default 5 minutes.
    public var timeout: Duration
    /// The length of the longest text of a result that the model gets, in bytes of UTF-8. The middle of a longer text
    /// is left out, and a note in its place specifies how much. Default 64 KiB. Values below 256 become 256. Of images
    /// and other parts the model gets the first 20, and at most 20 MiB.
    public var outputLimit: Int {
        didSet { outputLimit = max(outputLimit, Self.leastOutput) }
    }
    private static let leastOutput = 256
    /// Whether no other call of the same round runs at the same time. Default `false`: calls run in parallel, eight at
    /// a time.
    public var runsAlone: Bool
    /// The group of tools of one origin, such as a server, or `nil` for most tools.
    public var namespace: String?
    /// The description of the namespace for the model. All tools of a namespace have the same one, or none.
    @_spi(ChappieInternals) public var aboutNamespace = ""
    /// The program or the address that runs the tool. An approval is not valid for the same tool of another origin.
    @_spi(ChappieInternals) public var origin = ""
    /// Whether the model may have to search for the tool if there are many tools. The tools of providers and programs
    /// are deferred, and a host's own tools are always declared.
    @_spi(ChappieInternals) public var isDeferrable = false
    /// The chosen policy, or `nil` if the default applies, which depends on the tool's origin.
    private var chosenPolicy: ChappieToolPolicy?
    private(set) var handler: Handler
    /// Runs one call of a service's tool. It also gets the conversation so far.
    private(set) var serviceHandler: (@Sendable (ChappieToolCall, [ChappieJSON]) async throws -> ChappieToolResult)?

    /// Creates a function that carries out one of the service's tools.
    init(
        serviceTool name: String, description: String, inputSchema: ChappieJSON, timeout: Duration,
        handler: @escaping @Sendable (ChappieToolCall, [ChappieJSON]) async throws -> ChappieToolResult
    ) {
        self.init(name: name, description: description, inputSchema: inputSchema, timeout: timeout) {
            try await handler($0, [])
        }
        serviceHandler = handler
    }

    /// Creates a tool with the given properties. Without a `policy` the default applies.
    public init(
        name: String, description: String = "", inputSchema: ChappieJSONValue = ["type": "object", "properties": [:]],
        policy: ChappieToolPolicy? = nil, timeout: Duration = .seconds(300), outputLimit: Int = 64 << 10,
        runsAlone: Bool = false, namespace: String? = nil, handler: @escaping Handler
    ) {
        self.name = name
        self.description = description
        self.inputSchema = inputSchema
        chosenPolicy = policy
        self.timeout = timeout
        self.outputLimit = max(outputLimit, Self.leastOutput)
        self.runsAlone = runsAlone
        self.namespace = namespace
        self.handler = handler
    }

    /// Creates a tool that takes free text, such as a program, a patch or a query.
    ///
    /// ```swift
    /// let query = ChappieHostTool(
    ///     name: "query", description: "Runs a query.", textFormat: .regex(#"SELECT [^;]+;"#)
    /// ) { call in
    ///     ChappieToolResult(output: try database.answer(to: call.arguments))
    /// }
    /// ```
    public init(
        name: String, description: String = "", textFormat: ChappieToolTextFormat, policy: ChappieToolPolicy? = nil,
        timeout: Duration = .seconds(300), outputLimit: Int = 64 << 10, runsAlone: Bool = false,
        namespace: String? = nil, handler: @escaping Handler
    ) {
        self.init(
            name: name, description: description, policy: policy, timeout: timeout, outputLimit: outputLimit,
            runsAlone: runsAlone, namespace: namespace, handler: handler)
        self.textFormat = textFormat
    }

    /// Creates a tool whose arguments are a value of `Input`. The schema is the type's own.
    public init<Input: Decodable & ChappieJSONSchemaProviding & SendableMetatype>(
        name: String, description: String = "", input: Input.Type, policy: ChappieToolPolicy? = nil,
        timeout: Duration = .seconds(300), outputLimit: Int = 64 << 10, runsAlone: Bool = false,
        namespace: String? = nil, handler: @escaping @Sendable (Input) async throws -> ChappieToolResult
    ) {
        self.init(
            name: name, description: description, inputSchema: Input.jsonSchema.json, policy: policy, timeout: timeout,
            outputLimit: outputLimit, runsAlone: runsAlone, namespace: namespace
        ) { call in try await handler(try call.decode(Input.self)) }
    }

    /// Returns the tool with another handler, which may call the tool's own.
    @_spi(ChappieInternals) public func handled(by handler: (@escaping Handler) -> Handler) -> ChappieHostTool {
        var tool = self
        tool.handler = handler(self.handler)
        return tool
    }

    /// The tool with a provider's default policy: it asks unless another policy was chosen.
    var fromProvider: ChappieHostTool {
        var tool = self
        tool.policy = chosenPolicy ?? .ask
        tool.isDeferrable = true
        return tool
    }
}

/// A port for tools that come and go, such as those of a Model Context Protocol server.
///
/// The client asks for the tools at the beginning of every turn, and calls them like its own. They ask for approval
/// unless another policy is chosen, as in this complete fake:
///
/// ```swift
/// struct Clock: ChappieToolProvider {
///     func tools() async throws -> [ChappieHostTool] {
///         [ChappieHostTool(name: "time", policy: .automatic) { _ in "12:00" }]
///     }
/// }
/// ```
public protocol ChappieToolProvider: Sendable {
    /// Returns the current tools, with the handlers that call them.
    ///
    /// - Throws: any error. The turn then runs without these tools, and reports that in a `ChappieNotice`.
    func tools() async throws -> [ChappieHostTool]
}

/// Asks the user whether a tool may be run. It may wait as long as the user does. Cancelling the turn cancels its task.
public typealias ChappieToolApprovalHandler = @Sendable (ChappieApprovalRequest) async -> ChappieApprovalDecision
