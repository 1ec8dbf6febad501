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
    /// The tools of the backend.
    var hostedTools: [ChappieHostedTool]?
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

    private enum CodingKeys: CodingKey { case model, options, outputSchema, hostedTools, serviceTier }

    /// Creates a request to this model. A request without a model gets one before it is sent.
    init(model: String = "", options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.model = model
        self.options = options
    }

    /// Declares the tools that run here, and then the backend's.
    mutating func declare(_ own: [ChappieJSON]) { tools = own + (hostedTools ?? []).map(\.declaration) }

    /// The frame in the form that a kept turn contains.
    var withoutTools: RequestFrame {
        var frame = self
        frame.tools = []
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
