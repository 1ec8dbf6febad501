@_spi(ChappieInternals) import ChappieCore

/// The browser sign-in for the client that also has the device code. Like the Codex CLI 0.163.0, it uses an
/// authorization code with PKCE and a browser that returns to this machine.
///
/// The result is the same kind of credential. The identity token arrives over TLS from the issuer itself, as with the
/// device code, and is not verified.
struct ClientAuthorization: Sendable {
    private static let scopes = "openid profile email offline_access api.connectors.read api.connectors.invoke"

    let endpoints: ChappieEndpoints
    let ports: BrowserSignInPorts
    let clock: any ChappieClock
    /// Receives the work that remains once the browser has returned, which is to deliver its pages.
    let leave: @Sendable (Task<Void, Never>) -> Void

    /// Runs the sign-in up to the authorization code. `onPage` shows the page. `onReturn` is called when the browser
    /// has returned.
    ///
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    @concurrent
    func run(
        onPage: @Sendable (ChappieDeviceCode, BrowserCallback) async -> Void,
        onReturn: @Sendable (ChappieDeviceCode) async -> Void
    ) async throws -> AuthorizationCode {
        let visit: BrowserVisit
        do {
            // The service accepts only these ports.
            visit = try BrowserVisit(at: [1455, 1457], host: "localhost", path: "/auth/callback", ports, clock)
        } catch ChappieAuthError.callbackUnavailable(let reason) {
            throw ChappieAuthError.callbackUnavailable(
                "\(reason) The browser can come back to port 1455 or 1457 only. Another sign-in, or the Codex CLI, may be "
                    + "waiting there.")
        }
        defer { visit.close(leave) }
        let binding = visit.binding
        let page = endpoints.authorizeURL.appending(query: [
            ("response_type", "code"), ("client_id", endpoints.registration.clientID),
            ("redirect_uri", binding.redirectURI), ("scope", Self.scopes), ("code_challenge", binding.challenge),
            ("code_challenge_method", "S256"), ("id_token_add_organizations", "true"),
            ("codex_cli_simplified_flow", "true"), ("state", binding.state.text),
            ("originator", endpoints.registration.originator),
        ])
        guard let page else { throw ChappieAuthError.invalidResponse }
        let approval = try await visit.approval(of: page, onPage: onPage, onReturn: onReturn)
        return AuthorizationCode(
            code: approval.code, verifier: binding.verifier, redirectURI: binding.redirectURI, grant: .browser)
    }
}
