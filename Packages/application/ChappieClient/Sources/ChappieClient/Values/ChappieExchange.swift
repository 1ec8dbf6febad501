@_spi(ChappieInternals) public import ChappieCore
public import ChappieJSONSchema

/// One exchange with the model, for programs that run tools and keep the conversation themselves.
///
/// ``ChappieClient/stream(_:)-(ChappieExchange)`` sends the items and streams the answer. It runs no tool and keeps
/// nothing. The next exchange has the same items, those of the answer, and new ones:
///
/// ```swift
/// var exchange = ChappieExchange(instructions: "You know the weather.", input: [], tools: [weather])
/// exchange.append(.user("Is it raining in Oslo?"))
/// for try await event in client.stream(exchange) {
///     guard case .completed(let response) = event else { continue }
///     exchange.append(response)
///     for call in response.toolCalls {
///         exchange.append(ChappieToolResult(output: "rain"), of: call)
///     }
/// }
/// ```
///
/// While the input only grows, and everything else stays the same, a WebSocket carries only the new items. An input that
/// was cut or edited is sent in full.
public struct ChappieExchange: Sendable, Hashable {
    /// The developer message before the input. Default `nil`: none. The configuration's harness is not sent.
    public var instructions: String?
    /// The items of the conversation in the form of the Responses API. Members and items that the service is known to
    /// refuse when it gets them back are left out of the request, such as empty reasoning.
    public var input: [ChappieJSONValue]
    /// The tools that the model may call. The client declares them in this order and never runs them. Calls arrive as
    /// items. Default: none. The client's own tools are not declared. A sign-in that takes fewer tools gets the first ones,
    /// and a notice names the others.
    public var tools: [ChappieHarnessTool]
    /// The slug of the model. Default `nil`: the model that the program has named for the client, or else the account's
    /// best. The conversation's model does not count.
    public var model: String?
    /// The amount of reasoning and the length of the answer. Default: the model's.
    public var options: ChappieMessageOptions
    /// The schema that the answer must match. See ``ChappieResponseRequest/outputSchema``. Default `nil`: the answer is
    /// text.
    public var outputSchema: ChappieJSONSchema?
    /// The rule for whether the model calls tools, and which ones. Default ``ChappieToolChoice/automatic``.
    public var toolChoice: ChappieToolChoice
    /// The tools that the backend runs during its answer. Default: none. Pictures are not possible, because the client
    /// would have to make them.
    public var serviceTools: [ChappieServiceTool]
    /// The tier of service. See ``ChappieResponseRequest/serviceTier``. Default `nil`: the usual tier.
    public var serviceTier: String?
    /// The maximum duration from the time when the exchange begins. See ``ChappieResponseRequest/timeLimit``. Default
    /// `nil`: no limit in addition to the network's own deadlines.
    public var timeLimit: Duration?

    /// Creates an exchange with these items and tools.
    public init(instructions: String? = nil, input: [ChappieJSONValue], tools: [ChappieHarnessTool] = []) {
        self.instructions = instructions
        self.input = input
        self.tools = tools
        options = ChappieMessageOptions()
        toolChoice = .automatic
        serviceTools = []
    }

    /// Adds a message to the input. The message's own options have no effect.
    public mutating func append(_ message: ChappieInputMessage) { input.append(message.inputItem) }

    /// Adds an answer to the input: its items, without those that the service does not take back. Of an answer that
    /// ended early, calls are left out too, and reasoning that led to nothing.
    public mutating func append(_ response: ChappieResponse) { input += Transcript.kept(of: response) }

    /// Adds the result of a call to the input.
    public mutating func append(_ result: ChappieToolResult, of call: ChappieToolCall) {
        input.append(ChappieToolExecutionResult(call: call, outcome: .succeeded, result: result).inputItem)
    }

    /// The instructions and the tools in the form in which a client has its own.
    var harness: ChappieHarness { ChappieHarness(name: "", instructions: instructions ?? "", tools: tools) }
}

extension ChappieResponse {
    /// The calls that the host of an exchange has to run, in order. Empty for an answer that ended early, whose calls
    /// ``ChappieExchange/append(_:)-(ChappieResponse)`` leaves out.
    public var toolCalls: [ChappieToolCall] {
        status == .completed ? items.compactMap(ChappieToolCall.init) : []
    }
}

// MARK: Checks

extension ChappieExchange {
    /// Checks the parts that the service refuses with any model.
    ///
    /// - Throws: ``ChappieClientError/unsupportedInput(_:_:)``, ``ChappieClientError/invalidTool(_:_:)``.
    func check() throws(ChappieClientError) {
        guard !input.isEmpty else {
            throw .unsupportedInput("The exchange has no input.", "Add a message to its input.")
        }
        try checkParts()
    }

    /// Checks an exchange whose input may be empty.
    func checkParts() throws(ChappieClientError) {
        try checkItems()
        try checkCalls()
        try checkTools()
    }

    private func checkItems() throws(ChappieClientError) {
        // A message may lack its type.
        let bad = input.firstIndex { $0["type"]?.string == nil && $0["role"]?.string == nil }
        guard let bad else { return }
        throw .unsupportedInput(
            "The element \(bad) of the exchange's input is not an item.",
            "Give an object with the type of an item, such as \"message\".")
    }

    /// Checks that each output follows its call, and that each call has an output.
    private func checkCalls() throws(ChappieClientError) {
        var calls: Set<String> = []
        var answered: Set<String> = []
        for item in input {
            let type = item["type"]?.string ?? ""
            let id = item["call_id"]?.string ?? ""
            if type.hasSuffix("_call") { calls.insert(id) }
            guard type == "function_call_output" || type == "custom_tool_call_output" else { continue }
            guard calls.contains(id) else {
                throw .unsupportedInput(
                    "The exchange's input has the output of the call \"\(shown(id))\", but not the call before it.",
                    "Leave out the output, or add the call.")
            }
            answered.insert(id)
        }
        let open = input.lazy.map(ChappieOutputItem.init).first { $0.isToolCall && !answered.contains($0.callID ?? "") }
        guard let id = open.map({ $0.callID ?? "" }) else { return }
        throw .unsupportedInput(
            "The exchange's input has the call \"\(shown(id))\" without its output.",
            "Add the output of the call, or leave out the call.")
    }

    private func checkTools() throws(ChappieClientError) {
        var names: Set<String> = []
        for tool in tools where !names.insert(tool.name).inserted {
            throw .invalidTool(tool.name, "another tool has the same name")
        }
        let chosen: (name: String, isCustom: Bool)? =
            switch toolChoice {
            case .function(let name): (name, false)
            case .custom(let name): (name, true)
            case .automatic, .none, .required: nil
            }
        if let chosen, !tools.contains(where: { $0.name == chosen.name && ($0.textFormat != nil) == chosen.isCustom }) {
            throw .unsupportedInput(
                "The exchange's tool choice names \"\(shown(chosen.name))\", which is not one of its tools.",
                "Add the tool, or name one of them.")
        }
        guard !serviceTools.contains(where: { $0.type == ServiceOutputs.image }) else {
            throw .unsupportedInput(
                "An exchange can't make pictures.", "Make them with generateImage, or ask for them in a turn.")
        }
    }

    private func shown(_ name: String) -> String { UntrustedText.forTerminal(String(name.prefix(100))) }
}

extension RequestFrame {
    /// Creates the frame of an exchange.
    ///
    /// - Throws: ``ChappieClientError/unsupportedInput(_:_:)`` for a schema that can't be sent.
    init(of exchange: ChappieExchange) throws(ChappieClientError) {
        try self.init(
            options: exchange.options, outputSchema: exchange.outputSchema, toolChoice: exchange.toolChoice,
            serviceTools: exchange.serviceTools, serviceTier: exchange.serviceTier)
    }
}
