public import ChappieCore
public import FoundationEssentials

/// What one backend looks like on the wire: where it is, what a request must and must not carry, what its errors mean.
///
/// Data, not code: another backend is another value.
public struct ChappieEndpointProfile: Sendable, Hashable {
    /// The authorization server, without a final slash. Must be https, or http to loopback.
    public var issuer: URL
    /// The backend up to and including `/backend-api`, without a final slash.
    public var backend: URL
    /// Paths below ``issuer`` and ``backend``.
    public var paths: Paths
    /// How large request bodies of the Responses endpoint travel.
    public var requestCoding: HTTPExchangeRequest.Body.Coding
    /// Bodies below this many bytes travel as they are: compressing them saves no packet. Default 4096.
    public var requestCodingThreshold: Int
    /// Members that every Responses body carries, whatever the caller asked for.
    public var requiredBodyFields: ChappieJSONObject
    /// Members that the backend refuses; they are left out of every body.
    public var forbiddenBodyFields: Set<String>
    /// How a tool is declared in a request.
    public var toolEnvelope: ToolEnvelope
    /// What error codes mean.
    public var errorTable: ChappieErrorTable
    /// How the Responses endpoint is spoken to over WebSocket; `nil` where it is not.
    public var webSocket: ChappieWebSocketProfile?

    /// The shapes of a tool declaration.
    public enum ToolEnvelope: String, Sendable, Hashable {
        /// `{"type":"function","name":…,"parameters":…}`, as the Responses API has it.
        case flatFunction
        /// `{"type":"function","function":{"name":…}}`, as the Chat Completions API has it.
        case nestedFunction
    }

    /// Paths below the two base addresses, each with its leading slash.
    public struct Paths: Sendable, Hashable {
        public var deviceUserCode = "/api/accounts/deviceauth/usercode"
        public var deviceToken = "/api/accounts/deviceauth/token"
        public var deviceVerification = "/codex/device"
        public var deviceCallback = "/deviceauth/callback"
        public var token = "/oauth/token"
        public var revoke = "/oauth/revoke"
        public var responses = "/codex/responses"
        public var models = "/codex/models"
        public var usage = "/wham/usage"

        public init() {}
    }

    public init(
        issuer: URL, backend: URL, paths: Paths = Paths(),
        requestCoding: HTTPExchangeRequest.Body.Coding = .zstd, requestCodingThreshold: Int = 4096,
        requiredBodyFields: ChappieJSONObject = ChappieEndpointProfile.chatGPTRequiredFields,
        forbiddenBodyFields: Set<String> = ChappieEndpointProfile.chatGPTForbiddenFields,
        toolEnvelope: ToolEnvelope = .flatFunction, errorTable: ChappieErrorTable = .chatGPT,
        webSocket: ChappieWebSocketProfile? = .chatGPT
    ) {
        self.issuer = Self.withoutFinalSlash(issuer)
        self.backend = Self.withoutFinalSlash(backend)
        self.paths = paths
        self.requestCoding = requestCoding
        self.requestCodingThreshold = requestCodingThreshold
        self.requiredBodyFields = requiredBodyFields
        self.forbiddenBodyFields = forbiddenBodyFields
        self.toolEnvelope = toolEnvelope
        self.errorTable = errorTable
        self.webSocket = webSocket
    }

    /// `stream`, `store` and `include`, as the Codex CLI 0.163.0 always sends them.
    public static let chatGPTRequiredFields = ChappieJSONObject([
        ("stream", true), ("store", false), ("include", ["reasoning.encrypted_content"]),
    ])

    /// Sampling and length controls that the ChatGPT backend answers with 400.
    public static let chatGPTForbiddenFields: Set<String> = [
        "temperature", "top_p", "max_output_tokens", "metadata", "truncation", "user", "background",
    ]

    public var deviceUserCodeURL: URL { Self.url(issuer, paths.deviceUserCode) }
    public var deviceTokenURL: URL { Self.url(issuer, paths.deviceToken) }
    public var deviceVerificationURL: URL { Self.url(issuer, paths.deviceVerification) }
    public var deviceCallbackURL: URL { Self.url(issuer, paths.deviceCallback) }
    public var tokenURL: URL { Self.url(issuer, paths.token) }
    public var revokeURL: URL { Self.url(issuer, paths.revoke) }
    public var responsesURL: URL { Self.url(backend, paths.responses) }
    public var modelsURL: URL { Self.url(backend, paths.models) }
    public var usageURL: URL { Self.url(backend, paths.usage) }

    private static func url(_ base: URL, _ path: String) -> URL {
        // Both parts are valid alone, and a path never invalidates a base: the fallback is for the compiler.
        URL(string: base.absoluteString + path) ?? base
    }

    private static func withoutFinalSlash(_ url: URL) -> URL {
        var text = url.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        return URL(string: text) ?? url
    }
}
