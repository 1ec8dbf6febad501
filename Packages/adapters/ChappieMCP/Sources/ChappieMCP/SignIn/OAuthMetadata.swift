@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The reason why a sign-in at a tool server cannot continue.
struct OAuthRefusal: Error, Hashable {
    let code: ChappieMCPError.Code
    /// The reason as one clause about the server, without a full stop.
    let reason: String

    init(_ code: ChappieMCPError.Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    init(_ reason: String) { self.init(.signInFailed, reason) }

    /// Creates a refusal from a sentence.
    ///
    /// - Parameter sentence: a complete sentence with a capital letter and a full stop.
    init(_ code: ChappieMCPError.Code = .signInFailed, clause sentence: String) {
        let whole = sentence.hasSuffix(".") ? String(sentence.dropLast()) : sentence
        self.init(code, whole.prefix(1).lowercased() + whole.dropFirst())
    }
}

/// The addresses of a sign-in. All of them except the server's own address come from the network.
enum OAuthAddress {
    private static let limit = 2048

    /// Returns `text` as an address that the client may use for a server at `origin`, or `nil` if it may not use it.
    ///
    /// An address on this machine is usable only if the server is also on this machine. A server elsewhere must not send
    /// requests of this client to other programs on this machine. Every other address must have TLS.
    static func usable(_ text: String?, for origin: Origin) -> URL? {
        guard let text = UntrustedText.token(text, limit: limit), !text.contains("#"), let url = URL(string: text),
            let target = Origin(url)
        else { return nil }
        return (target.isLoopback ? origin.isLoopback : target.scheme == .https) ? url : nil
    }

    /// Returns the addresses at which a server's description may be, in order (RFC 9728, 3.1, followed by the root).
    static func descriptions(of server: URL) -> [URL] {
        let name = ".well-known/oauth-protected-resource"
        return unique([inserted(name, in: server, keepsQuery: true), inserted(name, in: root(of: server))])
    }

    /// Returns the addresses at which an authorization server's description may be, in order (RFC 8414, 3.1 and 5;
    /// OpenID Connect Discovery, 4).
    static func descriptions(ofIssuer issuer: URL) -> [URL] {
        let connect = ".well-known/openid-configuration"
        return unique([
            inserted(".well-known/oauth-authorization-server", in: issuer), inserted(connect, in: issuer),
            URL(string: "\(base(of: issuer))\(path(of: issuer))/\(connect)"),
        ])
    }

    /// Returns whether a description at `document` may be the description of `resource` for this server (RFC 9728,
    /// 3.3).
    ///
    /// The resource is the server, or it covers the server and is described at its own well-known address. Many servers
    /// describe only their origin, at the root of the host (mcp.slack.com, for example), and the protocol's other
    /// clients accept that. A description at another address must not claim more than the server. Otherwise a tenant of
    /// a host would get a token for the complete host.
    static func describes(_ resource: URL, _ server: URL, at document: URL?) -> Bool {
        guard covers(resource, server) else { return false }
        if path(of: resource) == path(of: server) { return true }
        guard let document, let own = descriptions(of: resource).first else { return false }
        return Origin(document) == Origin(own) && path(of: document) == path(of: own)
    }

    /// Returns whether a token for `resource` is also one for the server. Both must have the same origin, and the
    /// server's path must begin with the resource's path.
    static func covers(_ resource: URL, _ server: URL) -> Bool {
        guard let origin = Origin(resource), origin == Origin(server) else { return false }
        let (outer, inner) = (path(of: resource), path(of: server))
        return inner == outer || inner.hasPrefix(outer + "/")
    }

    private static func inserted(_ name: String, in url: URL, keepsQuery: Bool = false) -> URL? {
        let query = keepsQuery ? url.query(percentEncoded: true).map { "?" + $0 } ?? "" : ""
        return URL(string: "\(base(of: url))/\(name)\(path(of: url))\(query)")
    }

    private static func root(of url: URL) -> URL { URL(string: base(of: url)) ?? url }

    private static func base(of url: URL) -> String { Origin(url)?.description ?? "" }

    /// Returns the path without a slash at its end.
    private static func path(of url: URL) -> String {
        let path = url.path(percentEncoded: true)
        return path.hasSuffix("/") ? String(path.dropLast()) : path
    }

    private static func unique(_ urls: [URL?]) -> [URL] {
        urls.compactMap(\.self).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }
}

/// A server's description of itself as a protected resource (RFC 9728, 2).
struct OAuthResource: Sendable, Hashable {
    /// The identifier exactly as the server writes it, because the authorization server compares it.
    let identifier: String
    /// The first authorization server that can be used, exactly as the description names it.
    let issuer: String
    let issuerURL: URL
    let scopes: [String]?

    /// Reads a server's description.
    ///
    /// - Parameter document: The address of the description.
    init(_ json: ChappieJSON, of server: URL, at origin: Origin, from document: URL?) throws(OAuthRefusal) {
        guard let identifier = UntrustedText.token(json["resource"]?.string, limit: 2048),
            let resource = URL(string: identifier), OAuthAddress.covers(resource, server)
        else { throw OAuthRefusal("its description is of another server") }
        guard OAuthAddress.describes(resource, server, at: document) else {
            throw OAuthRefusal(
                "its description claims more than its own address (\(identifier)); its operator has to name "
                    + "\(server.absoluteString.prefix { $0 != "?" }) there")
        }
        let issuers = (json["authorization_servers"]?.array ?? []).prefix(16).compactMap(\.string)
        let usable = issuers.lazy.compactMap { text in OAuthAddress.usable(text, for: origin).map { (text, $0) } }.first
        guard let usable, usable.1.query() == nil else {
            throw OAuthRefusal(
                issuers.isEmpty
                    ? "its description names no authorization server"
                    : "its description names no authorization server that can be used: it must have TLS")
        }
        self.identifier = identifier
        (issuer, issuerURL) = usable
        scopes = json["scopes_supported"]?.array.map { OAuthScopes.usable($0.prefix(256).compactMap(\.string)) }
    }
}

/// An authorization server's description of itself (RFC 8414, 2; RFC 9207, 3).
struct OAuthServer: Sendable, Hashable {
    /// The way in which a client proves that it has registered (RFC 7591, 2).
    enum ClientProof: String, Sendable, Hashable {
        case none
        case post = "client_secret_post"
        case basic = "client_secret_basic"
    }

    let issuer: String
    let authorizationURL: URL
    let tokenURL: URL
    let registrationURL: URL?
    let revocationURL: URL?
    /// The proof to register with, or `nil` if the server accepts none that the client has.
    let proof: ClientProof?
    /// Whether answers in the browser name the server.
    let namesItself: Bool
    let offersOfflineAccess: Bool

    init(_ json: ChappieJSON, of resource: OAuthResource, at origin: Origin) throws(OAuthRefusal) {
        let host = Origin(resource.issuerURL)?.label ?? ""
        guard let issuer = json["issuer"]?.string, Self.isSame(issuer, resource.issuer) else {
            throw OAuthRefusal("the description of its authorization server \(host) is another one's")
        }
        func address(_ name: String) -> URL? { OAuthAddress.usable(json[name]?.string, for: origin) }
        guard let authorizationURL = address("authorization_endpoint"), let tokenURL = address("token_endpoint") else {
            throw OAuthRefusal("its authorization server \(host) has no address that can be used: it must have TLS")
        }
        func list(_ name: String) -> [String]? { json[name]?.array?.prefix(256).compactMap(\.string) }
        guard list("code_challenge_methods_supported")?.contains("S256") == true else {
            throw OAuthRefusal("its authorization server \(host) does not protect codes (PKCE with S256)")
        }
        guard list("response_types_supported")?.contains("code") ?? true,
            list("grant_types_supported")?.contains("authorization_code") ?? true
        else { throw OAuthRefusal("its authorization server \(host) has no sign-in through a browser") }
        self.issuer = issuer
        self.authorizationURL = authorizationURL
        self.tokenURL = tokenURL
        registrationURL = address("registration_endpoint")
        revocationURL = address("revocation_endpoint")
        let proofs = list("token_endpoint_auth_methods_supported")
        let known: [ClientProof] = [.none, .post, .basic]
        proof = proofs.map { proofs in known.first { proofs.contains($0.rawValue) } } ?? ClientProof.none
        namesItself = json["authorization_response_iss_parameter_supported"]?.bool == true
        offersOfflineAccess = list("scopes_supported")?.contains("offline_access") == true
    }

    /// Returns whether it is the issuer that the server has named. A slash at the end makes no difference.
    private static func isSame(_ found: String, _ named: String) -> Bool {
        found == named || found + "/" == named || found == named + "/"
    }
}
