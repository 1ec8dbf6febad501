/// A tool call of the model.
public struct ChappieToolCall: Sendable, Hashable, Codable {
    /// The name of the tool.
    public var name: String
    /// The namespace that the tool was declared in; `nil` for most.
    public var namespace: String?
    /// The backend's id of the call, which the result names.
    public var callID: String
    /// The arguments as the model wrote them: JSON in a string for a function, free text for a custom tool.
    public var arguments: String
    /// Whether the arguments are free text instead of JSON: a custom tool's.
    public var isCustom: Bool

    /// A call with the given properties.
    public init(
        name: String, namespace: String? = nil, callID: String, arguments: String = "{}", isCustom: Bool = false
    ) {
        self.name = name
        self.namespace = namespace
        self.callID = callID
        self.arguments = arguments
        self.isCustom = isCustom
    }

    /// ``arguments`` as JSON; `nil` when they are not. No arguments at all count as an empty object.
    public var argumentsJSON: ChappieJSONValue? {
        if isCustom { return nil }
        return arguments.utf8.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
            ? [:] : try? ChappieJSON(parsing: arguments)
    }

    /// ``arguments`` as a value of `type`.
    ///
    /// - Throws: `DecodingError`, with the coding path of what does not fit.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try ChappieJSONSchema.decoder.decode(type, from: Data((arguments.isEmpty ? "{}" : arguments).utf8))
    }
}

@_spi(ChappieInternals) extension ChappieToolCall {
    /// Reads a `function_call` or a `custom_tool_call`; `nil` for other items, and for a call that has no id to answer.
    public init?(_ item: ChappieOutputItem) {
        guard item.isToolCall, let name = item.name, let callID = item.callID, !callID.isEmpty else { return nil }
        let isCustom = item.type == "custom_tool_call"
        let namespace = item.json["namespace"]?.string
        // Tools that belong to no namespace stand in this one.
        self.init(
            name: name, namespace: namespace == "functions" ? nil : namespace, callID: callID,
            arguments: item.json[isCustom ? "input" : "arguments"]?.string ?? "", isCustom: isCustom)
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
    /// Images and other parts beside the text, as the Responses API takes them (`input_image`, …). Default none.
    public var parts: [ChappieJSONValue]
    /// Whether the tool failed; the model is told the output either way. Default `false`.
    public var isError: Bool

    /// A result of text, and maybe other parts.
    public init(output: String, parts: [ChappieJSONValue] = [], isError: Bool = false) {
        self.output = output
        self.parts = parts
        self.isError = isError
    }

    /// A result of text.
    public init(stringLiteral value: String) { self.init(output: value) }
}

/// Whether a tool may be run without asking; unknown values survive.
public struct ChappieToolPolicy: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Runs whenever the model calls it.
    public static let automatic = ChappieToolPolicy(rawValue: "automatic")
    /// Runs when the approval handler says so; without a handler it is denied.
    public static let ask = ChappieToolPolicy(rawValue: "ask")
    /// Never runs. An unknown policy counts as this one.
    public static let deny = ChappieToolPolicy(rawValue: "deny")
}

/// A tool call that is about to be made: ``ChappieStreamEvent/toolCallRequested(_:)``.
public struct ChappieToolExecutionRequest: Sendable, Hashable, Codable {
    /// The call as the model made it.
    public var call: ChappieToolCall
    /// The round of the turn that it belongs to, counted from 1.
    public var round: Int

    /// A request with the given properties.
    public init(call: ChappieToolCall, round: Int = 1) {
        self.call = call
        self.round = round
    }
}

/// How a tool call ended, and what the model was told: ``ChappieStreamEvent/toolCallCompleted(_:)``.
public struct ChappieToolExecutionResult: Sendable, Hashable, Codable {
    /// How a call ended; unknown values survive.
    public struct Outcome: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The handler ran and returned.
        public static let succeeded = Outcome(rawValue: "succeeded")
        /// The handler threw, took too long, or was never run because the arguments don't fit.
        public static let failed = Outcome(rawValue: "failed")
        /// The handler was not run: the policy or the user was against it.
        public static let denied = Outcome(rawValue: "denied")
        /// The handler was not run: the user answered in its place.
        public static let answered = Outcome(rawValue: "answered")
    }

    /// The call, with the arguments that were used: the user may have edited them.
    public var call: ChappieToolCall
    /// How it ended.
    public var outcome: Outcome
    /// What the model is told.
    public var result: ChappieToolResult

    /// A result with the given properties.
    public init(call: ChappieToolCall, outcome: Outcome, result: ChappieToolResult) {
        self.call = call
        self.outcome = outcome
        self.result = result
    }

    /// The text that the model is told.
    public var output: String { result.output }
}

/// A question to the user: may this tool be run?
public struct ChappieApprovalRequest: Sendable, Hashable, Codable, Identifiable {
    /// The call as the model made it.
    public var call: ChappieToolCall
    /// The tool's own description.
    public var toolDescription: String
    /// The tool's schema, for a form in which arguments are edited.
    public var inputSchema: ChappieJSONValue

    /// The call's id.
    public var id: String { call.callID }

    /// A request with the given properties.
    public init(call: ChappieToolCall, toolDescription: String = "", inputSchema: ChappieJSONValue = .null) {
        self.call = call
        self.toolDescription = toolDescription
        self.inputSchema = inputSchema
    }
}

/// The user's answer to a ``ChappieApprovalRequest``.
public enum ChappieApprovalDecision: Sendable, Hashable, Codable {
    /// How far an approval goes.
    public enum Scope: String, Sendable, Hashable, Codable {
        /// This call alone.
        case once
        /// Every further call of the tool in this client, until its context is cleared or another account signs in.
        case session
    }

    /// Run it, maybe with arguments that the user has edited.
    case approved(arguments: ChappieJSONValue? = nil, scope: Scope = .once)
    /// Don't run it; the model is told why.
    case denied(reason: String)
    /// Don't run it; the model is told this in place of the tool's output.
    case answered(output: String)
    /// Nobody can answer now. The calls that need no answer are carried out, then the turn ends with
    /// `ChappieClientError.approvalPending`, which holds everything that another process needs to go on.
    case deferred
}
