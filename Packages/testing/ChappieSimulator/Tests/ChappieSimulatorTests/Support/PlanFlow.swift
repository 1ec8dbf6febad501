@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Synchronization

@testable import ChappieSimulator

/// An answer of the simulator without sockets.
struct PlanAnswer: Sendable {
    let status: Int
    let headers: [String: String]
    let body: String

    init(_ answer: ScriptedHTTPAnswer) {
        status = answer.status.code
        headers = Dictionary(answer.headerFields.map { ($0.name.canonicalName, $0.value) }) { first, _ in first }
        let bytes = answer.body.flatMap { step -> [UInt8] in
            if case .chunk(let bytes) = step { bytes } else { [] }
        }
        body = String(decoding: bytes, as: UTF8.self)
    }

    var json: ChappieJSON { (try? ChappieJSON(parsing: body)) ?? .null }
    /// The code of an error, in whichever form it came.
    var code: String? { json["error"]?.string ?? json["error"]?["code"]?.string }

    /// The data of every server-sent event.
    var events: [ChappieJSON] {
        body.split(separator: "\n").compactMap { line in
            line.hasPrefix("data: ") ? try? ChappieJSON(parsing: String(line.dropFirst(6))) : nil
        }
    }

    /// What the browser comes back with; empty if it doesn't.
    var callback: [FormItem] {
        let location = headers["location"].flatMap { URLComponents(string: $0) }
        return location?.queryItems?.map { FormItem(name: $0.name, value: $0.value ?? "") } ?? []
    }

    subscript(name: String) -> String? { callback.first { $0.name == name }?.value }
}

/// What a right client of the plan route sends, so that a test can change one thing of it.
final class PlanFlow: Sendable {
    typealias Fields = [(name: String, value: String)]

    static let issuer = "http://127.0.0.1:8080"
    static let redirect = "http://127.0.0.1:54321/auth/callback"
    static let resource = "https://api.openai.com/v1"
    static let hostID = "urn:uuid:0b5c1f0e-6b1d-4b7e-9d53-2f1f3c5a7e90"
    static let verifier = String(repeating: "v", count: 43)
    static let scopes = "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct"

    let core: SimulatorCore
    let clock = StillClock()
    private let count = Mutex(0)

    init(
        scenario: String? = nil, json: String? = nil, autoApprove: Bool = true,
        accounts: [SimulatorAccount] = []
    ) throws {
        var configuration = SimulatorConfiguration(autoApprove: autoApprove, otherAccounts: accounts, clock: clock)
        if let scenario { configuration.scenario = try SimulatorScenario(named: scenario) }
        if let json { configuration.scenario = try SimulatorScenario(parsing: json) }
        core = SimulatorCore(try configuration.validated())
        core.opened(issuer: Self.issuer)
    }

    func send(
        _ method: String, _ target: String, headers: Fields = [], form: Fields? = nil, body: ChappieJSON? = nil
    ) -> PlanAnswer {
        var fields = headers
        if !headers.contains(where: { $0.name == "host" }) { fields.append(("host", "127.0.0.1:8080")) }
        if form != nil { fields.append(("content-type", "application/x-www-form-urlencoded")) }
        if body != nil { fields.append(("content-type", "application/json")) }
        let bytes = body?.serializedBytes() ?? form.map { Array(Self.encoded($0).utf8) } ?? []
        let request = ReceivedRequest(method: method, target: target, headerFields: fields, body: bytes)
        return PlanAnswer(core.answer(request) { _ in "" }.inMemory)
    }

    private static func encoded(_ fields: Fields) -> String {
        fields.map { "\(escaped($0.name))=\(escaped($0.value))" }.joined(separator: "&")
    }

    private static func escaped(_ text: String) -> String {
        text.utf8.map { byte in
            byte.isBase64URL ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    /// Other values of some fields: `nil` takes one away, a new name adds one.
    static func changed(_ fields: Fields, _ changes: [(String, String?)]) -> Fields {
        var fields = fields
        for (name, value) in changes {
            let place = fields.firstIndex { $0.name == name }
            fields.removeAll { $0.name == name }
            if let value { fields.insert((name, value), at: place ?? fields.count) }
        }
        return fields
    }

    // MARK: Sign-in

    /// The parameters of the page: of a first registration, or of a client that has its id.
    func parameters(clientID: String? = nil, _ changes: [(String, String?)] = []) -> Fields {
        let number = count.withLock { count in
            count += 1
            return String(count)
        }
        let padding = String(repeating: "x", count: 43 - number.count)
        var fields: Fields = [
            ("client_id", clientID ?? "dynamic_agent_client"), ("agent_name_hint", "My App"),
            ("ext_agent_host_id", Self.hostID), ("response_type", "code"), ("redirect_uri", Self.redirect),
            ("scope", Self.scopes), ("resource", Self.resource), ("state", "state" + padding + number),
            ("nonce", "nonce" + padding + number), ("code_challenge_method", "S256"),
            ("code_challenge", Self.challenge(of: Self.verifier + number)),
        ]
        if clientID != nil { fields.removeAll { $0.name == "agent_name_hint" } }
        return Self.changed(fields, changes)
    }

    /// The verifier of the newest parameters.
    var newestVerifier: String { Self.verifier + count.withLock { String($0) } }

    static func challenge(of verifier: String) -> String { Base64URL.encode(SHA256.digest(Array(verifier.utf8))) }

    func authorize(_ fields: Fields, headers: Fields = []) -> PlanAnswer {
        send("GET", "/api/accounts/authorize?" + Self.encoded(fields), headers: headers)
    }

    func exchange(code: String?, clientID: String?, _ changes: [(String, String?)] = []) -> PlanAnswer {
        let fields: Fields = [
            ("grant_type", "authorization_code"), ("client_id", clientID ?? ""), ("code", code ?? ""),
            ("code_verifier", newestVerifier), ("redirect_uri", Self.redirect), ("resource", Self.resource),
        ]
        return send("POST", "/api/accounts/oauth/token", form: Self.changed(fields, changes))
    }

    func refresh(_ token: String?, clientID: String?, _ changes: [(String, String?)] = []) -> PlanAnswer {
        let fields: Fields = [
            ("grant_type", "refresh_token"), ("client_id", clientID ?? ""), ("refresh_token", token ?? ""),
            ("resource", Self.resource),
        ]
        return send("POST", "/api/accounts/oauth/token", form: Self.changed(fields, changes))
    }

    func revoke(_ token: String?, clientID: String?, _ changes: [(String, String?)] = []) -> PlanAnswer {
        let fields: Fields = [
            ("token", token ?? ""), ("token_type_hint", "refresh_token"), ("client_id", clientID ?? ""),
        ]
        return send("POST", "/api/accounts/oauth/revoke", form: Self.changed(fields, changes))
    }

    /// A sign-in from the page to the tokens.
    struct SignIn: Sendable {
        let clientID: String
        let tokens: ChappieJSON
        var accessToken: String { tokens["access_token"]?.string ?? "" }
        var refreshToken: String { tokens["refresh_token"]?.string ?? "" }
        var idToken: String { tokens["id_token"]?.string ?? "" }

        /// Header and claims of the ID token.
        var idTokenParts: [ChappieJSON] {
            idToken.split(separator: ".").prefix(2).map { part in
                Base64URL.decode(String(part)).flatMap { try? ChappieJSON(parsing: $0) } ?? .null
            }
        }
    }

    func signIn(clientID: String? = nil, _ changes: [(String, String?)] = []) -> SignIn {
        let callback = authorize(parameters(clientID: clientID, changes))
        let issued = clientID ?? callback["client_id"] ?? ""
        return SignIn(clientID: issued, tokens: exchange(code: callback["code"], clientID: issued).json)
    }

    // MARK: Requests

    /// A turn with nothing but what is needed, and these members.
    static func turn(_ text: String = "reply: Hello.", _ changes: [(String, ChappieJSON?)] = []) -> ChappieJSON {
        let message: ChappieJSON = [
            "type": "message", "role": "user", "content": [["type": "input_text", "text": .string(text)]],
        ]
        var body: ChappieJSONObject = ["model": "gpt-6-sol", "store": false, "stream": true, "input": [message]]
        for (name, value) in changes { body[name] = value }
        return .object(body)
    }

    func ask(_ body: ChappieJSON, _ token: String, headers: Fields = []) -> PlanAnswer {
        send("POST", "/v1/responses", headers: [("authorization", "Bearer " + token)] + headers, body: body)
    }

    /// A WebSocket of the plan route; `nil` if the handshake is refused.
    func webSocket(_ token: String) -> WebSocketTerms? {
        let fields: Fields = [
            ("authorization", "Bearer " + token), ("upgrade", "websocket"), ("sec-websocket-key", "x"),
            ("sec-websocket-version", "13"),
        ]
        let request = ReceivedRequest(method: "GET", target: "/v1/responses", headerFields: fields)
        return core.answer(request) { _ in "" }.terms
    }

    func get(_ path: String, _ token: String, headers: Fields = []) -> PlanAnswer {
        send("GET", path, headers: [("authorization", "Bearer " + token)] + headers)
    }
}
