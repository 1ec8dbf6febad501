import ChappieCore
import ChappieJSONSchema
import HTTPTypes

/// The parts of a request other than its input.
struct RequestFrame: Sendable, Hashable, Codable {
    var model: String
    var options = ChappieMessageOptions()
    /// The schema of the JSON that the answer must be, or `nil` for text.
    var outputSchema: ChappieJSONSchema?
    var toolChoice = ChappieToolChoice.automatic
    /// The tools of the service that the model may use.
    var serviceTools: [ChappieServiceTool]?
    /// The tools among them that the backend runs. A kept turn does not contain them.
    var hostedTools: [ChappieServiceTool] = []
    var serviceTier: String?
    /// The host's own header fields. A kept turn does not contain them.
    var headerFields: HTTPFields = [:]
    /// The declared tools, in the order of every turn. A kept turn does not contain them. It uses the tools that the
    /// program has when the turn is resumed.
    var tools: [ChappieJSON] = []
    /// Whether the model takes the form called "Responses lite", in which tools and instructions are part of the input.
    var isLite = false
    /// Whether the model may call several tools in one round.
    var allowsParallelCalls = true
    /// Whether the model takes pictures.
    var takesPictures = true
    /// The optional members that the model does not take according to the list.
    var unlisted: Set<String> = []
    /// The parts of this model's requests that the service has refused.
    var refused = RefusedParts()

    /// The optional members whose value the service has refused in this turn.
    var leftOutOnce: Set<String> = []

    /// The optional members that are not sent, with a dot between the names.
    var leftOut: Set<String> { unlisted.union(refused.members).union(leftOutOnce) }

    private enum CodingKeys: CodingKey { case model, options, outputSchema, serviceTools, serviceTier }

    /// Creates a request to this model. A request without a model gets one before it is sent.
    init(model: String = "", options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.model = model
        self.options = options
    }

    /// Declares the tools that the client runs, and then the backend's.
    mutating func declare(_ own: [ChappieJSON]) { tools = own + hostedTools.map(\.declaration) }

    /// Takes over the properties of the model that the request is sent to, and the parts that it refuses.
    mutating func adapt(to model: ChappieModel, refused: RefusedParts) {
        self.model = model.slug
        self.refused = refused
        // The lite form runs no tool of the backend (can1357/oh-my-pi#6988).
        isLite = model.usesResponsesLite && !refused.liteForm && hostedTools.isEmpty
        allowsParallelCalls = model.supportsParallelToolCalls
        takesPictures = model.inputModalities.contains("image")
        unlisted = model.membersNotTaken
    }

    /// Returns a notice for each part of the conversation or the request that the model does not take and that is left
    /// out.
    func leftOutNotices(in conversation: [ChappieJSON]) -> [ChappieNotice] {
        var notices: [ChappieNotice] = []
        if options.verbosity != nil, leftOut.contains("text.verbosity") { notices.append(.verbosityLeftOut(by: model)) }
        if !takesPictures, conversation.contains(where: RequestInput.hasImage) {
            notices.append(.picturesLeftOut(by: model))
        }
        if isLite, conversation.contains(where: RequestInput.hasImageByAddress) { notices.append(.imageByAddress) }
        return notices
    }

    /// The frame in the form that a kept turn contains.
    var withoutTools: RequestFrame {
        var frame = self
        frame.tools = []
        frame.hostedTools = []
        frame.headerFields = [:]
        frame.isLite = false
        frame.allowsParallelCalls = true
        frame.takesPictures = true
        frame.unlisted = []
        frame.refused = RefusedParts()
        frame.leftOutOnce = []
        return frame
    }
}

/// The backend's wire format that this client speaks.
@_spi(ChappieInternals) public enum WireFormat {
    /// The version by which the backend filters its model list. It refuses new models to an old version. The version
    /// names a format, not a program: `originator` and `user-agent` name the program.
    public static let version = "0.163.0"
}
