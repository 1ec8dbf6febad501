public import ChappieCore

/// The addresses of the service, the way in which users sign in, and the program's identity there.
///
/// ```swift
/// let configuration = ChappieConfiguration(endpoints: .simulator(port: 8080))
/// ```
public struct ChappieEndpoints: Sendable, Hashable, Codable {
    /// The identity under which the program sends requests.
    public var registration: ChappieRegistration
    /// The way in which users sign in. ``ChappieGrant/continueWithChatGPT(appName:)`` also selects the public Responses
    /// API, which the user's plan pays for. The other grants are for the backend of ChatGPT's own programs.
    public var grant: ChappieGrant
    /// The address of the authorization server, without a trailing slash. It must use https, or http to loopback.
    public var issuer: URL { didSet { issuer = Self.withoutFinalSlash(issuer) } }
    /// The backend's address up to and including `/backend-api` or `/v1`, without a trailing slash. It must use https,
    /// or http to loopback.
    public var backend: URL { didSet { backend = Self.withoutFinalSlash(backend) } }
    /// Whether answers may be streamed over a WebSocket. Default `true`, and `false` for
    /// ``continueWithChatGPT(appName:)``, because no WebSocket is documented there.
    public var usesWebSocket: Bool
    /// The largest WebSocket message that the backend accepts, in bytes. Default 16 MiB, the limit of a frame in the
    /// Codex CLI 0.163.0.
    @_spi(ChappieInternals) public var webSocketMessageLimit = 16 << 20

    private init(
        issuer: URL, backend: URL, registration: ChappieRegistration, grant: ChappieGrant, usesWebSocket: Bool
    ) {
        self.registration = registration
        self.grant = grant
        self.issuer = Self.withoutFinalSlash(issuer)
        self.backend = Self.withoutFinalSlash(backend)
        self.usesWebSocket = usesWebSocket
    }

    /// Creates endpoints at other addresses with the protocol of ChatGPT. Trailing slashes are ignored.
    public init(issuer: URL, backend: URL, registration: ChappieRegistration = ChappieRegistration()) {
        self.init(
            issuer: issuer, backend: backend, registration: registration, grant: .deviceCode, usesWebSocket: true)
    }

    /// The endpoints of the ChatGPT service.
    public static let chatGPT = ChappieEndpoints(
        issuer: address("https://auth.openai.com"), backend: address("https://chatgpt.com/backend-api"))

    /// Returns the endpoints of "Continue with ChatGPT", the route for open-source programs that run on the user's
    /// machine. The user's plan pays, if the user allows it. It follows the documentation for such apps
    /// (developers.openai.com/siwc, October 2026).
    ///
    /// ```swift
    /// let configuration = ChappieConfiguration(endpoints: .continueWithChatGPT(appName: "My App"))
    /// ```
    /// - Parameter appName: The program's own name, under which it registers, 1 to 80 characters.
    public static func continueWithChatGPT(appName: String) -> ChappieEndpoints {
        ChappieEndpoints(
            issuer: address("https://auth.openai.com"), backend: address("https://api.openai.com/v1"),
            registration: ChappieRegistration(clientID: OpenID.bootstrapClientID),
            grant: .continueWithChatGPT(appName: appName), usesWebSocket: false)
    }

    /// Returns the endpoints of a simulator on this machine, such as `chappie simulator --auto-approve --port 8080`.
    ///
    /// - Parameters:
    ///   - port: The port of the simulator, 1 to 65535. Default 8080. An app for Apple's platforms also needs
    ///     `NSAllowsLocalNetworking` in its `Info.plist`.
    ///   - grant: The kind of sign-in. Default: the device code.
    public static func simulator(port: Int = 8080, grant: ChappieGrant = .deviceCode) -> ChappieEndpoints {
        precondition((1...65_535).contains(port), "A port is a number from 1 to 65535.")
        let simulator = "http://127.0.0.1:\(port)"
        var endpoints = chatGPT
        if case .continueWithChatGPT(let appName) = grant { endpoints = continueWithChatGPT(appName: appName) }
        endpoints.grant = grant
        endpoints.issuer = address(simulator)
        endpoints.backend = address(simulator + (endpoints.usesPlan ? "/v1" : "/backend-api"))
        return endpoints
    }

    private static func address(_ text: String) -> URL {
        // Every text is a valid address. Only the compiler needs the fallback.
        URL(string: text) ?? URL(filePath: "/")
    }

    private static func withoutFinalSlash(_ url: URL) -> URL {
        var text = url.absoluteString
        while text.hasSuffix("/") { text.removeLast() }
        return URL(string: text) ?? url
    }
}

// MARK: The addresses of requests

@_spi(ChappieInternals) extension ChappieEndpoints {
    /// Whether requests go to the public Responses API, which the user's plan pays for, and sign-ins to a server with
    /// OpenID Connect. Otherwise requests have the form of the ChatGPT/Codex backend.
    public var usesPlan: Bool { if case .continueWithChatGPT = grant { true } else { false } }

    /// The address that starts a device authorization.
    public var deviceUserCodeURL: URL { atIssuer("/api/accounts/deviceauth/usercode") }
    /// The address that returns the state of a device authorization.
    public var deviceTokenURL: URL { atIssuer("/api/accounts/deviceauth/token") }
    /// The address of the page on which the user types the code.
    public var deviceVerificationURL: URL { atIssuer("/codex/device") }
    /// The redirect address for a browser.
    public var deviceCallbackURL: URL { atIssuer("/deviceauth/callback") }
    /// The address of the page on which the user signs in with a browser.
    public var authorizeURL: URL { atIssuer(usesPlan ? "/api/accounts/authorize" : "/oauth/authorize") }
    /// The address of the endpoint that exchanges and renews tokens.
    public var tokenURL: URL { atIssuer(usesPlan ? "/api/accounts/oauth/token" : "/oauth/token") }
    /// The address of the endpoint that revokes a token. Discovery may name another address at the issuer's origin.
    public var revokeURL: URL { atIssuer(usesPlan ? "/api/accounts/oauth/revoke" : "/oauth/revoke") }
    /// The address of the server's discovery document, or `nil` for a server without OpenID Connect.
    public var discoveryURL: URL? { usesPlan ? atIssuer("/.well-known/openid-configuration") : nil }
    /// The address of the keys of identity tokens. Discovery may name another address at the issuer's origin.
    var keysURL: URL { atIssuer("/.well-known/jwks.json") }
    /// The address that returns the user and the account of an access token (Codex CLI 0.163.0,
    /// `login --with-access-token`).
    public var whoAmIURL: URL { atIssuer("/api/accounts/v1/user-auth-credential/whoami") }
    /// The address that receives the requests for turns.
    public var responsesURL: URL { atBackend(usesPlan ? "/responses" : "/codex/responses") }
    /// The address of the list of models.
    public var modelsURL: URL { atBackend(usesPlan ? "/models" : "/codex/models") }
    /// The address of the usage limits, or `nil` if the backend does not report them.
    public var usageURL: URL? { usesPlan ? nil : atBackend("/wham/usage") }
    /// The address of the credits that reset the limits, or `nil` if the backend has none.
    public var resetCreditsURL: URL? { usesPlan ? nil : atBackend("/wham/rate-limit-reset-credits") }
    /// The address that searches the web, or `nil` if the backend has none.
    public var searchURL: URL? { usesPlan ? nil : atBackend("/codex/alpha/search") }
    /// The address that makes pictures, or `nil` if the backend has none.
    public var imageGenerationsURL: URL? { usesPlan ? nil : atBackend("/codex/images/generations") }
    /// The address that changes pictures, or `nil` if the backend has none.
    public var imageEditsURL: URL? { usesPlan ? nil : atBackend("/codex/images/edits") }
    /// The address of the Model Context Protocol server of the user's connected apps, or `nil` if the backend has none.
    public var connectedAppsURL: URL? { usesPlan ? nil : atBackend("/ps/mcp") }
    /// The address that describes the user's workspaces and how requests for them are routed, or `nil` if the backend
    /// has none.
    public var accountsCheckURL: URL? { usesPlan ? nil : atBackend("/wham/accounts/check") }
    /// The page on which the user manages the usage of the plan, or `nil` if the backend reports the usage itself.
    public var usagePage: URL? { usesPlan ? URL(string: "https://chatgpt.com/settings/usage") : nil }

    private func atIssuer(_ path: String) -> URL { Self.address(issuer.absoluteString + path) }
    private func atBackend(_ path: String) -> URL { Self.address(backend.absoluteString + path) }
}

/// The values of the sign-in through a browser at a server with OpenID Connect discovery (RFC 8252), whose identity
/// tokens are verified.
@_spi(ChappieInternals) public enum OpenID {
    /// The API that the tokens are for (RFC 8707).
    static let resource = "https://api.openai.com/v1"
    /// The permissions that a sign-in asks for.
    public static let scopes = ["openid", "profile", "email", "offline_access", "resource.invoke", planScope]
    /// The permission to use the user's plan.
    public static let planScope = "chatgpt.tokens.use.direct"
    /// The client id of a program that has no registration yet. It is never sent to the token endpoint.
    static let bootstrapClientID = "dynamic_agent_client"
    /// The path on this machine to which the browser returns.
    static let callbackPath = "/auth/callback"
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
