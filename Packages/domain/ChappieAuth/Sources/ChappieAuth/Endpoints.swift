public import ChappieCore
public import HTTPTypes

/// The addresses of the service, and the program's identity there.
///
/// ```swift
/// let configuration = ChappieConfiguration(endpoints: .simulator(port: 8080))
/// ```
public struct ChappieEndpoints: Sendable, Hashable, Codable {
    /// The identity under which the program sends requests.
    public var registration: ChappieRegistration
    /// The addresses of the requests, and their form.
    public var profile: ChappieEndpointProfile
    /// The way in which users sign in. Default: the device code.
    public var grant: ChappieGrant

    /// Creates endpoints with these values.
    public init(
        registration: ChappieRegistration = ChappieRegistration(), profile: ChappieEndpointProfile,
        grant: ChappieGrant = .deviceCode
    ) {
        self.registration = registration
        self.profile = profile
        self.grant = grant
    }

    /// Creates endpoints at other addresses with the same protocol. Trailing slashes are ignored.
    public init(issuer: URL, backend: URL, registration: ChappieRegistration = ChappieRegistration()) {
        self.init(registration: registration, profile: ChappieEndpointProfile(issuer: issuer, backend: backend))
    }

    /// The endpoints of the ChatGPT service.
    public static let chatGPT = ChappieEndpoints(
        issuer: URL(string: "https://auth.openai.com") ?? URL(filePath: "/"),
        backend: URL(string: "https://chatgpt.com/backend-api") ?? URL(filePath: "/"))
}

/// The program's identity: its OAuth client, and the program's own name, which it sends with requests.
public struct ChappieRegistration: Sendable, Hashable, Codable {
    /// The OAuth client id in requests for device sign-in, code exchange, refresh and revocation.
    public var clientID: String
    /// The value of the `originator` header: a short lower-case name of this program.
    public var originator: String
    /// The value of the `user-agent` header.
    public var userAgent: String
    /// An id of this installation for backends that require one. Default `nil`, which creates and sends no id.
    public var hostID: String?

    /// - Parameters:
    ///   - clientID: The OAuth client id. Default: the public client of the ChatGPT device flow.
    ///   - originator: The name of this program, never another program's. Default `chappie`.
    ///   - userAgent: The `user-agent` value. Default ``defaultUserAgent``. Characters that a header can't contain are
    ///     replaced by `_`.
    ///   - hostID: The id of this installation. Default `nil`.
    public init(
        clientID: String = "app_EMoamEEZ73f0CkXaXp7hrann", originator: String = "chappie",
        userAgent: String = ChappieRegistration.defaultUserAgent, hostID: String? = nil
    ) {
        self.clientID = clientID
        self.originator = Self.headerSafe(originator)
        self.userAgent = Self.headerSafe(userAgent)
        self.hostID = hostID
    }

    /// The default user agent: `chappie/VERSION (SYSTEM; ARCHITECTURE)`.
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
    /// The current version, a semantic version (semver.org 2.0).
    public static let current = "0.1.0"
}

/// The description of one backend: its addresses, the members that a request must and must not have, and the meaning of
/// its errors.
///
/// It is data, not code, so another backend is another value.
public struct ChappieEndpointProfile: Sendable, Hashable, Codable {
    /// The address of the authorization server, without a trailing slash. It must use https, or http to loopback.
    public var issuer: URL
    /// The backend's address up to and including `/backend-api`, without a trailing slash.
    public var backend: URL
    /// The paths below ``issuer`` and ``backend``.
    public var paths: Paths
    /// The content coding of large request bodies for the Responses endpoint.
    public var requestCoding: HTTPExchangeRequest.Body.Coding
    /// The size in bytes below which bodies are not compressed, because compression would save no packet. Default 4096.
    public var requestCodingThreshold: Int
    /// The members of every Responses body, whatever the caller sets.
    public var requiredBodyFields: ChappieJSONObject
    /// The members that the backend refuses. They are left out of every body.
    public var forbiddenBodyFields: Set<String>
    /// The roles of messages that the backend refuses. A turn with such a message fails before it is sent. Default
    /// none.
    public var refusedRoles: Set<String> = []
    /// Whether requests name the wire format, the conversation and the model in header fields, and the wire format in
    /// the query of the model list, as the ChatGPT/Codex backend requires. Default `true`.
    public var sendsCodexFields = true
    /// Whether a model that is listed for the form "Responses lite" gets requests in that form. Otherwise each model
    /// gets the form of the Responses API. Default `true`.
    public var takesResponsesLite = true
    /// Whether the backend compacts a conversation itself. Otherwise the model writes a summary. Default `true`.
    public var takesCompaction = true
    /// Whether models are ranked by the list's `priority`. Otherwise they keep the order of the list. Default `true`.
    public var ranksModels = true
    /// The page on which the user manages the usage of the plan, or `nil` if errors name no page. Default `nil`.
    public var usagePage: URL?
    /// The form of a tool declaration in a request.
    public var toolEnvelope: ToolEnvelope
    /// The meaning of error codes.
    public var errorTable: ChappieErrorTable
    /// The Responses endpoint over WebSocket, or `nil` if the backend has none.
    public var webSocket: ChappieWebSocketProfile?
    /// The sign-in through a browser on this machine, or `nil` if the service has ChatGPT's device flow.
    public var openID: ChappieOpenIDProfile?
    /// Whether requests to the backend have the header fields of the account, and `originator`. Default `true`. The
    /// fields of an account are `chatgpt-account-id`, `X-OpenAI-Fedramp` and the region of its workspace, if the
    /// account has them.
    public var sendsAccountFields: Bool

    /// The forms of a tool declaration.
    public enum ToolEnvelope: String, Sendable, Hashable, Codable {
        /// `{"type":"function","name":…,"parameters":…}`, the form of the Responses API.
        case flatFunction
        /// `{"type":"function","function":{"name":…}}`, the form of the Chat Completions API.
        case nestedFunction
        /// `{"type":"namespace","name":…,"tools":[…]}` around flat declarations. Tools without a namespace share one.
        /// If the backend refuses this form, the client continues with ``flatFunction``.
        case namespaces
    }

    /// The paths below the two base addresses, each with a leading slash.
    public struct Paths: Sendable, Hashable, Codable {
        /// The path that starts a device authorization.
        public var deviceUserCode = "/api/accounts/deviceauth/usercode"
        /// The path that returns the state of a device authorization.
        public var deviceToken = "/api/accounts/deviceauth/token"
        /// The path of the page on which the user types the code.
        public var deviceVerification = "/codex/device"
        /// The redirect address for a browser.
        public var deviceCallback = "/deviceauth/callback"
        /// The path of the page for ``ChappieGrant/browser``.
        public var authorize = "/oauth/authorize"
        /// The path that exchanges and renews tokens.
        public var token = "/oauth/token"
        /// The path that revokes a refresh token.
        public var revoke = "/oauth/revoke"
        /// The path that returns the user and the account of an access token (Codex CLI 0.163.0,
        /// `login --with-access-token`).
        public var whoAmI = "/api/accounts/v1/user-auth-credential/whoami"
        /// The path that receives the requests for turns.
        public var responses = "/codex/responses"
        /// The path of the list of models.
        public var models = "/codex/models"
        /// The path of the usage limits, or `nil` if the backend does not report them.
        public var usage: String? = "/wham/usage"
        /// The path that describes the user's workspaces and how requests for them are routed, or `nil` if the backend
        /// has none.
        public var accountsCheck: String? = "/wham/accounts/check"

        /// Creates the default paths.
        public init() {}
    }

    /// Creates a profile. The defaults are those of ChatGPT.
    public init(
        issuer: URL, backend: URL, paths: Paths = Paths(),
        requestCoding: HTTPExchangeRequest.Body.Coding = .zstd, requestCodingThreshold: Int = 4096,
        requiredBodyFields: ChappieJSONObject = ChappieEndpointProfile.chatGPTRequiredFields,
        forbiddenBodyFields: Set<String> = ChappieEndpointProfile.chatGPTForbiddenFields,
        toolEnvelope: ToolEnvelope = .flatFunction, errorTable: ChappieErrorTable = .chatGPT,
        webSocket: ChappieWebSocketProfile? = .chatGPT, openID: ChappieOpenIDProfile? = nil,
        sendsAccountFields: Bool = true
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
        self.openID = openID
        self.sendsAccountFields = sendsAccountFields
    }

    /// The members `stream`, `store` and `include`, which the Codex CLI 0.163.0 always sends.
    public static let chatGPTRequiredFields = ChappieJSONObject([
        ("stream", true), ("store", false), ("include", ["reasoning.encrypted_content"]),
    ])

    /// The members for sampling and length. The ChatGPT backend answers requests that have them with 400.
    public static let chatGPTForbiddenFields: Set<String> = [
        "temperature", "top_p", "max_output_tokens", "metadata", "truncation", "user", "background",
    ]

    /// The members that requests on the user's plan must not have: the documented fifteen, `previous_response_id` over
    /// HTTP, and three that the service refused in a trial. A chain over a WebSocket sets `previous_response_id` after
    /// these members are removed.
    public static let chatGPTPlanForbiddenFields: Set<String> = [
        "background", "conversation", "max_output_tokens", "max_tool_calls", "metadata", "moderation", "multi_agent",
        "prompt", "prompt_cache_retention", "safety_identifier", "temperature", "top_logprobs", "top_p", "truncation",
        "user", "previous_response_id", "prompt_cache_options", "prompt_cache_breakpoint", "service_tier",
    ]

    /// The address that starts a device authorization.
    public var deviceUserCodeURL: URL { Self.url(issuer, paths.deviceUserCode) }
    /// The address that returns the state of a device authorization.
    public var deviceTokenURL: URL { Self.url(issuer, paths.deviceToken) }
    /// The address of the page on which the user types the code.
    public var deviceVerificationURL: URL { Self.url(issuer, paths.deviceVerification) }
    /// The redirect address for a browser.
    public var deviceCallbackURL: URL { Self.url(issuer, paths.deviceCallback) }
    /// The address of the page for ``ChappieGrant/browser``.
    public var authorizeURL: URL { Self.url(issuer, paths.authorize) }
    /// The address of the endpoint that exchanges and renews tokens.
    public var tokenURL: URL { Self.url(issuer, openID?.tokenPath ?? paths.token) }
    /// The address of the endpoint that revokes a refresh token, unless discovery names another one.
    public var revokeURL: URL { Self.url(issuer, openID?.revokePath ?? paths.revoke) }
    /// The address that returns the owner of an access token.
    public var whoAmIURL: URL { Self.url(issuer, paths.whoAmI) }
    /// The address that receives the requests for turns.
    public var responsesURL: URL { Self.url(backend, paths.responses) }
    /// The address of the list of models.
    public var modelsURL: URL { Self.url(backend, paths.models) }
    /// The address of the usage limits, or `nil` if the backend does not report them.
    public var usageURL: URL? { paths.usage.map { Self.url(backend, $0) } }

    /// The address that describes the user's workspaces, or `nil` if the backend has none.
    public var accountsCheckURL: URL? { paths.accountsCheck.map { Self.url(backend, $0) } }

    static func url(_ base: URL, _ path: String) -> URL {
        // Each part is valid by itself, and a path never invalidates a base. Only the compiler needs the fallback.
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
    /// The header fields of the opening handshake, in addition to the fields for authorization.
    public var headerFields: HTTPFields
    /// The largest message that the backend accepts, in bytes. Default 16 MiB, the limit of a frame in the Codex CLI
    /// 0.163.0.
    public var messageLimit: Int
    /// The age after which a connection is replaced before it is used again. Default 55 minutes, because the ChatGPT
    /// backend ends a connection after 60 minutes, even during an answer.
    public var lifetime: Duration

    /// Creates a profile with these header fields.
    public init(headerFields: HTTPFields = [:], messageLimit: Int = 16 << 20, lifetime: Duration = .seconds(55 * 60)) {
        self.headerFields = headerFields
        self.messageLimit = messageLimit
        self.lifetime = lifetime
    }

    /// The profile of the ChatGPT/Codex backend. `openai-beta` names the version of its frames.
    public static let chatGPT: ChappieWebSocketProfile = {
        guard let beta = HTTPField.Name("openai-beta") else { return ChappieWebSocketProfile() }
        return ChappieWebSocketProfile(headerFields: [beta: "responses_websockets=2026-02-06"])
    }()
}

/// The meaning of a backend's error codes, as data.
public struct ChappieErrorTable: Sendable, Hashable, Codable {
    /// The kinds of errors that the client treats differently.
    public enum Meaning: String, Sendable, Hashable, Codable {
        /// The usage limit of the plan is reached. It resets later.
        case usageLimitReached
        /// The plan does not include the request, or its credit is used up. Waiting does not help.
        case quotaExceeded
        /// There are too many requests at present. Another attempt after a pause may succeed.
        case rateLimited
        /// The conversation is longer than the context window of the model.
        case contextWindowExceeded
        /// The model has no capacity. Another model may have some.
        case overloaded
        /// The request or its content was refused. Another attempt does not help.
        case refused
        /// The backend has lost the state of a WebSocket conversation. The sign-in is valid. Sending the complete
        /// request over a new connection helps.
        case conversationLost
        /// The model is retired, or the account may not use it. Another model may answer.
        case modelUnavailable
        /// The backend can't decrypt reasoning that was sent back. The request may succeed without it.
        case unreadableReasoning
        /// A limit of the plan, or of the app's share of it, is reached. The backend does not report which limit it is,
        /// or when it resets.
        case planLimitReached
        /// The user's plan, workspace or settings exclude the app's use of the plan.
        case planNotEligible
        /// The sign-in does not cover the use of the plan.
        case planNotAuthorized
        /// The service has not enabled the app.
        case appNotEnabled
        /// Plan use can't be checked or routed at the moment. The sign-in is valid, and a later attempt may succeed.
        case planUnavailable
        /// The service can't attribute the request to a user. A new sign-in is not known to help.
        case planUserUnknown
        /// The request has a member, a tool or an input that may not be used on the plan.
        case capabilityUnsupported
        /// The address or the method may not be used on the plan.
        case routeUnsupported
        /// The workspace of the sign-in can't be used. A sign-in in another workspace may help.
        case workspaceUnavailable
        /// A policy forbids the request, for example in the user's region.
        case policyForbids
        /// The access token has expired or is not valid any more. A renewed token helps.
        case accessTokenRefused
    }

    /// The meanings by `error.code` or `error.type`, in lower case.
    public var meanings: [String: Meaning]
    /// The meanings by the status of an answer whose body is `{"detail":…}` and names no known code. Default none.
    public var detailMeanings: [Int: Meaning]

    /// Creates a table of these meanings.
    public init(meanings: [String: Meaning], detailMeanings: [Int: Meaning] = [:]) {
        self.meanings = meanings
        self.detailMeanings = detailMeanings
    }

    /// Returns the meaning of the first code that has one, or `nil` if none has.
    public func meaning(of codes: String?...) -> Meaning? {
        for case let code? in codes {
            if let meaning = meanings[code.lowercased()] { return meaning }
        }
        return nil
    }

    /// The table of the ChatGPT/Codex backend.
    public static let chatGPT = ChappieErrorTable(meanings: [
        "usage_limit_reached": .usageLimitReached, "usage_not_included": .quotaExceeded,
        "insufficient_quota": .quotaExceeded, "credit_balance_exhausted": .quotaExceeded,
        "organization_spend_limit_exceeded": .quotaExceeded, "project_spend_limit_exceeded": .quotaExceeded,
        "organization_usage_limit_exceeded": .quotaExceeded,
        "workspace_owner_credits_depleted": .quotaExceeded, "workspace_member_credits_depleted": .quotaExceeded,
        "workspace_owner_usage_limit_reached": .usageLimitReached,
        "workspace_member_usage_limit_reached": .usageLimitReached,
        "rate_limit_exceeded": .rateLimited, "slow_down": .rateLimited,
        "context_length_exceeded": .contextWindowExceeded,
        "server_is_overloaded": .overloaded,
        "cyber_policy": .refused, "bio_policy": .refused, "misalignment_policy_violation": .refused,
        "invalid_prompt": .refused, "model_not_found": .modelUnavailable,
        "invalid_encrypted_content": .unreadableReasoning,
        "deactivated_workspace": .workspaceUnavailable, "workspace_deactivated": .workspaceUnavailable,
        "invalid_workspace_selected": .workspaceUnavailable,
        "websocket_connection_limit_reached": .conversationLost, "previous_response_not_found": .conversationLost,
    ])

    /// The table of the Responses API on the user's plan. The names that begin with `subscription_sharing_v2_` are
    /// older names of the same codes.
    public static let chatGPTPlan: ChappieErrorTable = {
        let sharing: [String: Meaning] = [
            "usage_limit_exceeded": .planLimitReached, "usage_unavailable": .planUnavailable,
            "user_unavailable": .planUnavailable, "user_not_eligible": .planNotEligible,
            "unsupported_capability": .capabilityUnsupported, "route_not_supported": .routeUnsupported,
            "invalid_user": .planUserUnknown, "client_not_enabled": .appNotEnabled,
        ]
        var meanings = chatGPT.meanings
        for (name, meaning) in sharing {
            meanings["subscription_sharing_" + name] = meaning
            meanings["subscription_sharing_v2_" + name] = meaning
        }
        meanings["chatpass_v2_scope_not_authorized"] = .planNotAuthorized
        meanings["chatpass_v2_invalid_authorization_context"] = .planNotAuthorized
        meanings["invalid_token"] = .accessTokenRefused
        return ChappieErrorTable(
            meanings: meanings,
            detailMeanings: [
                400: .capabilityUnsupported, 401: .planNotAuthorized, 403: .policyForbids, 503: .planUnavailable,
            ])
    }()
}
