@_spi(ChappieInternals) import ChappieCore

/// The endpoints.
enum Route: String, Sendable, Hashable {
    case userCode = "/api/accounts/deviceauth/usercode"
    case deviceToken = "/api/accounts/deviceauth/token"
    case verificationPage = "/codex/device"
    case token = "/oauth/token"
    case revoke = "/oauth/revoke"
    case accountsCheck = "/backend-api/wham/accounts/check"
    case usage = "/backend-api/wham/usage"
    case models = "/backend-api/codex/models"
    case responses = "/backend-api/codex/responses"

    var methods: [String] {
        switch self {
        case .userCode, .deviceToken, .token, .revoke: ["POST"]
        case .verificationPage, .responses: ["GET", "POST"]
        case .accountsCheck, .usage, .models: ["GET"]
        }
    }

    /// Whether it is behind a bearer token.
    var needsToken: Bool { rawValue.hasPrefix("/backend-api/") }
}

/// A request as the routes look at it.
struct BackendRequest: Sendable {
    /// Largest body after its content coding is off.
    static let bodyLimit = 64 * 1024 * 1024

    enum BodyFailure: Error, Sendable, Hashable { case malformed, tooLarge, unsupportedCoding }

    let received: ReceivedRequest
    let carrier: ScenarioMatch.Carrier
    /// Without the query.
    let path: String
    let query: FormFields

    init(_ received: ReceivedRequest, over carrier: ScenarioMatch.Carrier = .http) {
        self.received = received
        self.carrier = carrier
        let parts = received.target.utf8.split(separator: UInt8(ascii: "?"), maxSplits: 1)
        let path = parts.first.map { String(decoding: $0, as: UTF8.self) } ?? "/"
        // A proxy's absolute form (RFC 9112, 3.2.2) names the same resources.
        if path.lowercased().hasPrefix("http://") {
            self.path = String(path.dropFirst("http://".count).drop { $0 != "/" })
        } else {
            self.path = path
        }
        query = FormFields(parts.count > 1 ? Array(parts[1]) : [])
    }

    var method: String { received.method }
    var route: Route? { Route(rawValue: path == "/codex/device/" ? "/codex/device" : path) }
    func header(_ name: String) -> String? { received.header(name) }

    /// The media type without parameters, in lower case.
    var mediaType: String {
        (header("content-type") ?? "").split(separator: ";").first?.trimmed.lowercased() ?? ""
    }

    /// The body without its content coding.
    func decodedBody() throws(BodyFailure) -> [UInt8] {
        switch (header("content-encoding") ?? "identity").trimmed.lowercased() {
        case "identity", "": return received.body
        case "zstd":
            do throws(ZstdDecoder.Failure) {
                return try ZstdDecoder.decode(received.body, limit: Self.bodyLimit)
            } catch {
                throw error == .tooLarge ? .tooLarge : .malformed
            }
        default: throw .unsupportedCoding
        }
    }

    /// The body as JSON; `nil` when it is not.
    var json: ChappieJSON? { (try? decodedBody()).flatMap { try? ChappieJSON(parsing: $0) } }
}

/// A route's answer, before it becomes bytes and before a scenario changes it.
struct BackendResponse: Sendable {
    enum Body: Sendable {
        case bytes([UInt8])
        case events([StreamedEvent])
    }

    var status: Int
    var headers: [(String, String)]
    var body: Body

    static func json(_ value: ChappieJSON, status: Int = 200, headers: [(String, String)] = []) -> BackendResponse {
        BackendResponse(
            status: status, headers: [("content-type", "application/json")] + headers,
            body: .bytes(value.serializedBytes()))
    }

    static func html(_ text: String, status: Int = 200, headers: [(String, String)] = []) -> BackendResponse {
        BackendResponse(
            status: status, headers: [("content-type", "text/html; charset=utf-8")] + headers,
            body: .bytes(Array(text.utf8)))
    }

    static func empty(status: Int, headers: [(String, String)] = []) -> BackendResponse {
        BackendResponse(status: status, headers: headers, body: .bytes([]))
    }

    /// An error as this backend words most of them.
    static func error(
        _ status: Int, code: String, message: String, parameter: String? = nil, headers: [(String, String)] = []
    ) -> BackendResponse {
        let error: ChappieJSON = [
            "message": .string(message), "type": "invalid_request_error",
            "param": parameter.map(ChappieJSON.string) ?? .null, "code": .string(code),
        ]
        return json(["error": error, "status": .integer(status)], status: status, headers: headers)
    }

    /// Whether the status never has a body (RFC 9112, 6.3).
    var isBodyless: Bool { status == 204 || status == 304 }

    /// Sets a header field, replacing what was there.
    mutating func setHeader(_ name: String, _ value: String) {
        headers.removeAll { $0.0.lowercased() == name.lowercased() }
        headers.append((name, value))
    }
}

/// The backend without its sockets: requests in, responses out, nothing waits and nothing reads a clock.
///
/// The routes are in extensions, each beside the state that it uses.
struct Backend: Sendable {
    /// With the scenario's settings applied.
    let configuration: SimulatorConfiguration
    var identifiers = CountedIdentifiers()
    var authorizations: DeviceAuthorizations
    var tokens: TokenLedger
    /// The catalogues of the accounts that may not use every model, by id.
    private let catalogues: [String: ModelCatalogue]

    init(_ configuration: SimulatorConfiguration, issuer: String) {
        self.configuration = configuration
        catalogues = Dictionary(
            configuration.accounts.compactMap { account in account.models.map { (account.id, .init(only: $0)) } }
        ) { first, _ in first }
        authorizations = DeviceAuthorizations(approvesOnPoll: configuration.approvesOnPoll)
        tokens = TokenLedger(configuration, issuer: issuer)
    }

    /// - Parameters:
    ///   - now: Unix seconds.
    ///   - effect: how device sign-in and the model are to differ for this request.
    mutating func respond(
        to request: BackendRequest, now: Int, effect: ScenarioEffect = ScenarioEffect()
    ) -> BackendResponse {
        guard let route = request.route else { return .json(["detail": "Not Found"], status: 404) }
        guard route.methods.contains(request.method) else {
            let allowed = ("allow", route.methods.joined(separator: ", "))
            return .json(["detail": "Method Not Allowed"], status: 405, headers: [allowed])
        }
        if route.needsToken, let failure = tokens.check(authorization: request.header("authorization"), now: now) {
            return Self.unauthorized(failure)
        }
        let account = owner(of: request) ?? configuration.account
        if route.needsToken, let id = request.header("chatgpt-account-id"), id != account.id {
            return .error(
                403, code: "account_mismatch", message: "The account header names another account than the token.")
        }
        return switch route {
        case .userCode: userCode(request, now: now, device: effect.device)
        case .deviceToken: deviceToken(request, now: now, device: effect.device)
        case .verificationPage: verificationPage(request, now: now)
        case .token: token(request, now: now)
        case .revoke: revoke(request)
        case .accountsCheck: accountsCheck(of: account)
        case .usage: usage(of: account, now: now)
        case .models: models(request, for: account)
        case .responses where request.method == "GET": webSocket(request, for: account, now: now)
        case .responses: responses(request, for: account, now: now, divergesAfter: effect.divergesAfter)
        }
    }

    /// The account of the token that a request brings, in its header or, to the token endpoint, in its body; `nil` for
    /// an unknown token.
    func owner(of request: BackendRequest) -> SimulatorAccount? {
        switch request.route {
        case .token: fields(of: request)?("refresh_token").flatMap(tokens.owner(of:))
        case .revoke: fields(of: request)?("token").flatMap(tokens.owner(of:))
        default: TokenLedger.bearer(request.header("authorization")).flatMap(tokens.owner(of:))
        }
    }

    func catalogue(for account: SimulatorAccount) -> ModelCatalogue { catalogues[account.id] ?? .whole }
}
