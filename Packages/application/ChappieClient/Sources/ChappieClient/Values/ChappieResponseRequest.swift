public import ChappieCore
public import ChappieJSONSchema

/// A turn with more than one message, or with its own options.
public struct ChappieResponseRequest: Sendable, Hashable, Codable {
    /// The messages that are appended to the conversation in this order. Must not be empty.
    public var messages: [ChappieInputMessage]
    /// The user's own text, after which a thread is named, if the last message has it within a longer text.
    @_spi(ChappieInternals) public var question: String?
    /// The options that override those of the last message, where they are set.
    public var options: ChappieMessageOptions
    /// The slug of the model for only this turn. Default `nil`: the client's model.
    public var model: String?
    /// The schema that the answer must match. It is sent as a ``ChappieStrictSchema``, which also turns the answer into
    /// a value of the schema. A schema without such a form is the error
    /// ``ChappieClientError/unsupportedInput(_:_:)``. Default `nil`: the answer is text.
    public var outputSchema: ChappieJSONSchema?
    /// The tools of the backend that the model may use in this turn. Default: none. A tool that the model does not
    /// offer is the error ``ChappieClientError/unsupportedInput(_:_:)``.
    public var serviceTools: [ChappieServiceTool] {
        get { givenServiceTools ?? [] }
        set { givenServiceTools = newValue.isEmpty ? nil : newValue }
    }
    /// The stored value, which is optional like the next one, so that requests without it can be decoded.
    private var givenServiceTools: [ChappieServiceTool]?
    /// The rule for whether the model calls tools, and which ones. Default ``ChappieToolChoice/automatic``.
    public var toolChoice: ChappieToolChoice {
        get { choice ?? .automatic }
        set { choice = newValue == .automatic ? nil : newValue }
    }
    private var choice: ChappieToolChoice?
    /// The tier of service, by its id in `ChappieModel.serviceTiers`. Default `nil`: the usual tier. A tier that the
    /// model's entry does not list is the error ``ChappieClientError/unsupportedInput(_:_:)``.
    public var serviceTier: String?
    /// The maximum duration of the turn from the time when it begins, including its tools and the user's answers about
    /// them. A turn that takes longer ends with ``ChappieClientError/timeLimitExceeded(_:)``, and the conversation is
    /// unchanged. Default `nil`: no limit in addition to the network's own deadlines. A turn that is resumed later has
    /// no limit.
    public var timeLimit: Duration?
    /// The header fields for this turn's requests, by name, in addition to those of the client. Default none.
    ///
    /// Over WebSocket, header fields belong to the opening handshake. A turn with its own fields opens a separate
    /// connection, unless the last turn had the same fields. The turn after it opens another. A field that the client
    /// or the transport sets, such as `authorization`, and a name or a value that HTTP does not allow are the error
    /// ``ChappieClientError/unsupportedInput(_:_:)``. Records and pending turns don't contain the fields, because they
    /// may be secret. A turn that is resumed later runs without them.
    public var headerFields: [String: String] {
        get { fields ?? [:] }
        set { fields = newValue.isEmpty ? nil : newValue }
    }
    private var fields: [String: String]?
    /// Whether the pieces of the answer have no reader. This is not part of the value.
    var isUnseen: Bool {
        get { audience.isAbsent }
        set { audience.isAbsent = newValue }
    }
    private var audience = Audience()

    /// A note on how a request is sent. Requests that differ only in it are equal.
    private struct Audience: Hashable {
        var isAbsent = false

        static func == (one: Audience, other: Audience) -> Bool { true }
        func hash(into hasher: inout Hasher) {}
    }

    private enum CodingKeys: String, CodingKey {
        case messages, options, model, outputSchema, serviceTier, timeLimit
        case fields = "headerFields"
        case givenServiceTools = "serviceTools"
        case choice = "toolChoice"
    }

    /// Creates a request with these messages.
    public init(
        messages: [ChappieInputMessage], options: ChappieMessageOptions = ChappieMessageOptions(),
        model: String? = nil, outputSchema: ChappieJSONSchema? = nil, serviceTools: [ChappieServiceTool] = [],
        toolChoice: ChappieToolChoice = .automatic, serviceTier: String? = nil, timeLimit: Duration? = nil,
        headerFields: [String: String] = [:]
    ) {
        self.messages = messages
        self.options = options
        self.model = model
        self.outputSchema = outputSchema
        self.serviceTier = serviceTier
        self.timeLimit = timeLimit
        self.headerFields = headerFields
        self.serviceTools = serviceTools
        self.toolChoice = toolChoice
    }

    /// The options of the turn: the last message's, overridden by ``options``.
    @_spi(ChappieInternals) public var turnOptions: ChappieMessageOptions {
        var all = messages.last?.options ?? options
        if options.reasoningEffort != .automatic { all.reasoningEffort = options.reasoningEffort }
        all.verbosity = options.verbosity ?? all.verbosity
        return all
    }
}

extension ChappieTurnWork {
    /// Whether the pieces of the answer have no reader.
    var isUnseen: Bool { if case .new(let request) = self { request.isUnseen } else { false } }
}

extension RequestFrame {
    /// Creates the frame of a request.
    ///
    /// - Throws: ``ChappieClientError/unsupportedInput(_:_:)`` for a header field or a schema that can't be sent.
    init(of request: ChappieResponseRequest) throws(ChappieClientError) {
        try self.init(
            options: request.turnOptions, outputSchema: request.outputSchema, toolChoice: request.toolChoice,
            serviceTools: request.serviceTools, serviceTier: request.serviceTier)
        headerFields = try OwnHeaderFields.checked(request.headerFields)
    }

    /// Creates the frame of a request with these properties.
    ///
    /// - Throws: ``ChappieClientError/unsupportedInput(_:_:)`` for a schema that can't be sent.
    init(
        options: ChappieMessageOptions, outputSchema: ChappieJSONSchema?, toolChoice: ChappieToolChoice,
        serviceTools: [ChappieServiceTool], serviceTier: String?
    ) throws(ChappieClientError) {
        self.init(options: options)
        if let outputSchema {
            do throws(ChappieJSONSchemaError) {
                _ = try ChappieStrictSchema(outputSchema)
            } catch {
                throw .unsupportedInput(error.explanation, "Change the schema.")
            }
        }
        self.outputSchema = outputSchema
        self.toolChoice = toolChoice
        self.serviceTools = serviceTools.isEmpty ? nil : serviceTools
        self.serviceTier = serviceTier
    }
}
