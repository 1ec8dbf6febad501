@_spi(ChappieInternals) import ChappieCore

/// The parts of the head of an HTTP request (RFC 9112, 2 to 5) that a callback needs. The request may be from any page
/// or program on this machine.
struct CallbackRequest: Sendable {
    static let maximumSize = 32 << 10

    let method: String
    /// The path of the request target, not decoded.
    let path: String
    /// The query of the request target, not decoded. It is empty if there is none.
    let query: String
    /// The value of each `Host` field.
    let hosts: [String]

    /// - Parameter head: The head, up to and including the empty line.
    /// - Returns: `nil` if this is not a request's head in its strict form, with an origin-form target.
    init?(_ head: [UInt8]) {
        guard head.count <= Self.maximumSize, head.suffix(4).elementsEqual("\r\n\r\n".utf8) else { return nil }
        var lines: [String] = []
        var rest = head.dropLast(2)[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let line = rest[..<end].dropLast()
            let isWhole = end > rest.startIndex && rest[end - 1] == UInt8(ascii: "\r")
            guard isWhole, line.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else { return nil }
            lines.append(String(decoding: line, as: UTF8.self))
            rest = rest[(end + 1)...]
        }
        guard rest.isEmpty, let first = lines.first else { return nil }
        let words = first.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, let target = UntrustedText.token(String(words[1]), limit: Self.maximumSize),
            target.hasPrefix("/"), !target.utf8.contains(UInt8(ascii: "#")),
            ["HTTP/1.1", "HTTP/1.0"].contains(String(words[2]))
        else { return nil }
        var hosts: [String] = []
        for line in lines.dropFirst() {
            // White space before the colon, and a line that continues another one, are not allowed (RFC 9112, 5).
            guard let colon = line.utf8.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                !line[..<colon].utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7F })
            else { return nil }
            if line[..<colon].lowercased() == "host" { hosts.append(line[line.index(after: colon)...].trimmed) }
        }
        let parts = target.utf8.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        method = String(words[0]) ?? ""
        path = String(parts[0]) ?? ""
        query = parts.count > 1 ? String(parts[1]) ?? "" : ""
        self.hosts = hosts
    }
}

/// The requests that reach the listener of one sign-in, and the first request that ends it.
///
/// Any page in the browser and any program on this machine may send requests. The state, which only the authorization
/// server and this sign-in know, marks the callback among all requests. A wrong state changes nothing.
@_spi(ChappieInternals) public struct CallbackRequests: Sendable {
    /// The values that the browser delivered.
    public struct Approval: Sendable {
        /// The authorization code.
        public let code: Secret
        /// The client id that the server has issued, as it arrived.
        public let clientID: String?
    }

    /// The authorization server that was asked, for comparison with answers that name their server (RFC 9207, 2.4).
    public struct Issuer: Sendable {
        let identifier: String
        let isNamed: Bool

        /// - Parameters:
        ///   - identifier: The identifier, which is compared byte by byte.
        ///   - isNamed: Whether the server has announced that its answers name it.
        public init(identifier: String, isNamed: Bool) {
            self.identifier = identifier
            self.isNamed = isNamed
        }

        func fits(_ found: [String]) -> Bool { found.isEmpty ? !isNamed : found == [identifier] }
    }

    /// The path of a page without parameters, so that no code stays in the address bar or in the browser's history.
    static let donePath = "/auth/done"
    private static let startPath = "/auth/start/"

    /// The host of the listener: `127.0.0.1` and the port.
    let host: String
    /// The host and the port in the redirect address.
    private let redirectHost: String
    let path: String
    let state: Secret
    private let issuer: Issuer?
    /// The outcome of the sign-in, or `nil` while it is awaited.
    private(set) var outcome: Result<Approval, ChappieAuthError>?
    /// Whether the browser has received its last page, or is on another machine.
    private(set) var hasShownEnd = false
    /// The address of the authorization server's page.
    var page: String?
    /// The paths that lead a browser to the page, each only once, and whether each was used.
    private var starts: [(path: Secret, isUsed: Bool)] = []

    /// - Parameters:
    ///   - port: The port of the listener.
    ///   - path: The path of the redirect address, which begins with a slash.
    ///   - state: The unpredictable state of the sign-in.
    ///   - issuer: The authorization server. An answer that names another one ends the sign-in. Default: answers name
    ///     none.
    ///   - host: The name of this machine in the redirect address. Default: 127.0.0.1.
    init(port: Int, path: String, state: Secret, issuer: Issuer? = nil, host name: String = "127.0.0.1") {
        host = "127.0.0.1:\(port)"
        redirectHost = "\(name):\(port)"
        self.path = path
        self.state = state
        self.issuer = issuer
    }

    /// The redirect address of the sign-in.
    var redirectURI: String { "http://\(redirectHost)\(path)" }

    /// Returns an address that leads a browser to the page once. Other users of the machine can see the arguments of a
    /// program, including those of a browser, and the page's own address contains the state and perhaps an identity
    /// token. They can also see this address, so it works only for requests of this user.
    mutating func start(_ name: Secret) -> String {
        starts.append((Secret(Self.startPath + name.text), false))
        return "http://\(host)\(Self.startPath)\(name.text)"
    }

    /// Handles the head of a request, and returns the complete response.
    ///
    /// - Parameter peer: The user who sent it. Only the addresses of ``start(_:)`` depend on it. A callback contains
    ///   the state, which no other user can know, and the user's browser may run as another user.
    mutating func answer(_ head: [UInt8], from peer: CallbackPeer) -> [UInt8] {
        guard let request = CallbackRequest(head) else { return Self.badRequest("The request can't be read.") }
        guard request.method == "GET" else {
            return Self.response("405 Method Not Allowed", ["Allow: GET"], "Only GET is allowed here.")
        }
        // Another host name belongs to a page that made the name resolve to this address (DNS rebinding).
        guard request.hosts == [host] || request.hosts == [redirectHost] else {
            return Self.badRequest("The request is for another host.")
        }
        if request.path == Self.donePath, request.query.isEmpty, outcome != nil {
            hasShownEnd = true
            return Self.response("200 OK", [], "You can close this page and return to the app.")
        }
        if let page, request.query.isEmpty, let index = starts.firstIndex(where: { $0.path == Secret(request.path) }) {
            guard peer != .anotherUser else {
                return Self.response("403 Forbidden", [], "This sign-in belongs to another user of this machine.")
            }
            guard !starts[index].isUsed else {
                return Self.response(
                    "410 Gone", [],
                    "This address was already used. Continue in the window that it opened, or open the address that the "
                        + "app shows.")
            }
            starts[index].isUsed = true
            let location = peer == .sameUser ? page : Self.withoutHints(page)
            return Self.response("303 See Other", ["Location: \(location)"], "Continue at the sign-in page.")
        }
        guard request.path == path else { return Self.response("404 Not Found", [], "There is nothing here.") }
        let wasOver = outcome != nil
        if let refusal = receive(request.query) { return Self.badRequest(refusal) }
        return wasOver
            ? Self.badRequest("This sign-in was already used.")
            : Self.response("303 See Other", ["Location: \(Self.donePath)"], "Return to the app.")
    }

    /// Accepts the address of the page that a browser on another machine could not open.
    ///
    /// - Throws: ``ChappieAuthError/wrongCallbackAddress(_:)``. The sign-in continues.
    mutating func paste(_ text: String) throws(ChappieAuthError) {
        let text = text.trimmed
        guard text.utf8.count <= CallbackRequest.maximumSize, text.utf8.starts(with: (redirectURI + "?").utf8) else {
            throw .wrongCallbackAddress(
                "This is not the address of the page after the approval, which begins with \(redirectURI)?")
        }
        let query = text.utf8.dropFirst(redirectURI.utf8.count + 1).prefix { $0 != UInt8(ascii: "#") }
        guard outcome == nil else { throw .wrongCallbackAddress("This sign-in was already used.") }
        if let refusal = receive(String(Substring(query))) { throw .wrongCallbackAddress(refusal) }
        hasShownEnd = true
    }

    /// Handles the query of a callback.
    ///
    /// - Returns: A message if it is not the callback of this sign-in, or `nil`.
    private mutating func receive(_ query: String) -> String? {
        guard let fields = FormFields(query) else { return "The address can't be read." }
        guard let found = fields.only("state"), Secret(found) == state else {
            return "This address is not of the sign-in that is waiting. Begin again in the app."
        }
        guard outcome == nil else { return nil }
        if let issuer, !issuer.fits(fields.all("iss")) {
            outcome = .failure(
                .authorizationDenied("The answer is from another sign-in service than the one that was asked."))
            return nil
        }
        if let error = fields.first("error") {
            outcome = .failure(Self.denial(error, description: fields.first("error_description")))
            return nil
        }
        let clientIDs = fields.all("client_id")
        guard let code = Secret(token: fields.only("code")), clientIDs.count <= 1 else {
            return "The address has no code, or more than one."
        }
        outcome = .success(Approval(code: code, clientID: clientIDs.first))
        return nil
    }

    private static func denial(_ error: String, description: String?) -> ChappieAuthError {
        if let code = [error, description ?? ""].first(where: { SignInObstacle(code: $0) != nil }),
            let obstacle = SignInObstacle(code: code)
        {
            return .authorizationDenied("The sign-in service refused (\(code)). \(obstacle.advice)")
        }
        if error == "access_denied" { return .authorizationDenied("The sign-in was not allowed in the browser.") }
        let words = [UntrustedText.message(description), UntrustedText.message(error, limit: 64).map { "(\($0))" }]
        return .authorizationDenied("The sign-in service refused: \(words.compactMap(\.self).joined(separator: " "))")
    }

    /// Returns the page's address without the identity of an earlier sign-in, for a user who can't be verified. The
    /// user then chooses the account on the page.
    private static func withoutHints(_ page: String) -> String {
        let parts = page.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return page }
        let fields = parts[1].split(separator: "&").filter { field in
            !["id_token_hint=", "login_hint="].contains { field.hasPrefix($0) }
        }
        return "\(parts[0])?\(fields.joined(separator: "&"))"
    }

    // MARK: Responses

    private static func badRequest(_ text: String) -> [UInt8] { response("400 Bad Request", [], text) }

    /// Returns a complete response with a page that shows `text`.
    ///
    /// - Parameter text: A text that needs no escapes in HTML.
    private static func response(_ status: String, _ fields: [String], _ text: String) -> [UInt8] {
        let page =
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Sign-in</title><p>\(text)</p></html>\n"
        let head =
            ["HTTP/1.1 \(status)"] + fields + [
                "Content-Type: text/html; charset=utf-8", "Content-Length: \(page.utf8.count)",
                "Cache-Control: no-store", "Referrer-Policy: no-referrer",
                "Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                "X-Content-Type-Options: nosniff", "Connection: close",
            ]
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n" + page).utf8)
    }
}
