@_spi(ChappieInternals) import ChappieCore

#if canImport(CZstd)
    import CZstd
#endif

/// An endpoint of the backend.
enum Route: String, Sendable {
    case userCode = "/api/accounts/deviceauth/usercode"
    case deviceToken = "/api/accounts/deviceauth/token"
    case verificationPage = "/codex/device"
    case token = "/oauth/token"
    case revoke = "/oauth/revoke"
    case whoAmI = "/api/accounts/v1/user-auth-credential/whoami"
    case accountsCheck = "/backend-api/wham/accounts/check"
    case usage = "/backend-api/wham/usage"
    case models = "/backend-api/codex/models"
    case responses = "/backend-api/codex/responses"
    case search = "/backend-api/codex/alpha/search"
    case imageGenerations = "/backend-api/codex/images/generations"
    case imageEdits = "/backend-api/codex/images/edits"
    case resetCredits = "/backend-api/wham/rate-limit-reset-credits"
    case consumeResetCredit = "/backend-api/wham/rate-limit-reset-credits/consume"
    case connectedApps = "/backend-api/ps/mcp"
    case discovery = "/.well-known/openid-configuration"
    case keys = "/.well-known/jwks.json"
    case clientAuthorize = "/oauth/authorize"
    case authorize = "/api/accounts/authorize"
    case planToken = "/api/accounts/oauth/token"
    case planRevoke = "/api/accounts/oauth/revoke"
    case planModels = "/v1/models"
    case planResponses = "/v1/responses"

    var methods: [String] {
        switch self {
        case .userCode, .deviceToken, .token, .revoke, .planToken, .planRevoke, .search, .imageGenerations, .imageEdits,
            .consumeResetCredit, .connectedApps:
            ["POST"]
        case .verificationPage, .responses, .clientAuthorize, .authorize, .planResponses: ["GET", "POST"]
        case .whoAmI, .accountsCheck, .usage, .models, .resetCredits, .discovery, .keys, .planModels: ["GET"]
        }
    }

    /// Whether it requires a bearer token of ChatGPT's backend.
    var needsToken: Bool { self == .whoAmI || rawValue.hasPrefix("/backend-api/") }
}

/// A request in the form that the routes use.
struct BackendRequest: Sendable {
    /// The largest size of a body in bytes, without its content coding.
    static let bodyLimit = 64 * 1024 * 1024

    let received: ReceivedRequest
    let carrier: ScenarioMatch.Carrier
    /// The path without the query.
    let path: String
    let query: [String: String]
    /// The fields of the query, including names that occur more than once.
    let queryItems: [FormItem]

    init(_ received: ReceivedRequest, over carrier: ScenarioMatch.Carrier = .http) {
        self.received = received
        self.carrier = carrier
        let parts = received.target.split(separator: "?", maxSplits: 1)
        let path = parts.first ?? "/"
        // A proxy's absolute form (RFC 9112, 3.2.2) names the same resources.
        let isAbsolute = path.lowercased().hasPrefix("http://")
        self.path = String(isAbsolute ? path.dropFirst("http://".count).drop { $0 != "/" } : path)
        queryItems = Self.formItems(parts.count > 1 ? String(parts[1]) : "")
        query = Self.firstFields(of: queryItems)
    }

    var method: String { received.method }
    var route: Route? { Route(rawValue: path == "/codex/device/" ? "/codex/device" : path) }
    func header(_ name: String) -> String? { received.header(name) }

    /// Returns the elements of a header field that is a list.
    func list(_ name: String, separator: Character = ",") -> [String] {
        (header(name) ?? "").split(separator: separator).map(\.trimmed)
    }

    /// Whether the body is a form.
    var isForm: Bool { list("content-type", separator: ";").first?.lowercased() == "application/x-www-form-urlencoded" }

    /// The body as JSON, or `nil` if it is not JSON.
    var json: ChappieJSON? { received.decodedBody.flatMap { try? ChappieJSON(parsing: $0) } }

    /// The fields of a form, or the strings of a JSON object. `nil` for another body.
    var fields: [String: String]? {
        if let formItems { return Self.firstFields(of: formItems) }
        let members = json?.object?.members
        return members.map { Dictionary($0.map { ($0.name, $0.value.string ?? "") }) { $1 } }?.filter { $0.value != "" }
    }

    /// The fields of a form in their order, or `nil` for another body.
    var formItems: [FormItem]? { isForm ? Self.formItems(String(decoding: received.body, as: UTF8.self)) : nil }

    /// Returns the fields of a form or a query (WHATWG URL, 5.1).
    private static func formItems(_ text: String) -> [FormItem] {
        let items = URLComponents(string: "?" + text.replacing("+", with: "%20"))?.queryItems ?? []
        return text.isEmpty ? [] : items.map { FormItem(name: $0.name, value: $0.value ?? "") }
    }

    private static func firstFields(of items: [FormItem]) -> [String: String] {
        Dictionary(items.map { ($0.name, $0.value) }) { first, _ in first }
    }
}

extension ReceivedRequest {
    /// The body without its zstd coding, or `nil` if it can't be decoded.
    public var decodedBody: [UInt8]? { try? decoded() }

    #if canImport(CZstd)
        private static let codings = "zstd, identity"
    #else
        // Apple's systems have no libzstd.
        private static let codings = "identity"
    #endif

    /// Returns the body without its content coding.
    ///
    /// - Throws: the answer to a body that can't be read.
    func decoded() throws(BackendResponse) -> [UInt8] {
        switch (header("content-encoding") ?? "identity").trimmed.lowercased() {
        case "identity", "": return body
        #if canImport(CZstd)
            case "zstd": return try decompressed()
        #endif
        default:
            throw .error(
                415, code: "unsupported_content_encoding", message: "The supported codings are: \(Self.codings).",
                headers: [("accept-encoding", Self.codings)])
        }
    }

    #if canImport(CZstd)
        private func decompressed() throws(BackendResponse) -> [UInt8] {
            var result = 0
            let output = [UInt8](unsafeUninitializedCapacity: BackendRequest.bodyLimit) { buffer, count in
                result = ZSTD_decompress(buffer.baseAddress, buffer.count, body, body.count)
                count = ZSTD_isError(result) == 0 ? result : 0
            }
            if ZSTD_isError(result) == 0 { return Array(output[...]) }
            guard String(cString: ZSTD_getErrorName(result)).contains("buffer is too small") else {
                throw .invalid("The body could not be decompressed.")
            }
            throw .error(
                413, code: "request_too_large", message: "The body has more than \(BackendRequest.bodyLimit) bytes.")
        }
    #endif
}

/// A field of a query or a form.
struct FormItem: Sendable, Hashable {
    let name: String
    let value: String
}

/// A route's answer, before it becomes bytes and before a scenario changes it.
struct BackendResponse: Error {
    enum Body: Sendable {
        case bytes([UInt8])
        case events([StreamedEvent])
    }

    var status = 200
    var headers: [(String, String)] = []
    var body = Body.bytes([])

    static func json(_ value: ChappieJSON, status: Int = 200, headers: [(String, String)] = []) -> BackendResponse {
        let type = ("content-type", "application/json")
        return BackendResponse(status: status, headers: [type] + headers, body: .bytes(value.serializedBytes()))
    }

    static func text(
        _ text: String, type: String, status: Int = 200, headers: [(String, String)] = []
    ) -> BackendResponse {
        let type = ("content-type", type + "; charset=utf-8")
        return BackendResponse(status: status, headers: [type] + headers, body: .bytes(Array(text.utf8)))
    }

    /// Returns an error in the form that this backend uses for most errors.
    static func error(
        _ status: Int, code: String, message: String, parameter: String? = nil, headers: [(String, String)] = []
    ) -> BackendResponse {
        let error = errorObject(code: code, message: message, parameter: parameter)
        return json(["error": error, "status": .integer(status)], status: status, headers: headers)
    }

    /// Returns a 400 with the message in both places that clients read.
    static func invalid(
        _ message: String, code: String = "invalid_request", parameter: String? = nil
    ) -> BackendResponse {
        let error = errorObject(code: code, message: message, parameter: parameter)
        return json(["detail": .string(message), "error": error], status: 400)
    }

    static func errorObject(code: String, message: String, parameter: String?) -> ChappieJSON {
        [
            "message": .string(message), "type": "invalid_request_error",
            "param": parameter.map(ChappieJSON.string) ?? .null, "code": .string(code),
        ]
    }

    /// Whether the status never has a body (RFC 9112, 6.3).
    var isBodyless: Bool { status == 204 || status == 304 }

    /// Sets a header field and replaces its earlier values. `nil` removes the field.
    mutating func setHeader(_ name: String, _ value: String?) {
        headers.removeAll { $0.0.lowercased() == name.lowercased() }
        if let value { headers.append((name, value)) }
    }
}

/// The backend without its sockets. It turns requests into responses, never waits, and reads no clock.
///
/// The routes are in extensions, each next to the state that it uses.
struct Backend: Sendable {
    /// The configuration, with the scenario's settings applied.
    let configuration: SimulatorConfiguration
    var authorizations: DeviceAuthorizations
    var tokens: TokenLedger
    var clientAuthorizations = ClientAuthorizations()
    var planAuthorizations = PlanAuthorizations()
    /// The number of turns of each app on the plan route, by its issued client id.
    var planTurns: [String: Int] = [:]
    /// The references of searches, by the id of the conversation.
    var searches: [String: SearchSession] = [:]
    /// The redeemed reset credits, by the id of the account.
    var redemptions: [String: Redemptions] = [:]
    let issuer: String
    let catalogue: ModelCatalogue
    /// The namespaces of the calls that were made, by their `call_id`.
    private(set) var callNamespaces: [String: String] = [:]
    private var counters: [String: Int] = [:]

    init(_ configuration: SimulatorConfiguration, issuer: String) {
        self.configuration = configuration
        self.issuer = issuer
        authorizations = DeviceAuthorizations(autoApprove: configuration.autoApprove)
        tokens = TokenLedger(configuration, issuer: issuer)
        catalogue = ModelCatalogue(asOf: configuration.asOf, listsRetired: configuration.listsRetiredModels)
    }

    /// Returns the response to a request.
    ///
    /// - Parameters:
    ///   - now: the current time in Unix seconds.
    ///   - effect: the changes to device sign-in and the model for this request.
    mutating func respond(
        to request: BackendRequest, now: Int, effect: ScenarioEffect = ScenarioEffect()
    ) -> BackendResponse {
        if effect.rotateKeys == true { tokens.rotateKeys() }
        if effect.endAccess == true { tokens.endAccess(of: request.header("authorization")) }
        if request.isOnPlanRoute { return plan(request, now: now, effect: effect) }
        guard let route = request.route else { return .json(["detail": "Not Found"], status: 404) }
        guard route.methods.contains(request.method) else {
            let allowed = ("allow", route.methods.joined(separator: ", "))
            return .json(["detail": "Method Not Allowed"], status: 405, headers: [allowed])
        }
        if route.needsToken, let failure = tokens.check(authorization: request.header("authorization"), now: now) {
            return Self.unauthorized(failure)
        }
        let account = owner(of: request) ?? configuration.account
        if route.needsToken, let id = request.header("chatgpt-account-id"), id != account.id || !account.isNamed {
            return .error(
                403, code: "account_mismatch", message: "The account header names another account than the token.")
        }
        if let refusal = refusal(of: request, to: route, in: account) { return refusal }
        return switch route {
        case .userCode: userCode(request, now: now, device: effect.device)
        case .deviceToken: deviceToken(request, now: now, device: effect.device)
        case .verificationPage: verificationPage(request, now: now)
        case .token: token(request, now: now)
        case .revoke: revoke(request)
        case .whoAmI: whoAmI(request, account)
        case .accountsCheck: accountsCheck(of: account)
        case .usage: usage(of: account, now: now)
        case .models: models(request, for: account)
        case .responses where request.method == "GET": webSocket(request, for: account, now: now)
        case .responses: responses(request, for: account, now: now, effect: effect)
        case .search: search(request)
        case .imageGenerations, .imageEdits: makeImage(request, now: now, effect: effect)
        case .resetCredits: resetCredits(of: account, now: now)
        case .consumeResetCredit: consumeResetCredit(request, for: account)
        case .connectedApps: connectedApps(request, of: account)
        case .discovery: discovery
        case .keys: .json(["keys": .array(tokens.publicKeys)], headers: [("cache-control", "max-age=300")])
        case .clientAuthorize: clientAuthorize(request, now: now)
        case .authorize: authorize(request, now: now, faults: effect.authorize)
        case .planToken: planToken(request, now: now, fault: effect.idToken)
        case .planRevoke: planRevoke(request)
        case .planModels, .planResponses: plan(request, now: now, effect: effect)
        }
    }

    /// Returns the account of a request's token, or `nil` for an unknown token. The token is in the header or, for the
    /// endpoints of tokens, in the body.
    func owner(of request: BackendRequest) -> SimulatorAccount? {
        switch request.route {
        case .token, .planToken: request.fields?["refresh_token"].flatMap(tokens.owner(of:))
        case .revoke, .planRevoke: request.fields?["token"].flatMap(tokens.owner(of:))
        default: TokenLedger.bearer(request.header("authorization")).flatMap(tokens.owner(of:))
        }
    }

    /// Stores the namespaces of the calls among `items`, which must come back unchanged.
    mutating func rememberCalls(_ items: [ChappieJSON]) {
        for item in items {
            guard let id = item["call_id"]?.string, let namespace = item["namespace"]?.string else { continue }
            callNamespaces[id] = namespace
        }
    }

    /// Returns an identifier that is counted from 1 for each prefix, with 32 digits. The same requests in the same
    /// order always get the same identifiers, and every answer to the same question has the same length.
    mutating func identifier(_ prefix: String) -> String {
        counters[prefix, default: 0] += 1
        let digits = String(counters[prefix, default: 0], radix: 16)
        return prefix + String(repeating: "0", count: max(0, 32 - digits.count)) + digits
    }
}

/// Returns `prefix` and 32 random bytes in base64url (43 characters), for values that must not be guessed.
func randomSecret(_ prefix: String = "") -> String {
    prefix + Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max) })
}
