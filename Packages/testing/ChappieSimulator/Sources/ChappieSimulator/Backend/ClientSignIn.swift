@_spi(ChappieInternals) import ChappieCore

/// The request of a sign-in without a code, to which a program sends the browser, after every check.
struct ClientAuthorization: Sendable, Hashable {
    let clientID: String
    let redirectURI: String
    let state: String
    let challenge: String
}

/// The sign-ins in progress in a browser, for the client that also uses device codes.
struct ClientAuthorizations: Sendable {
    /// The lifetime of a page and of a code, in seconds.
    static let lifetime = 10 * 60

    /// An approval whose code has been redeemed.
    struct Approval: Sendable {
        let accountID: String
    }

    private struct Code: Sendable {
        let authorization: ClientAuthorization
        let accountID: String
        /// The time of expiry in Unix seconds.
        let expiresAt: Int
    }

    /// The requests that wait for the user, by the id of their page.
    private var waiting: [String: (authorization: ClientAuthorization, expiresAt: Int)] = [:]
    private var codes: [String: Code] = [:]

    /// Stores a request whose page is shown, and returns the id of the page.
    mutating func begin(_ authorization: ClientAuthorization, now: Int) -> String {
        waiting = waiting.filter { $0.value.expiresAt > now }
        let id = randomSecret()
        waiting[id] = (authorization, now + Self.lifetime)
        return id
    }

    /// Removes the request that waits under `id`, and returns it unless it is unknown or has expired.
    mutating func end(_ id: String, now: Int) -> ClientAuthorization? {
        waiting.removeValue(forKey: id).flatMap { $0.expiresAt > now ? $0.authorization : nil }
    }

    /// Returns a new code for an approval.
    mutating func approve(_ authorization: ClientAuthorization, accountID: String, now: Int) -> String {
        let code = randomSecret("ac_")
        codes[code] = Code(authorization: authorization, accountID: accountID, expiresAt: now + Self.lifetime)
        return code
    }

    /// Redeems a code, which is possible only once (RFC 6749, 4.1.3; RFC 7636, 4.6).
    ///
    /// - Returns: the approval, or `nil` if any part of the request is wrong.
    mutating func redeem(
        _ code: String, clientID: String, redirectURI: String, verifier: String, now: Int
    ) -> Approval? {
        guard let record = codes[code], record.expiresAt > now, record.authorization.clientID == clientID,
            record.authorization.redirectURI == redirectURI, (43...128).contains(verifier.utf8.count),
            Base64URL.encode(SHA256.digest(Array(verifier.utf8))) == record.authorization.challenge
        else { return nil }
        codes[code] = nil
        return Approval(accountID: record.accountID)
    }
}

extension Backend {
    /// Returns the page of the browser sign-in. GET shows it or, if every sign-in is approved, sends the browser back.
    /// POST decides.
    mutating func clientAuthorize(_ request: BackendRequest, now: Int) -> BackendResponse {
        let host = request.header("host") ?? ""
        guard Self.namesThisMachine(authority: host) else { return page(VerificationPage.forbidden, status: 421) }
        guard request.method == "GET" else { return decideOnClient(request, host: host, now: now) }
        let authorization: ClientAuthorization
        switch Self.checkedClient(request.queryItems) {
        case .success(let checked): authorization = checked
        case .failure(let problem):
            return page(
                VerificationPage.refusedAuthorization(code: "invalid_request", reason: problem.reason), status: 400)
        }
        guard !configuration.autoApprove else {
            let code = clientAuthorizations.approve(authorization, accountID: configuration.account.id, now: now)
            return Self.clientReturn(authorization, [FormItem(name: "code", value: code)])
        }
        let id = clientAuthorizations.begin(authorization, now: now)
        return page(
            VerificationPage.clientAuthorization(id: id, accounts: configuration.accounts),
            formTargets: "'self' " + Self.clientOrigins.joined(separator: " "))
    }

    private mutating func decideOnClient(_ request: BackendRequest, host: String, now: Int) -> BackendResponse {
        let isOwn = ["http://\(host)", "https://\(host)", nil].contains(request.header("origin"))
        let isFromThisSite = ["same-origin", "none", nil].contains(request.header("sec-fetch-site"))
        guard isOwn, isFromThisSite, request.isForm, let fields = request.fields else {
            return page(VerificationPage.forbidden, status: 403)
        }
        let account = fields["account"].map(configuration.account(id:)) ?? configuration.account
        guard let account, let action = fields["action"], ["approve", "deny"].contains(action),
            let authorization = clientAuthorizations.end(fields["request"] ?? "", now: now)
        else {
            let reason = "No sign-in waits here. Go back to the app and start again."
            return page(VerificationPage.refusedAuthorization(code: "expired", reason: reason), status: 400)
        }
        guard action == "approve" else {
            return Self.clientReturn(authorization, [FormItem(name: "error", value: "access_denied")])
        }
        let code = clientAuthorizations.approve(authorization, accountID: account.id, now: now)
        return Self.clientReturn(authorization, [FormItem(name: "code", value: code)])
    }

    private static func clientReturn(_ authorization: ClientAuthorization, _ items: [FormItem]) -> BackendResponse {
        let scope = FormItem(name: "scope", value: clientScopes.joined(separator: " "))
        return back(
            to: authorization.redirectURI, items + [scope, FormItem(name: "state", value: authorization.state)],
            status: 302)
    }

    private struct ClientProblem: Error { let reason: String }

    /// The origins to which a browser may return. The Codex CLI 0.163.0 names itself by its address.
    private static let clientOrigins = ["localhost", "127.0.0.1"].flatMap { host in
        [1455, 1457].map { "http://\(host):\($0)" }
    }

    private static let clientScopes = [
        "openid", "profile", "email", "offline_access", "api.connectors.read", "api.connectors.invoke",
    ]

    /// Returns the request if each of its parameters is present once and correct (Codex CLI 0.163.0, `codex login`).
    private static func checkedClient(_ items: [FormItem]) -> Result<ClientAuthorization, ClientProblem> {
        var values: [String: String] = [:]
        for item in items where values.updateValue(item.value, forKey: item.name) != nil {
            return .failure(ClientProblem(reason: "\(item.name.prefix(40)) comes twice."))
        }
        let redirects = clientOrigins.map { $0 + "/auth/callback" }
        let scopes = (values["scope"] ?? "").split(separator: " ").map(String.init)
        let challenge = values["code_challenge"] ?? ""
        let rules: [(Bool, String)] = [
            (values["response_type"] == "code", "response_type must be code."),
            (values["client_id"]?.isEmpty == false, "client_id is missing."),
            (redirects.contains(values["redirect_uri"] ?? ""), "redirect_uri must be one of the client's."),
            (scopes.sorted() == clientScopes.sorted(), "scope must have the six scopes."),
            (values["code_challenge_method"] == "S256", "code_challenge_method must be S256."),
            (
                challenge.utf8.count == 43 && challenge.utf8.allSatisfy(\.isBase64URL),
                "code_challenge must be a SHA-256 in base64url without padding."
            ),
            ((values["state"] ?? "").utf8.count >= 22, "state must have 128 random bits or more."),
            (values["id_token_add_organizations"] == "true", "id_token_add_organizations must be true."),
            (values["codex_cli_simplified_flow"] == "true", "codex_cli_simplified_flow must be true."),
            (values["originator"]?.isEmpty == false, "originator is missing."),
        ]
        if let broken = rules.first(where: { !$0.0 }) { return .failure(ClientProblem(reason: broken.1)) }
        return .success(
            ClientAuthorization(
                clientID: values["client_id"] ?? "", redirectURI: values["redirect_uri"] ?? "",
                state: values["state"] ?? "", challenge: challenge))
    }
}

extension VerificationPage {
    /// Returns the page on which the user signs in without a code. The user chooses one of several `accounts`.
    static func clientAuthorization(id: String, accounts: [SimulatorAccount]) -> String {
        document(
            title: "Sign in to ChatGPT",
            content: """
                <h1>Sign in to ChatGPT</h1>
                <p>Approve only if you started this sign-in yourself.</p>
                <form method="post" action="/oauth/authorize">
                <input type="hidden" name="request" value="\(id)">
                \(choice(of: accounts))
                <div class="buttons">
                <button type="submit" name="action" value="approve">Approve</button>
                <button type="submit" name="action" value="deny" class="quiet">Deny</button>
                </div>
                </form>
                """)
    }
}
