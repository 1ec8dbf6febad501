import ChappieCore
import ChappieJSONSchema
import HTTPTypes

/// The parts of a request beside its input.
struct RequestFrame: Sendable, Hashable, Codable {
    var model: String
    var options = ChappieMessageOptions()
    /// The JSON that the answer must be; `nil` for text.
    var outputSchema: ChappieJSONSchema?
    var toolChoice = ChappieToolChoice.automatic
    /// Tools of the backend.
    var hostedTools: [ChappieHostedTool]?
    var serviceTier: String?
    /// The host's own; a kept turn does not hold them.
    var headerFields: HTTPFields = [:]
    /// The tools as they are declared, in the order of every turn. A kept turn does not hold them: it uses the tools
    /// that the program has then.
    var tools: [ChappieJSON] = []
    /// Whether the model takes the form called "Responses lite": tools and instructions travel in the input.
    var isLite = false
    /// Whether the model may call several tools in one round.
    var allowsParallelCalls = true
    /// Whether the model takes pictures.
    var takesPictures = true
    /// Optional members that the model does not take according to the list.
    var unlisted: Set<String> = []
    /// The parts that the service has refused of this model's requests.
    var refused = RefusedParts()

    /// Optional members whose value the service has refused in this turn.
    var leftOutOnce: Set<String> = []

    /// The optional members that are not sent, with a dot between the names.
    var leftOut: Set<String> { unlisted.union(refused.members).union(leftOutOnce) }

    private enum CodingKeys: CodingKey { case model, options, outputSchema, hostedTools, serviceTier }

    /// Creates a request of this model; one without a name is given it before it is sent.
    init(model: String = "", options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.model = model
        self.options = options
    }

    /// Declares the tools that run here, and after them the backend's.
    mutating func declare(_ own: [ChappieJSON]) { tools = own + (hostedTools ?? []).map(\.declaration) }

    /// The frame as a kept turn holds it.
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
    /// The backend filters its model list by this version, and refuses new models to an old one. It names a format, not
    /// a program: `originator` and `user-agent` name the program.
    public static let version = "0.163.0"
}
