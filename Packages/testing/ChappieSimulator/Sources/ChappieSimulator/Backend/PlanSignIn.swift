@_spi(ChappieInternals) import ChappieCore

/// The user's decision whether apps may use the plan.
enum PlanUse: String, Codable, Sendable, Hashable {
    /// The use is granted at once, unless the user decides otherwise on the page.
    case granted
    /// The use is granted only after the app asks with `prompt=consent`.
    case untilConsent
    case never
}

/// The grant of a user to an app.
struct PlanGrant: Sendable, Hashable {
    static let planScope = "chatgpt.tokens.use.direct"
    static let scopes = ["openid", "profile", "email", "offline_access", "resource.invoke", planScope]
    static let resource = "https://api.openai.com/v1"
    /// The client id of a client that does not have its own id yet.
    static let bootstrapClientID = "dynamic_agent_client"

    let nonce: String
    let scopes: [String]
}

/// The request to which an app sends the browser, after every check.
struct PlanAuthorization: Sendable, Hashable {
    let items: [FormItem]
    /// The client id, or `nil` for a new registration.
    let clientID: String?
    /// The name of the app in a new registration.
    let appName: String
    let redirectURI: String
    let state: String
    let nonce: String
    let challenge: String
    let asksForConsent: Bool
    /// Whether the account is known without a page.
    let hasHint: Bool
}

/// The registered apps, and their sign-ins in progress.
struct PlanAuthorizations: Sendable {
    /// The lifetime of a page and of a code, in seconds.
    static let lifetime = 10 * 60

    struct Registration: Sendable {
        let appName: String
        /// The account to which the registration belongs permanently.
        let accountID: String
        var allowsPlan: Bool
    }

    private struct Code: Sendable {
        let clientID: String
        let authorization: PlanAuthorization
        let allowsPlan: Bool
        /// The time of expiry in Unix seconds.
        let expiresAt: Int
        var isUsed = false
    }

    private(set) var registrations: [String: Registration] = [:]
    /// The requests that wait for the user, by the id of their page.
    private var waiting: [String: (authorization: PlanAuthorization, expiresAt: Int)] = [:]
    private var codes: [String: Code] = [:]
    /// The used values of parameters that must be fresh, each with its request.
    private var seen: [String: [FormItem]] = [:]

    /// Returns whether no other request has used this value. The same page may be loaded again.
    func isFresh(_ value: String, in items: [FormItem]) -> Bool { seen[value].map { $0 == items } ?? true }

    /// Stores a request whose page is shown, and returns the id of the page.
    mutating func begin(_ authorization: PlanAuthorization, now: Int) -> String {
        for value in [authorization.state, authorization.nonce, authorization.challenge] {
            seen[value] = authorization.items
        }
        waiting = waiting.filter { $0.value.expiresAt > now }
        let id = randomSecret()
        waiting[id] = (authorization, now + Self.lifetime)
        return id
    }

    /// Removes the request that waits under `id`, and returns it unless it is unknown or has expired.
    mutating func end(_ id: String, now: Int) -> PlanAuthorization? {
        waiting.removeValue(forKey: id).flatMap { $0.expiresAt > now ? $0.authorization : nil }
    }

    /// Registers the app if it is new, and returns a code for it, after the user has agreed.
    mutating func approve(
        _ authorization: PlanAuthorization, accountID: String, allowsPlan: Bool, now: Int
    ) -> (code: String, clientID: String) {
        let clientID = authorization.clientID ?? randomSecret("oaiapp_")
        if authorization.clientID == nil {
            registrations[clientID] = Registration(
                appName: authorization.appName, accountID: accountID, allowsPlan: allowsPlan)
        }
        registrations[clientID]?.allowsPlan = allowsPlan
        let code = randomSecret("ac_")
        codes[code] = Code(
            clientID: clientID, authorization: authorization, allowsPlan: allowsPlan, expiresAt: now + Self.lifetime)
        return (code, clientID)
    }

    /// Redeems a code, which is possible only once (RFC 6749, 4.1.3; RFC 7636, 4.6), and returns the grant, or `nil` if
    /// any part of the request is wrong.
    mutating func redeem(
        _ code: String, clientID: String, redirectURI: String, verifier: String, now: Int
    ) -> PlanGrant? {
        guard let record = codes[code], !record.isUsed, record.expiresAt > now, record.clientID == clientID,
            record.authorization.redirectURI == redirectURI, (43...128).contains(verifier.utf8.count),
            Base64URL.encode(SHA256.digest(Array(verifier.utf8))) == record.authorization.challenge
        else { return nil }
        codes[code]?.isUsed = true
        let scopes = PlanGrant.scopes.filter { record.allowsPlan || $0 != PlanGrant.planScope }
        return PlanGrant(nonce: record.authorization.nonce, scopes: scopes)
    }
}

/// The faults with which the browser returns to an app.
struct AuthorizationFaults: Codable, Sendable, Hashable {
    /// The fault of the parameter `client_id`. Usually, it is the issued id of a new registration, and is missing for a
    /// registration that has its id.
    enum ClientID: String, Codable { case absent, repeated, other, bootstrap, malformed }

    /// The error that replaces the code.
    var error: String?
    var clientID: ClientID?
    var wrongState: Bool?
    /// The names of parameters that occur twice.
    var twice: [String]?
    /// Names of parameters that are missing.
    var missing: [String]?
    /// Additional parameters.
    var extra: [String: String]?
}

/// The reason for which a request for the page is refused.
private struct AuthorizationProblem: Error {
    var code = "invalid_request"
    let reason: String
}

extension Backend {
    /// Returns the page of the plan route. GET shows it or, if there is nothing to ask, sends the browser back. POST
    /// decides.
    mutating func authorize(_ request: BackendRequest, now: Int, faults: AuthorizationFaults?) -> BackendResponse {
        let host = request.header("host") ?? ""
        guard Self.namesThisMachine(authority: host) else { return page(VerificationPage.forbidden, status: 421) }
        guard request.method == "GET" else { return decide(request, host: host, now: now, faults: faults) }
        let authorization: PlanAuthorization
        do throws(AuthorizationProblem) {
            authorization = try checked(request.queryItems)
        } catch {
            // The browser isn't sent back, so that the fault of the client becomes visible.
            return page(VerificationPage.refusedAuthorization(code: error.code, reason: error.reason), status: 400)
        }
        let id = planAuthorizations.begin(authorization, now: now)
        let isAsked = authorization.asksForConsent || !authorization.hasHint
        guard isAsked, !configuration.autoApprove else {
            _ = planAuthorizations.end(id, now: now)
            return approve(authorization, accountID: nil, allowsPlan: nil, status: 302, now: now, faults: faults)
        }
        let known = authorization.clientID.flatMap { planAuthorizations.registrations[$0] }
        let html = VerificationPage.authorization(
            id: id, appName: known?.appName ?? authorization.appName,
            accounts: known == nil ? configuration.accounts : [])
        return page(html, formTargets: Self.formTargets)
    }

    /// The targets of the form, which include the app's listener.
    private static let formTargets = "'self' http://127.0.0.1:*"

    private mutating func decide(
        _ request: BackendRequest, host: String, now: Int, faults: AuthorizationFaults?
    ) -> BackendResponse {
        let isOwn = ["http://\(host)", "https://\(host)", nil].contains(request.header("origin"))
        let isFromThisSite = ["same-origin", "none", nil].contains(request.header("sec-fetch-site"))
        guard isOwn, isFromThisSite, request.isForm, let fields = request.fields else {
            return page(VerificationPage.forbidden, status: 403)
        }
        if let id = fields["account"], configuration.account(id: id) == nil {
            return page(VerificationPage.refusedAuthorization(code: "account", reason: "There is no such account."))
        }
        guard let action = fields["action"], ["approve", "deny"].contains(action),
            let authorization = planAuthorizations.end(fields["request"] ?? "", now: now)
        else {
            let reason = "No sign-in waits here. Go back to the app and start again."
            return page(VerificationPage.refusedAuthorization(code: "expired", reason: reason), status: 400)
        }
        if action == "deny" {
            let denied = [
                FormItem(name: "error", value: "access_denied"), FormItem(name: "state", value: authorization.state),
            ]
            return Self.back(to: authorization.redirectURI, denied, status: 303)
        }
        return approve(
            authorization, accountID: fields["account"], allowsPlan: fields["plan"] == "on", status: 303, now: now,
            faults: faults)
    }

    private mutating func approve(
        _ authorization: PlanAuthorization, accountID: String?, allowsPlan isTicked: Bool?, status: Int, now: Int,
        faults: AuthorizationFaults?
    ) -> BackendResponse {
        let known = authorization.clientID.flatMap { planAuthorizations.registrations[$0] }
        let wasAllowed = known?.allowsPlan ?? false
        let allowsPlan =
            switch configuration.planUse {
            case .never: false
            case .untilConsent: authorization.asksForConsent ? isTicked ?? true : wasAllowed
            case .granted: isTicked ?? (known == nil || authorization.asksForConsent || wasAllowed)
            }
        let (code, clientID) = planAuthorizations.approve(
            authorization, accountID: known?.accountID ?? accountID ?? configuration.account.id,
            allowsPlan: allowsPlan, now: now)
        var items = [FormItem(name: "code", value: code)]
        if let error = faults?.error { items = [FormItem(name: "error", value: error)] }
        let state = faults?.wrongState == true ? randomSecret() : authorization.state
        items.append(FormItem(name: "state", value: state))
        let named: String? =
            switch faults?.clientID {
            case nil: known == nil ? clientID : nil
            case .absent: nil
            case .repeated: clientID
            case .other: "oaiapp_other"
            case .bootstrap: PlanGrant.bootstrapClientID
            case .malformed: "oaiapp_<script>"
            }
        if let named { items.append(FormItem(name: "client_id", value: named)) }
        items.append(FormItem(name: "scope", value: PlanGrant.scopes.joined(separator: " ")))
        items += (faults?.extra ?? [:]).sorted { $0.key < $1.key }.map { FormItem(name: $0.key, value: $0.value) }
        items.removeAll { faults?.missing?.contains($0.name) == true }
        items += items.filter { faults?.twice?.contains($0.name) == true }
        return Self.back(to: authorization.redirectURI, items, status: status)
    }

    /// Returns a response that sends the browser back to the program that waits for it.
    static func back(to redirectURI: String, _ items: [FormItem], status: Int) -> BackendResponse {
        var components = URLComponents(string: redirectURI)
        components?.queryItems = items.map { URLQueryItem(name: $0.name, value: $0.value) }
        return BackendResponse(
            status: status,
            headers: [
                ("location", components?.string ?? redirectURI), ("cache-control", "no-store"),
                ("referrer-policy", "no-referrer"),
            ])
    }

    // MARK: Checks

    /// Returns the request if each of its parameters is present once and correct.
    private func checked(_ items: [FormItem]) throws(AuthorizationProblem) -> PlanAuthorization {
        var values: [String: String] = [:]
        for item in items {
            try demand(Self.parameters.contains(item.name), "\(item.name.prefix(40)) is not a parameter of this page.")
            try demand(values.updateValue(item.value, forKey: item.name) == nil, "\(item.name) comes twice.")
        }
        let clientID = try value("client_id", in: values)
        let isNew = clientID == PlanGrant.bootstrapClientID
        let known = planAuthorizations.registrations[clientID]
        try demand(isNew || known != nil, "There is no client of this id.", code: "invalid_client")
        let redirectURI = try value("redirect_uri", in: values)
        try demand(
            Self.isLoopbackCallback(redirectURI), "redirect_uri must be http://127.0.0.1:PORT/auth/callback.")
        try demand(values["response_type"] == "code", "response_type must be code.")
        try demand(values["resource"] == PlanGrant.resource, "resource must be \(PlanGrant.resource).")
        let scopes = (values["scope"] ?? "").split(separator: " ").map(String.init)
        try demand(
            scopes.sorted() == PlanGrant.scopes.sorted(), "scope must have the six scopes.", code: "invalid_scope")
        let host = try value("ext_agent_host_id", in: values)
        try demand(Self.isHostID(host), "ext_agent_host_id must be urn:uuid:… of version 4, a thumbprint or a did:key.")
        let name = values["agent_name_hint"]
        if isNew {
            try demand(
                (1...80).contains(name?.count ?? 0), "agent_name_hint must be the app's name, at most 80 characters.")
        } else {
            try demand(name == nil, "agent_name_hint belongs only to a first registration.")
        }
        try checkHints(values, clientID: isNew ? nil : clientID)
        let (state, nonce) = (try value("state", in: values), try value("nonce", in: values))
        for fresh in [state, nonce] {
            try demand(fresh.utf8.count >= 22, "state and nonce must have 128 random bits or more.")
        }
        let challenge = try value("code_challenge", in: values)
        try demand(values["code_challenge_method"] == "S256", "code_challenge_method must be S256.")
        try demand(
            challenge.utf8.count == 43 && challenge.utf8.allSatisfy(\.isBase64URL),
            "code_challenge must be a SHA-256 in base64url without padding.")
        let areApart = Set([state, nonce, challenge]).count == 3
        let areFresh = [state, nonce, challenge].allSatisfy { planAuthorizations.isFresh($0, in: items) }
        try demand(areApart && areFresh, "state, nonce and code_challenge must be new in every attempt.")
        return PlanAuthorization(
            items: items, clientID: isNew ? nil : clientID, appName: name ?? "", redirectURI: redirectURI,
            state: state, nonce: nonce, challenge: challenge, asksForConsent: values["prompt"] == "consent",
            hasHint: values["id_token_hint"] != nil)
    }

    private static let parameters: Set = [
        "client_id", "agent_name_hint", "ext_agent_host_id", "response_type", "redirect_uri", "scope", "resource",
        "state", "nonce", "code_challenge_method", "code_challenge", "id_token_hint", "login_hint", "prompt",
    ]

    /// Checks the hints, which only a client that already has its id may send.
    private func checkHints(_ values: [String: String], clientID: String?) throws(AuthorizationProblem) {
        guard let clientID else {
            let hint = ["id_token_hint", "login_hint", "prompt"].first { values[$0] != nil }
            return try demand(hint == nil, "\(hint ?? "") doesn't belong to a first registration.")
        }
        if let hint = values["id_token_hint"] {
            try demand(
                tokens.client(ofIDToken: hint) == clientID,
                "id_token_hint must be an ID token of this client, and not of a sign-in that was revoked.")
        }
        if let hint = values["login_hint"] {
            let account = planAuthorizations.registrations[clientID].flatMap { configuration.account(id: $0.accountID) }
            try demand(hint == account?.email, "login_hint must be the registration's own address.")
        }
        try demand([nil, "consent"].contains(values["prompt"]), "prompt can only be consent.")
    }

    private func value(_ name: String, in values: [String: String]) throws(AuthorizationProblem) -> String {
        guard let value = values[name], !value.isEmpty else {
            throw AuthorizationProblem(reason: "\(name) is missing.")
        }
        return value
    }

    private func demand(
        _ isRight: Bool, _ reason: @autoclosure () -> String, code: String = "invalid_request"
    ) throws(AuthorizationProblem) {
        guard !isRight else { return }
        throw AuthorizationProblem(code: code, reason: reason())
    }

    /// Returns whether `text` is the address of a loopback callback. Only the port may vary, and the host is never a
    /// name.
    static func isLoopbackCallback(_ text: String) -> Bool {
        let (start, end) = ("http://127.0.0.1:", "/auth/callback")
        guard text.hasPrefix(start), text.hasSuffix(end), text.utf8.count > start.utf8.count + end.utf8.count else {
            return false
        }
        let port = text.dropFirst(start.count).dropLast(end.count)
        return port.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } && (UInt16(port) ?? 0) > 0
    }

    static func isHostID(_ text: String) -> Bool {
        let thumbprint = "urn:ietf:params:oauth:jwk-thumbprint:"
        if text.hasPrefix(thumbprint) { return text.utf8.count > thumbprint.utf8.count }
        if text.hasPrefix("did:key:") { return text.utf8.count > "did:key:".utf8.count }
        guard text.hasPrefix("urn:uuid:") else { return false }
        let digits = text.dropFirst("urn:uuid:".count)
        let parts = digits.split(separator: "-", omittingEmptySubsequences: false)
        return parts.map(\.utf8.count) == [8, 4, 4, 4, 12] && parts.joined().utf8.allSatisfy(\.isHexDigit)
            && parts[2].hasPrefix("4") && "89abAB".contains(parts[3].first ?? "-")
    }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool { Character(UnicodeScalar(self)).isHexDigit }
}

extension VerificationPage {
    /// Returns the page on which the user grants an app access. The user chooses one of several `accounts`.
    static func authorization(id: String, appName: String, accounts: [SimulatorAccount]) -> String {
        document(
            title: "Continue with ChatGPT",
            content: """
                <h1>Continue with ChatGPT</h1>
                <p>\(appName.escapedForHTML) wants to know who you are and to use your ChatGPT plan. Approve only if you
                started this sign-in yourself.</p>
                <form method="post" action="/api/accounts/authorize">
                <input type="hidden" name="request" value="\(id)">
                \(choice(of: accounts))
                <p><label><input type="checkbox" name="plan" value="on" checked>
                Let it use my ChatGPT plan</label></p>
                <div class="buttons">
                <button type="submit" name="action" value="approve">Approve</button>
                <button type="submit" name="action" value="deny" class="quiet">Deny</button>
                </div>
                </form>
                """)
    }

    static func refusedAuthorization(code: String, reason: String) -> String {
        document(
            title: "This sign-in can't continue",
            content: "<h1>This sign-in can't continue</h1>\n"
                + "<p role=\"alert\"><code>\(code)</code>: \(reason.escapedForHTML)</p>")
    }
}
