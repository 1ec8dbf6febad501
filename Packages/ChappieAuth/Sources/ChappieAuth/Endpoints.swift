public import ChappieCore
public import HTTPTypes

/// Where to sign in and talk, and as whom.
///
/// ```swift
/// let configuration = ChappieConfiguration(endpoints: .simulator(port: 8080))
/// ```
public struct ChappieEndpoints: Sendable, Hashable, Codable {
    /// The program's name for itself.
    public var registration: ChappieRegistration
    /// Where the requests go, and what they look like.
    public var profile: ChappieEndpointProfile

    /// Endpoints of this registration and profile.
    public init(registration: ChappieRegistration = ChappieRegistration(), profile: ChappieEndpointProfile) {
        self.registration = registration
        self.profile = profile
    }

    /// Other addresses that speak the same protocol. Final slashes don't matter.
    public init(issuer: URL, backend: URL, registration: ChappieRegistration = ChappieRegistration()) {
        self.init(registration: registration, profile: ChappieEndpointProfile(issuer: issuer, backend: backend))
    }

    /// A text that tells credentials of these addresses from others: ``CredentialSlot/issuer``. `nil` for ``chatGPT``.
    public var credentialIssuer: String? { CredentialOrigin(self).slotName }

    /// The service itself.
    public static let chatGPT = ChappieEndpoints(
        issuer: URL(string: "https://auth.openai.com") ?? URL(filePath: "/"),
        backend: URL(string: "https://chatgpt.com/backend-api") ?? URL(filePath: "/"))

    /// A simulator on this machine: `chappie simulator --auto-approve --port 8080`.
    ///
    /// - Parameter port: 1 to 65535. Default 8080.
    public static func simulator(port: Int = 8080) -> ChappieEndpoints {
        precondition((1...65_535).contains(port), "A port is a number from 1 to 65535.")
        let address = "http://127.0.0.1:\(port)"
        return ChappieEndpoints(
            issuer: URL(string: address) ?? URL(filePath: "/"),
            backend: URL(string: address + "/backend-api") ?? URL(filePath: "/"))
    }
}

/// The program's name for itself: the OAuth client, and the honest name it travels under.
public struct ChappieRegistration: Sendable, Hashable, Codable {
    /// The OAuth client id that device sign-in, exchange, refresh and revocation carry.
    public var clientID: String
    /// The value of the `originator` header: a short lower-case name of the program itself.
    public var originator: String
    /// The value of the `user-agent` header.
    public var userAgent: String
    /// An id of this installation for backends that ask for one. Default `nil`: none is made and none is sent.
    public var hostID: String?

    /// - Parameters:
    ///   - clientID: default is the public client of the ChatGPT device flow.
    ///   - originator: default `chappie`. Never another program's name.
    ///   - userAgent: default ``defaultUserAgent``. Characters that no header may hold are replaced by `_`.
    ///   - hostID: see ``hostID``. Default `nil`.
    public init(
        clientID: String = "app_EMoamEEZ73f0CkXaXp7hrann", originator: String = "chappie",
        userAgent: String = ChappieRegistration.defaultUserAgent, hostID: String? = nil
    ) {
        self.clientID = clientID
        self.originator = Self.headerSafe(originator)
        self.userAgent = Self.headerSafe(userAgent)
        self.hostID = hostID
    }

    /// `chappie/VERSION (SYSTEM; ARCHITECTURE)`.
    public static let defaultUserAgent = "chappie/\(ChappieVersion.current) (\(system); \(architecture))"

    private static func headerSafe(_ value: String) -> String {
        String(String.UnicodeScalarView(value.unicodeScalars.map { (0x20...0x7E).contains($0.value) ? $0 : "_" }))
    }

    #if os(Linux)
        private static let system = "Linux"
    #elseif os(macOS)
        private static let system = "macOS"
    #else
        private static let system = "Apple"
    #endif

    #if arch(x86_64)
        private static let architecture = "x86_64"
    #elseif arch(arm64)
        private static let architecture = "aarch64"
    #else
        private static let architecture = "unknown"
    #endif
}

/// The version of this source tree.
public enum ChappieVersion {
    /// Semantic version (semver.org 2.0).
    public static let current = "0.1.0"
}

/// One backend as it appears on the wire: where it is, what a request must and must not carry, what its errors mean.
///
/// Data, not code: another backend is another value.
public struct ChappieEndpointProfile: Sendable, Hashable, Codable {
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
    /// The meaning of error codes.
    public var errorTable: ChappieErrorTable
    /// How the Responses endpoint is spoken to over WebSocket; `nil` where it is not.
    public var webSocket: ChappieWebSocketProfile?

    /// The shapes of a tool declaration.
    public enum ToolEnvelope: String, Sendable, Hashable, Codable {
        /// `{"type":"function","name":…,"parameters":…}`, as the Responses API has it.
        case flatFunction
        /// `{"type":"function","function":{"name":…}}`, as the Chat Completions API has it.
        case nestedFunction
    }

    /// Paths below the two base addresses, each with its leading slash.
    public struct Paths: Sendable, Hashable, Codable {
        /// Where a device authorization begins.
        public var deviceUserCode = "/api/accounts/deviceauth/usercode"
        /// Where its state is asked for.
        public var deviceToken = "/api/accounts/deviceauth/token"
        /// The page where the user types the code.
        public var deviceVerification = "/codex/device"
        /// Where a browser would be sent back to.
        public var deviceCallback = "/deviceauth/callback"
        /// Where tokens are exchanged and renewed.
        public var token = "/oauth/token"
        /// Where a refresh token is revoked.
        public var revoke = "/oauth/revoke"
        /// Where turns are sent.
        public var responses = "/codex/responses"
        /// Where the models are listed.
        public var models = "/codex/models"
        /// Where the usage limits are read.
        public var usage = "/wham/usage"

        /// The default paths.
        public init() {}
    }

    /// The default profile.
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

    /// The address where a device authorization begins.
    public var deviceUserCodeURL: URL { Self.url(issuer, paths.deviceUserCode) }
    /// The address where its state is asked for.
    public var deviceTokenURL: URL { Self.url(issuer, paths.deviceToken) }
    /// The address of the page where the user types the code.
    public var deviceVerificationURL: URL { Self.url(issuer, paths.deviceVerification) }
    /// The address that a browser would be sent back to.
    public var deviceCallbackURL: URL { Self.url(issuer, paths.deviceCallback) }
    /// The address where tokens are exchanged and renewed.
    public var tokenURL: URL { Self.url(issuer, paths.token) }
    /// The address where a refresh token is revoked.
    public var revokeURL: URL { Self.url(issuer, paths.revoke) }
    /// The address that turns are sent to.
    public var responsesURL: URL { Self.url(backend, paths.responses) }
    /// The address of the list of models.
    public var modelsURL: URL { Self.url(backend, paths.models) }
    /// The address of the usage limits.
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

/// A backend's Responses endpoint over WebSocket.
public struct ChappieWebSocketProfile: Sendable, Hashable, Codable {
    /// Sent with the opening handshake, beside those of authorization.
    public var headerFields: HTTPFields
    /// The largest message that the backend takes, in bytes. Default 16 MiB, as the Codex CLI 0.163.0 bounds a frame.
    public var messageLimit: Int
    /// A connection this old is replaced before it is used again. Default 55 minutes: the ChatGPT backend ends one after
    /// 60, whether an answer is under way or not.
    public var lifetime: Duration

    /// A registration with these header fields.
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

/// The meaning of a backend's error codes, as data.
public struct ChappieErrorTable: Sendable, Hashable, Codable {
    /// The action that an error asks for.
    public enum Meaning: String, Sendable, Hashable, Codable {
        /// The plan's usage limit is reached, until it resets.
        case usageLimitReached
        /// The plan does not include the request, or its credit is used up; time alone changes nothing.
        case quotaExceeded
        /// Too many requests just now: worth another try after a pause.
        case rateLimited
        /// The conversation is longer than the model's window.
        case contextWindowExceeded
        /// The model has no capacity; another model may.
        case overloaded
        /// The request itself, or what it asks for, was refused; trying again changes nothing.
        case refused
        /// The backend has lost the thread of a WebSocket conversation; the sign-in is fine: the whole request on a new
        /// connection fixes it.
        case conversationLost
        /// The model is retired, or the account may not use it; another one may answer.
        case modelUnavailable
        /// Reasoning that was sent back can't be decrypted: the request without it may succeed.
        case unreadableReasoning
    }

    /// Meanings by `error.code` or `error.type`, lower case.
    public var meanings: [String: Meaning]

    /// A table of these meanings.
    public init(meanings: [String: Meaning]) { self.meanings = meanings }

    /// The meaning of the first code that has one.
    public func meaning(of codes: String?...) -> Meaning? {
        for case let code? in codes {
            if let meaning = meanings[code.lowercased()] { return meaning }
        }
        return nil
    }

    /// The codes of the ChatGPT/Codex backend.
    public static let chatGPT = ChappieErrorTable(meanings: [
        "usage_limit_reached": .usageLimitReached, "usage_not_included": .quotaExceeded,
        "insufficient_quota": .quotaExceeded, "credit_balance_exhausted": .quotaExceeded,
        "organization_spend_limit_exceeded": .quotaExceeded, "project_spend_limit_exceeded": .quotaExceeded,
        "organization_usage_limit_exceeded": .quotaExceeded,
        "rate_limit_exceeded": .rateLimited, "slow_down": .rateLimited,
        "context_length_exceeded": .contextWindowExceeded,
        "server_is_overloaded": .overloaded,
        "cyber_policy": .refused, "bio_policy": .refused, "misalignment_policy_violation": .refused,
        "invalid_prompt": .refused, "model_not_found": .modelUnavailable,
        "invalid_encrypted_content": .unreadableReasoning,
        "websocket_connection_limit_reached": .conversationLost, "previous_response_not_found": .conversationLost,
    ])
}
