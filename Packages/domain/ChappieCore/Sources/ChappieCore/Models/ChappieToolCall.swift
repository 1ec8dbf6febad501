/// A tool call of the model.
public struct ChappieToolCall: Sendable, Hashable, Codable {
    /// The name of the tool.
    public var name: String
    /// The namespace in which the tool was declared. Usually `nil`.
    public var namespace: String?
    /// The backend's id of the call, which the result must name.
    public var callID: String
    /// The arguments in the model's spelling. They are JSON in a string for a function, and free text for a custom
    /// tool.
    public var arguments: String
    /// Whether the tool is a custom tool, whose arguments are free text instead of JSON.
    public var isCustom: Bool

    /// Creates a call with the given properties.
    public init(
        name: String, namespace: String? = nil, callID: String, arguments: String = "{}", isCustom: Bool = false
    ) {
        self.name = name
        self.namespace = namespace
        self.callID = callID
        self.arguments = arguments
        self.isCustom = isCustom
    }

    /// The ``arguments`` as JSON, or `nil` if they are not JSON. Missing arguments count as an empty object.
    public var argumentsJSON: ChappieJSONValue? {
        if isCustom { return nil }
        return arguments.utf8.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
            ? [:] : try? ChappieJSON(parsing: arguments)
    }
}

extension ChappieToolCall {
    /// Reads a `function_call` or a `custom_tool_call`, or returns `nil` for other items and for a call without an id.
    public init?(_ item: ChappieOutputItem) {
        guard item.isToolCall, let name = item.name, let callID = item.callID, !callID.isEmpty else { return nil }
        let isCustom = item.type == "custom_tool_call"
        let namespace = item.json["namespace"]?.string
        self.init(
            name: name, namespace: namespace == ToolName.noGroup ? nil : namespace, callID: callID,
            arguments: item.json[isCustom ? "input" : "arguments"]?.string ?? "", isCustom: isCustom)
    }
}

/// A piece of a tool call's arguments, while the model writes them. See ``ChappieStreamEvent/toolArgumentsDelta(_:)``.
public struct ChappieToolArgumentsDelta: Sendable, Hashable, Codable {
    /// The backend's id of the call, as in ``ChappieToolCall/callID``.
    public var callID: String
    /// The name of the tool.
    public var name: String
    /// The namespace in which the tool was declared. Usually `nil`.
    public var namespace: String?
    /// The piece, never empty. It is a part of JSON for a function, and free text for a custom tool. Pieces of a call
    /// that arrive together are joined.
    public var delta: String

    /// Creates a piece with the given properties.
    public init(callID: String, name: String, namespace: String? = nil, delta: String) {
        self.callID = callID
        self.name = name
        self.namespace = namespace
        self.delta = delta
    }
}

/// A tool's answer to the model.
///
/// ```swift
/// ChappieToolResult(output: "21 °C")
/// ```
public struct ChappieToolResult: Sendable, Hashable, Codable, ExpressibleByStringInterpolation {
    /// The text that the model reads.
    public var output: String
    /// Images and other parts in addition to the text, in the form of the Responses API (`input_image`, …). Default
    /// none.
    public var parts: [ChappieJSONValue]
    /// Whether the tool failed. The model gets the output in either case. Default `false`.
    public var isError: Bool
    /// The pages that the output is from, for the answer's list of sources. The model does not get them. Default none.
    public var sources: [ChappieSource] {
        get { pages ?? [] }
        set { pages = newValue.isEmpty ? nil : newValue }
    }
    /// The stored ``sources``. They are optional, so that results without them can be decoded.
    private var pages: [ChappieSource]?
    /// The pictures among the ``parts``, without those that are given by an address.
    public var images: [ChappieGeneratedImage] { parts.compactMap(ChappieGeneratedImage.init(part:)) }

    private enum CodingKeys: String, CodingKey {
        case output, parts, isError
        case pages = "sources"
    }

    /// Creates a result with text, and optionally with other parts.
    public init(output: String, parts: [ChappieJSONValue] = [], isError: Bool = false) {
        self.output = output
        self.parts = parts
        self.isError = isError
    }

    /// Creates a result with text.
    public init(stringLiteral value: String) { self.init(output: value) }
}

/// A policy that specifies whether a tool may run without asking. Unknown values are kept.
public struct ChappieToolPolicy: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The tool runs whenever the model calls it.
    public static let automatic = ChappieToolPolicy(rawValue: "automatic")
    /// The tool runs if the approval handler approves. Without a handler it is denied.
    public static let ask = ChappieToolPolicy(rawValue: "ask")
    /// The tool never runs. An unknown policy counts as this one.
    public static let deny = ChappieToolPolicy(rawValue: "deny")
}

/// A tool call that is about to run. See ``ChappieStreamEvent/toolCallRequested(_:)``.
public struct ChappieToolExecutionRequest: Sendable, Hashable, Codable {
    /// The call in the model's form.
    public var call: ChappieToolCall
    /// The round of the turn, counted from 1.
    public var round: Int
    /// The steps that the call consists of, if the tool is one of the service's. Empty for other tools.
    public var steps: [ChappieServiceStep] {
        get { serviceSteps ?? [] }
        set { serviceSteps = newValue.isEmpty ? nil : newValue }
    }
    /// The stored ``steps``. They are optional, so that requests without them can be decoded.
    private var serviceSteps: [ChappieServiceStep]?

    private enum CodingKeys: String, CodingKey {
        case call, round
        case serviceSteps = "steps"
    }

    /// Creates a request with the given properties.
    public init(call: ChappieToolCall, round: Int = 1, steps: [ChappieServiceStep] = []) {
        self.call = call
        self.round = round
        self.steps = steps
    }
}

/// The result of a tool call, which the model gets. See ``ChappieStreamEvent/toolCallCompleted(_:)``.
public struct ChappieToolExecutionResult: Sendable, Hashable, Codable {
    /// The way in which a call ended. Unknown values are kept.
    public struct Outcome: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The handler ran and returned.
        public static let succeeded = Outcome(rawValue: "succeeded")
        /// The handler threw, took too long, or did not run because the arguments don't fit.
        public static let failed = Outcome(rawValue: "failed")
        /// The handler did not run, because the policy or the user denied it.
        public static let denied = Outcome(rawValue: "denied")
        /// The handler did not run, because the user answered in its place.
        public static let answered = Outcome(rawValue: "answered")
        /// The turn was interrupted, or the program ended, before the handler returned. The handler may have done its
        /// work or a part of it, or it did not run.
        public static let interrupted = Outcome(rawValue: "interrupted")
    }

    /// The call, with the arguments that were used. The user may have edited them.
    public var call: ChappieToolCall
    /// The way in which the call ended.
    public var outcome: Outcome
    /// The result that the model gets.
    public var result: ChappieToolResult
    /// The steps that the call consisted of, if the tool is one of the service's. Empty for other tools.
    public var steps: [ChappieServiceStep] {
        get { serviceSteps ?? [] }
        set { serviceSteps = newValue.isEmpty ? nil : newValue }
    }
    /// The stored ``steps``. They are optional, so that results without them can be decoded.
    private var serviceSteps: [ChappieServiceStep]?

    private enum CodingKeys: String, CodingKey {
        case call, outcome, result
        case serviceSteps = "steps"
    }

    /// Creates a result with the given properties.
    public init(
        call: ChappieToolCall, outcome: Outcome, result: ChappieToolResult, steps: [ChappieServiceStep] = []
    ) {
        self.call = call
        self.outcome = outcome
        self.result = result
        self.steps = steps
    }

    /// The text for the model.
    public var output: String { result.output }
}

/// A question to the user whether a tool may run.
public struct ChappieApprovalRequest: Sendable, Hashable, Codable, Identifiable {
    /// The call in the model's form.
    public var call: ChappieToolCall
    /// The tool's own description.
    public var toolDescription: String
    /// The tool's schema, for a form in which the user edits arguments.
    public var inputSchema: ChappieJSONValue
    /// Whether the tool has changed since the user approved all of its calls.
    public var hasChanged: Bool

    /// The call's id.
    public var id: String { call.callID }

    /// Creates a request with the given properties.
    public init(
        call: ChappieToolCall, toolDescription: String = "", inputSchema: ChappieJSONValue = .null,
        hasChanged: Bool = false
    ) {
        self.hasChanged = hasChanged
        self.call = call
        self.toolDescription = toolDescription
        self.inputSchema = inputSchema
    }
}

/// The user's answer to a ``ChappieApprovalRequest``.
public enum ChappieApprovalDecision: Sendable, Hashable, Codable {
    /// The range of an approval.
    public enum Scope: String, Sendable, Hashable, Codable {
        /// Only this call.
        case once
        /// Every further call of the tool in this client, until its context is cleared or another account signs in.
        case session
    }

    /// Run the call, optionally with arguments that the user has edited. For a custom tool they are a string, its text.
    case approved(arguments: ChappieJSONValue? = nil, scope: Scope = .once)
    /// Don't run the call. The model gets the reason.
    case denied(reason: String)
    /// Don't run the call. The model gets this text instead of the tool's output.
    case answered(output: String)
    /// The user can't answer now. Calls that need no answer run, and then the turn ends with
    /// `ChappieClientError.approvalPending`, which contains all data that another process needs to continue.
    case deferred
}
