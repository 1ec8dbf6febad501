public import HTTPTypes

/// What a backend's Responses endpoint is like over WebSocket.
public struct ChappieWebSocketProfile: Sendable, Hashable {
    /// Sent with the opening handshake, beside those of authorization.
    public var headerFields: HTTPFields
    /// The largest message that the backend takes, in bytes. Default 16 MiB, as the Codex CLI 0.163.0 bounds a frame.
    public var messageLimit: Int
    /// A connection this old is replaced before it is used again. Default 55 minutes: the ChatGPT backend ends one after
    /// 60, whether an answer is under way or not.
    public var lifetime: Duration

    public init(headerFields: HTTPFields = [:], messageLimit: Int = 16 << 20, lifetime: Duration = .seconds(55 * 60)) {
        self.headerFields = headerFields
        self.messageLimit = messageLimit
        self.lifetime = lifetime
    }

    /// The ChatGPT/Codex backend: the version of its frames is named in `openai-beta`.
    public static let chatGPT: ChappieWebSocketProfile = {
        guard let beta = HTTPField.Name("openai-beta") else { return ChappieWebSocketProfile() }
        return ChappieWebSocketProfile(headerFields: [beta: "responses_websockets=2026-02-06"])
    }()
}
