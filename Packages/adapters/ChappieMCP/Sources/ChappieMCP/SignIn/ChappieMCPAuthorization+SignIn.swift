@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// The page on which the user approves a sign-in at a tool server.
public struct ChappieMCPSignInPage: Sendable {
    /// The page's address, for a browser on this machine. Its only secret is the sign-in's state.
    public let url: URL
    /// The host of the service that requests the approval, for example `login.example`.
    public let host: String
    /// The time at which the sign-in is given up.
    public let expiresAt: Date
    private let callback: BrowserCallback

    fileprivate init(url: URL, host: String, expiresAt: Date, callback: BrowserCallback) {
        self.url = url
        self.host = host
        self.expiresAt = expiresAt
        self.callback = callback
    }

    /// Returns an address on this machine that leads a browser to the page once, or `nil` if the system provides no
    /// random bytes. Other users of the machine can see a browser's arguments.
    public func startAddress() -> URL? { callback.start() }

    /// Continues with the address at which a browser on another machine has ended.
    ///
    /// - Throws: ``ChappieAuthError/wrongCallbackAddress(_:)``. The sign-in continues nevertheless.
    public func complete(pasting address: String) throws(ChappieAuthError) { try callback.paste(address) }
}

/// The result of signing out of a tool server.
public struct ChappieMCPSignOut: Sendable, Hashable {
    /// Whether there was a sign-in that could be read.
    public let wasSignedIn: Bool
    /// Whether the authorization server has confirmed that the tokens are no longer valid.
    public let isRevoked: Bool
}

extension ChappieMCPAuthorization {
    /// Signs in through a browser and stores the tokens.
    ///
    /// - Parameters:
    ///   - more: permissions in addition to those of an earlier sign-in and the server's own. Default: none.
    ///   - listener: receives the browser's callback at 127.0.0.1.
    ///   - cryptography: computes the digest of PKCE.
    ///   - entropy: makes the values that bind the answer to this sign-in. Default: the system's.
    ///   - onPage: shows the page to the user. The sign-in waits for the browser at the same time.
    /// - Returns: the permissions that were granted, if the server names them.
    /// - Throws: ``ChappieMCPError`` with the code `signInFailed`, or `signInNeeded` if the user has not approved,
    ///   ``CredentialStoreError``, ``ChappieAuthError`` if the system provides no random bytes, or `CancellationError`.
    @discardableResult
    @concurrent
    public func signIn(
        scopes more: [String] = [], listener: any CallbackListener, cryptography: any SignInCryptography,
        entropy: any Entropy = SystemEntropy(), onPage: @Sendable (ChappieMCPSignInPage) async -> Void
    ) async throws -> [String] {
        let ports = BrowserSignInPorts(listener: listener, cryptography: cryptography, entropy: entropy)
        var visit: BrowserVisit?
        let earlier = try? await stored()
        do {
            try await prepare()
            let grant = try await grant(more, earlier, ports, &visit, onPage)
            // Ctrl-C must not lose the sign-in that the user has just approved.
            let replaced = try await uncancelled { try await self.adopt(grant) }
            if let revocation = replaced?.revocation(replacedBy: grant) { _ = try? await send(revocation) }
            await visit?.close()
            return grant.scopes
        } catch {
            await visit?.close()
            // The authorization server may have forgotten the registration. Only the user's browser shows that.
            if earlier?.registration != nil { try? await uncancelled { try await self.forgetRegistration() } }
            throw described(error)
        }
    }

    /// Carries out the steps of ``OAuthFlow``.
    private func grant(
        _ more: [String], _ earlier: OAuthGrant?, _ ports: BrowserSignInPorts, _ visit: inout BrowserVisit?,
        _ onPage: @Sendable (ChappieMCPSignInPage) async -> Void
    ) async throws -> OAuthGrant {
        var wanted = scopes
        // A sign-in with more permissions keeps its earlier permissions.
        if !more.isEmpty { wanted += more + (earlier?.scopes ?? []) }
        // A registration covers the permissions that were requested with it (RFC 7591, 2), so new permissions need a
        // new registration.
        let asksForMore = !Set(more).isSubset(of: earlier?.scopes ?? [])
        let registration = asksForMore ? nil : earlier?.registration
        var flow = try OAuthFlow(
            server: url, clientID: clientID, registration: registration, clientName: "Chappie", scopes: wanted)
        var step = flow.start()
        while true {
            switch step {
            case .fetch(let request):
                let answer = try await send(request, repeatable: flow.isExchanging)
                step = try flow.received(answer, at: clock.now)
            case .listen(let issuer):
                let opened = try BrowserVisit(
                    at: [registration?.port ?? 0, 0], path: "/callback", issuer: issuer, ports, clock)
                visit = opened
                step = try flow.listening(opened.binding)
            case .show(let url):
                guard let visit else { preconditionFailure("A page is shown after the program listens.") }
                let host = flow.issuerLabel ?? ""
                let end = clock.now.addingTimeInterval(BrowserVisit.patience.inSeconds)
                let approval = try await visit.approval(of: url) { _, callback in
                    await onPage(ChappieMCPSignInPage(url: url, host: host, expiresAt: end, callback: callback))
                }
                step = try flow.approved(approval.code)
            case .finish(let grant): return grant
            }
        }
    }

    /// Returns the error of a sign-in as an error of this package.
    private func described(_ failure: any Error) -> any Error {
        switch failure {
        case let refusal as OAuthRefusal: error(refusal)
        case ChappieAuthError.callbackUnavailable(let words): error(OAuthRefusal(clause: words))
        case ChappieAuthError.callbackTimeout:
            error(OAuthRefusal(.signInNeeded, "the browser did not come back within 15 minutes"))
        case ChappieAuthError.authorizationDenied(let words): error(OAuthRefusal(.signInNeeded, clause: words))
        default: failure
        }
    }

    /// Returns whether there is a sign-in for the server. This method sends nothing, and the sign-in may have been
    /// revoked.
    ///
    /// - Throws: ``CredentialStoreError``.
    public func isSignedIn() async throws(CredentialStoreError) -> Bool { try await stored() != nil }

    /// Removes the sign-in and then revokes it at the authorization server, if that server supports revocation.
    ///
    /// - Throws: ``CredentialStoreError`` if the sign-in could not be removed.
    @concurrent
    public func signOut() async throws -> ChappieMCPSignOut {
        let grant = try await uncancelled { try await self.remove() }
        guard let revocation = grant?.revocation else {
            return ChappieMCPSignOut(wasSignedIn: grant != nil, isRevoked: false)
        }
        let answer = try? await send(revocation)
        return ChappieMCPSignOut(wasSignedIn: true, isRevoked: answer?.isAccepted == true)
    }
}
