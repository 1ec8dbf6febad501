@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A sign-in at a tool server, from the server's refusal to the tokens, sans-IO
/// (modelcontextprotocol.io/specification/2026-07-28/basic/authorization, and 2025-11-25, which it includes).
///
/// The caller carries out each step, and its result determines the next step. After an error the sign-in has ended.
struct OAuthFlow: Sendable {
    enum Step: Sendable {
        /// Send this request. ``OAuthFlow/received(_:at:)`` follows.
        case fetch(HTTPExchangeRequest)
        /// Listen for the browser. ``OAuthFlow/listening(_:)`` follows.
        case listen(CallbackRequests.Issuer)
        /// Show this page and wait for the browser. ``OAuthFlow/approved(_:)`` follows.
        case show(URL)
        case finish(OAuthGrant)
    }

    /// A list of addresses. The first address is being requested.
    private struct Candidates: Sendable {
        var urls: ArraySlice<URL>
        /// The reason why an earlier address could not be used.
        var refusal: OAuthRefusal?

        /// Returns the address to try after the first could not be used, or `nil` after the last address.
        mutating func next(after refusal: OAuthRefusal) -> URL? {
            if self.refusal == nil, refusal != OAuthFlow.nothing { self.refusal = refusal }
            urls = urls.dropFirst()
            return urls.first
        }
    }

    private enum Phase: Sendable {
        /// The server is asked without a token. The next phase is `describing`.
        case probing
        /// The server's description is being looked up. The next phase is `locating`.
        case describing(Candidates)
        /// The authorization server's description is being looked up. The next phase is `listening`.
        case locating(Candidates, OAuthResource)
        /// The next phase is `registering`, or `approving` with a client that its owner has registered.
        case listening(OAuthServer, OAuthResource)
        /// The next phase is `approving`.
        case registering(OAuthServer, OAuthResource, RedirectBinding)
        /// The user is at the authorization server's page. The next phase is `exchanging`.
        case approving(OAuthServer, OAuthResource, RedirectBinding, OAuthClient)
        /// The code is exchanged for tokens. The next phase is `over`.
        case exchanging(OAuthServer, OAuthResource, RedirectBinding, OAuthClient, secrets: [Secret])
        case over
    }

    private let server: URL
    private let origin: Origin
    private let clientID: String?
    private let registration: OAuthRegistration?
    private let clientName: String
    /// The permissions that the user requests, and later also the server's own.
    private var scopes: [String]
    /// Whether the server has named permissions in its refusal.
    private var isChallenged = false
    private var phase = Phase.probing

    /// Creates a sign-in at a tool server.
    ///
    /// - Parameters:
    ///   - clientID: The id of a client that its owner has registered, or `nil` to register.
    ///   - registration: The registration of an earlier sign-in, for the same issuer and redirect address. Default:
    ///     none.
    ///   - clientName: The name that the authorization server shows to the user.
    ///   - scopes: The permissions to request in addition to the server's own.
    init(
        server: URL, clientID: String?, registration: OAuthRegistration? = nil, clientName: String, scopes: [String]
    ) throws(OAuthRefusal) {
        do throws(ChappieTransportError) {
            origin = try Origin(of: server, for: .http)
        } catch {
            throw OAuthRefusal("its address can't be used: \(error.reason)")
        }
        self.server = server
        self.clientID = clientID
        self.registration = registration
        self.clientName = clientName
        self.scopes = OAuthScopes.usable(scopes)
    }

    /// The host of the authorization server, once it is known.
    var issuerLabel: String? {
        switch phase {
        case .approving(let server, _, _, _): Origin(server.authorizationURL)?.label
        default: nil
        }
    }

    /// Whether the next request exchanges the code for tokens. This request may be sent twice.
    var isExchanging: Bool { if case .exchanging = phase { true } else { false } }

    /// Begins with a request that a client without a token would send to the server.
    func start() -> Step {
        let hello: ChappieJSON = [
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": [
                "protocolVersion": .string(MCPSession.versions[0]), "capabilities": [:],
                "clientInfo": ["name": "chappie", "version": .string(ChappieVersion.current)],
            ],
        ]
        let fields: HTTPFields = [
            .accept: "application/json, text/event-stream", .contentType: "application/json",
        ]
        return .fetch(
            HTTPExchangeRequest(
                method: .post, url: server, headerFields: fields, body: .init(bytes: hello.serializedBytes())))
    }

    /// Processes the answer to the last request.
    mutating func received(_ answer: IssuerResponse, at now: Date) throws(OAuthRefusal) -> Step {
        let current = phase
        phase = .over
        switch current {
        case .probing: return try probed(answer)
        case .describing(var candidates):
            do throws(OAuthRefusal) {
                return try described(try Self.document(answer), at: candidates.urls.first)
            } catch {
                guard let next = candidates.next(after: error) else {
                    throw candidates.refusal ?? OAuthRefusal("it requires you to sign in, and does not specify where")
                }
                phase = .describing(candidates)
                return Self.get(next)
            }
        case .locating(var candidates, let resource):
            do throws(OAuthRefusal) {
                return try located(try Self.document(answer), resource)
            } catch {
                guard let next = candidates.next(after: error) else {
                    let host = Origin(resource.issuerURL)?.label ?? ""
                    throw candidates.refusal
                        ?? OAuthRefusal("its authorization server \(host) does not describe itself")
                }
                phase = .locating(candidates, resource)
                return Self.get(next)
            }
        case .registering(let server, let resource, let binding):
            guard let json = answer.document else {
                throw Self.refusal(of: answer, "its authorization server does not register this program", without: [])
            }
            let client = try OAuthClient(json, asked: server.proof ?? .none)
            return try approve(server, resource, binding, client)
        case .exchanging(let server, let resource, let binding, let client, let secrets):
            guard let json = answer.document else {
                throw Self.refusal(of: answer, "its authorization server gave no token", without: secrets)
            }
            return .finish(grant(try OAuthTokens(json), server, resource, binding, client, at: now))
        case .listening, .approving, .over: throw Self.misuse
        }
    }

    /// Continues after the program has started to wait for the browser.
    mutating func listening(_ binding: RedirectBinding) throws(OAuthRefusal) -> Step {
        guard case .listening(let server, let resource) = phase else { throw Self.misuse }
        if let clientID { return try approve(server, resource, binding, OAuthClient(id: clientID)) }
        if let registration, registration.issuer == server.issuer, registration.redirectURI == binding.redirectURI {
            return try approve(server, resource, binding, registration.client)
        }
        guard let url = server.registrationURL, let proof = server.proof else {
            phase = .over
            throw OAuthRefusal(
                "its authorization server registers no programs; register one there, and put its id into the manifest "
                    + "(\"oauth\": {\"clientId\": …})")
        }
        phase = .registering(server, resource, binding)
        return .fetch(registration(at: url, proof, binding))
    }

    /// Continues after the user has approved and the browser has delivered this code.
    mutating func approved(_ code: Secret) throws(OAuthRefusal) -> Step {
        guard case .approving(let server, let resource, let binding, let client) = phase else { throw Self.misuse }
        let secrets = [code, binding.verifier, client.secret].compactMap(\.self)
        phase = .exchanging(server, resource, binding, client, secrets: secrets)
        let fields = [
            ("grant_type", "authorization_code"), ("code", code.text), ("redirect_uri", binding.redirectURI),
            ("code_verifier", binding.verifier.text), ("resource", resource.identifier),
        ]
        return .fetch(client.form(fields, to: server.tokenURL))
    }

    // MARK: Steps

    private mutating func probed(_ answer: IssuerResponse) throws(OAuthRefusal) -> Step {
        guard answer.status == 401 else {
            throw OAuthRefusal(
                answer.isAccepted
                    ? "it wants no sign-in" : "it answers with status \(answer.status), and asks for no sign-in")
        }
        let challenge = OAuthChallenge(answer.headerFields)
        if let wanted = challenge.scopes {
            isChallenged = true
            scopes = OAuthScopes.usable(wanted + scopes)
        }
        var urls = OAuthAddress.descriptions(of: server)
        if let named = challenge.resourceMetadata {
            guard let url = OAuthAddress.usable(named, for: origin) else {
                throw OAuthRefusal("the address of its description can't be used: it must have TLS")
            }
            // Some frameworks serve the description of the origin at each path, so the root is the next place to look.
            urls = [url] + urls.suffix(1).filter { $0 != url }
        }
        guard let first = urls.first else {
            throw OAuthRefusal("it requires you to sign in, and does not specify where")
        }
        phase = .describing(Candidates(urls: urls[...]))
        return Self.get(first)
    }

    private mutating func described(_ json: ChappieJSON, at document: URL?) throws(OAuthRefusal) -> Step {
        let resource = try OAuthResource(json, of: server, at: origin, from: document)
        if !isChallenged, scopes.isEmpty { scopes = resource.scopes ?? [] }
        let urls = OAuthAddress.descriptions(ofIssuer: resource.issuerURL)
        guard let first = urls.first else { throw OAuthRefusal("its authorization server has no address") }
        phase = .locating(Candidates(urls: urls[...]), resource)
        return Self.get(first)
    }

    private mutating func located(_ json: ChappieJSON, _ resource: OAuthResource) throws(OAuthRefusal) -> Step {
        let server = try OAuthServer(json, of: resource, at: origin)
        // A refresh token spares the user the next sign-in.
        if server.offersOfflineAccess { scopes = OAuthScopes.usable(scopes + ["offline_access"]) }
        phase = .listening(server, resource)
        return .listen(CallbackRequests.Issuer(identifier: server.issuer, isNamed: server.namesItself))
    }

    private mutating func approve(
        _ server: OAuthServer, _ resource: OAuthResource, _ binding: RedirectBinding, _ client: OAuthClient
    ) throws(OAuthRefusal) -> Step {
        var fields = [
            ("response_type", "code"), ("client_id", client.id), ("redirect_uri", binding.redirectURI),
            ("state", binding.state.text), ("code_challenge", binding.challenge),
            ("code_challenge_method", "S256"), ("resource", resource.identifier),
        ]
        if !scopes.isEmpty { fields.append(("scope", scopes.joined(separator: " "))) }
        guard let url = server.authorizationURL.appending(query: fields) else {
            throw OAuthRefusal("the page of its authorization server has no usable address")
        }
        phase = .approving(server, resource, binding, client)
        return .show(url)
    }

    /// Returns the request that registers this program (RFC 7591, 3.1). The redirect address contains its port, because
    /// some servers compare the complete address.
    private func registration(
        at url: URL, _ proof: OAuthServer.ClientProof, _ binding: RedirectBinding
    ) -> HTTPExchangeRequest {
        var json: ChappieJSONObject = [
            "client_name": .string(clientName), "redirect_uris": [.string(binding.redirectURI)],
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "token_endpoint_auth_method": .string(proof.rawValue), "application_type": "native",
        ]
        if !scopes.isEmpty { json["scope"] = .string(scopes.joined(separator: " ")) }
        let fields: HTTPFields = [.contentType: "application/json", .accept: "application/json"]
        return HTTPExchangeRequest(
            method: .post, url: url, headerFields: fields,
            body: .init(bytes: ChappieJSON.object(json).serializedBytes()))
    }

    private func grant(
        _ tokens: OAuthTokens, _ server: OAuthServer, _ resource: OAuthResource, _ binding: RedirectBinding,
        _ client: OAuthClient, at now: Date
    ) -> OAuthGrant {
        OAuthGrant(
            server: self.server, resource: resource.identifier, issuer: server.issuer, tokenURL: server.tokenURL,
            revocationURL: server.revocationURL, client: client,
            redirectURI: clientID == nil ? binding.redirectURI : nil, scopes: tokens.scopes ?? scopes,
            accessToken: tokens.accessToken, refreshToken: tokens.refreshToken, renewAt: tokens.renewAt(from: now))
    }

    // MARK: Answers

    private static func get(_ url: URL) -> Step {
        .fetch(HTTPExchangeRequest(url: url, headerFields: [.accept: "application/json"]))
    }

    /// Returns the description in an answer. An address without a description is not an error, so the refusal then has
    /// no text.
    private static func document(_ answer: IssuerResponse) throws(OAuthRefusal) -> ChappieJSON {
        guard let json = answer.document else { throw nothing }
        return json
    }

    fileprivate static let nothing = OAuthRefusal("")
    private static let misuse = OAuthRefusal("its sign-in has ended")

    /// Returns a refusal with the authorization server's own message, if it has one (RFC 6749, 5.2; RFC 7591, 3.2.2).
    static func refusal(of answer: IssuerResponse, _ reason: String, without secrets: [Secret]) -> OAuthRefusal {
        let hidden = secrets.map(\.text)
        let words = UntrustedText.message(answer.object?["error_description"]?.string, without: hidden)
        let code = UntrustedText.message(answer.object?["error"]?.string, without: hidden, limit: 64)
        let said = [words, code.map { "(\($0))" }].compactMap(\.self).joined(separator: " ")
        return OAuthRefusal("\(reason): \(said.isEmpty ? "status \(answer.status)" : said)")
    }
}

extension IssuerResponse {
    /// Whether the server has accepted the request.
    var isAccepted: Bool { (200..<300).contains(status) }

    /// The answer to an accepted request, if it is a JSON object.
    var document: ChappieJSON? { isAccepted ? object.map { .object($0) } : nil }
}
