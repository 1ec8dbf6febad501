@_spi(ChappieInternals) import ChappieCore

/// The tokens of one sign-in.
struct Credential: Sendable {
    private(set) var idToken: Secret?
    private(set) var accessToken: Secret
    private(set) var refreshToken: Secret?
    /// The account of the sign-in. The backend routes requests by it.
    private(set) var accountID: String?
    /// The time when the tokens were last obtained, by the wall clock.
    private(set) var lastRefresh: Date?
    /// The time when the user signed in or imported the sign-in here, by the wall clock. A renewal does not change it.
    private var signedIn: Date?
    /// The time before which the server expects no renewal while the access token is still valid, by the wall clock.
    private(set) var earliestRefresh: Date?
    /// The number of seconds by which the server's clock is ahead of this machine's, as measured when the tokens
    /// arrived. It is zero if the clocks agree.
    private(set) var clockOffset: TimeInterval = 0
    /// The reason why there is no refresh token any more, or `nil` if the server has not refused one.
    private(set) var refusal: Refusal?
    /// The tokens of another account that the server sent instead of this account's, as a JSON object. They are never
    /// used.
    private var setAside: Secret?
    /// The grant of the sign-in: ``ChappieGrant/rawValue``, or a name from a later version.
    let grant: String?
    /// The client id that the server has issued to this program for this user, or `nil` if the tokens belong to the
    /// origin's client.
    let issuedClientID: String?
    /// The permissions that the server has granted, if it issued the client id.
    private(set) var scopes: [String]?
    /// The expiry time of an access token that doesn't contain it, as the token endpoint announced it.
    private var announcedEnd: Date?
    let origin: CredentialOrigin
    /// The members of the stored document that this version does not know. They are written back unchanged.
    private var unknownMembers = ChappieJSONObject()
    private var unknownTokenMembers = ChappieJSONObject()
    /// The owner of an access token that has no claims, as the service named it.
    private let owner: ChappieAccountInfo?
    /// The account, derived from the tokens once, because every request reads it.
    private(set) var info = ChappieAccountInfo()
    private(set) var expiresAt: Date?
    /// Whether the owner of the sign-in is known, because a token has claims or the service has named the owner.
    private(set) var hasClaims = false

    /// The reason why the credential can't be renewed any more.
    struct Refusal: Sendable, Hashable {
        /// A sentence for the user.
        let reason: String
        /// Whether the backend has refused the access token as well.
        let isOfAccessToken: Bool
    }

    /// Creates the credential from a completed grant.
    ///
    /// Without a refresh token, the sign-in lasts as long as its access token. Without an identity token, the access
    /// token's claims name the user.
    ///
    /// - Parameter issuedClientID: The client id that the server has issued, if any.
    /// - Throws: ``ChappieAuthError/invalidResponse`` if there is no access token, or if no token has readable claims.
    init(
        exchanged answer: TokenResponse, grant: ChappieGrant, at now: Date, from origin: CredentialOrigin,
        issuedClientID: String? = nil
    ) throws(ChappieAuthError) {
        guard let accessToken = answer.accessToken else { throw .invalidResponse }
        idToken = answer.idToken
        self.accessToken = accessToken
        refreshToken = answer.refreshToken
        self.issuedClientID = issuedClientID
        if issuedClientID != nil { scopes = answer.scopes ?? [] }
        announcedEnd = Self.announcedEnd(of: answer, issuedClientID, at: now)
        lastRefresh = now
        signedIn = now
        earliestRefresh = answer.earliestRefresh
        clockOffset = answer.clockOffset(at: now) ?? 0
        self.grant = grant.rawValue
        self.origin = origin
        owner = nil
        readClaims()
        guard hasClaims else { throw .invalidResponse }
    }

    /// Returns the expiry time of a new access token that doesn't contain it, if the answer announces it.
    private static func announcedEnd(of answer: TokenResponse, _ issuedClientID: String?, at now: Date) -> Date? {
        guard issuedClientID != nil || answer.accessToken.flatMap(JWTClaims.init)?.expiresAt == nil else { return nil }
        return answer.lifetime.map(now.addingTimeInterval)
    }

    /// Creates the credential of an access token that its owner has created.
    init(accessToken: Secret, of owner: ChappieAccountInfo, at now: Date, from origin: CredentialOrigin) {
        self.accessToken = accessToken
        self.owner = owner
        self.origin = origin
        accountID = owner.accountID
        lastRefresh = now
        signedIn = now
        grant = ChappieGrant.accessToken.rawValue
        issuedClientID = nil
        readClaims()
    }

    /// Whether it is only an access token, which can't be renewed.
    var isAccessToken: Bool { grant == ChappieGrant.accessToken.rawValue && refreshToken == nil }

    /// Returns this credential with the tokens from a refresh. A token that the answer lacks is kept.
    func refreshed(with answer: TokenResponse, at now: Date) -> Credential {
        var new = self
        new.idToken = answer.idToken ?? idToken
        if issuedClientID != nil { new.scopes = answer.scopes ?? scopes }
        if answer.accessToken != nil { new.announcedEnd = Self.announcedEnd(of: answer, issuedClientID, at: now) }
        new.accessToken = answer.accessToken ?? accessToken
        new.refreshToken = answer.refreshToken ?? refreshToken
        if answer.hasUnusableRefreshToken {
            new = new.unrenewable(
                because: "The service sent a refresh token that can't be used, so the sign-in can't be renewed.",
                refused: false)
        }
        new.clockOffset = answer.clockOffset(at: now) ?? clockOffset
        new.signedIn = beganAt
        new.lastRefresh = now
        new.earliestRefresh = answer.earliestRefresh
        new.readClaims()
        return new
    }

    /// Returns whether the tokens from a refresh belong to the same user and account, if they name them. They were
    /// received over TLS from the issuer, so no signature is checked (OpenID Connect Core, 3.1.3.7, 6, and 12.2).
    func isOwn(_ answer: TokenResponse) -> Bool {
        if let issuedClientID, let new = answer.idToken {
            guard let claims = JWTClaims(new), claims.audiences.contains(issuedClientID) else { return false }
            if let old = idToken.flatMap(JWTClaims.init), claims.issuer != old.issuer { return false }
        }
        return Self.isOneUser(idToken, answer.idToken) && Self.isOneUser(accessToken, answer.accessToken)
    }

    private static func isOneUser(_ old: Secret?, _ new: Secret?) -> Bool {
        guard let old = old.flatMap(JWTClaims.init), let new = new.flatMap(JWTClaims.init) else { return true }
        func agree(_ value: (JWTClaims) -> String?) -> Bool {
            guard let old = value(old), let new = value(new) else { return true }
            return old == new
        }
        return agree(\.subject) && agree(\.account.accountID) && agree(\.account.userID)
    }

    /// Returns the same credential without its refresh token, which is no longer valid. The access token may be used
    /// until it expires, and the identity token makes the next sign-in by browser a single click.
    ///
    /// - Parameters:
    ///   - reason: A sentence for the user.
    ///   - refused: Whether the backend has refused the access token as well.
    ///   - foreign: The tokens of another account that arrived instead of new ones. They are stored and never used.
    func unrenewable(because reason: String, refused: Bool, aside foreign: TokenResponse? = nil) -> Credential {
        var new = self
        new.refreshToken = nil
        new.refusal = Refusal(reason: reason, isOfAccessToken: refused)
        if let foreign {
            var tokens = ChappieJSONObject()
            tokens["id_token"] = foreign.idToken.map { .string($0.text) }
            tokens["access_token"] = foreign.accessToken.map { .string($0.text) }
            tokens["refresh_token"] = foreign.refreshToken.map { .string($0.text) }
            new.setAside = Secret(ChappieJSON.object(tokens).serializedBytes())
        }
        return new
    }

    /// Returns whether a revocation of this sign-in may also end the other one, because both belong to one registration
    /// or to one user.
    func mayEnd(_ other: Credential) -> Bool {
        let isSameRegistration = issuedClientID != nil && issuedClientID == other.issuedClientID
        let isSameUser = info.userID != nil && info.userID == other.info.userID
        return isSameRegistration || isSameUser || info.isSameAccount(as: other.info)
    }

    /// The time when the sign-in began on this machine, if it is known.
    var beganAt: Date? { signedIn ?? lastRefresh }

    /// Returns the same credential, imported at `now`.
    func imported(at now: Date) -> Credential {
        var new = self
        new.signedIn = now
        return new
    }

    func hasSameTokens(as other: Credential) -> Bool {
        idToken == other.idToken && accessToken == other.accessToken && refreshToken == other.refreshToken
    }

    /// The texts that no message may contain.
    var secrets: [Secret] { [idToken, accessToken, refreshToken].compactMap(\.self) }

    private mutating func readClaims() {
        // Access tokens have the same namespaces. They supply the claims that the id token lacks.
        let identity = idToken.flatMap(JWTClaims.init)
        let claims = JWTClaims(accessToken)
        let (first, second) = (identity?.account, claims?.account)
        hasClaims = identity != nil || claims != nil || owner != nil
        expiresAt = claims?.expiresAt ?? announcedEnd
        if issuedClientID != nil {
            let planUse = origin.planScope.map { scope -> ChappiePlanUse in
                scopes?.contains(scope) == true ? .granted : .notGranted
            }
            info = ChappieAccountInfo(
                email: first?.email, userID: identity?.subject, planUse: planUse)
            return
        }
        accountID = accountID ?? first?.accountID ?? second?.accountID
        info = ChappieAccountInfo(
            email: first?.email ?? second?.email ?? owner?.email,
            userID: first?.userID ?? second?.userID ?? owner?.userID ?? identity?.subject ?? claims?.subject,
            accountID: accountID, plan: first?.plan ?? second?.plan ?? owner?.plan,
            isFedRAMPAccount: [first, second, owner].contains { $0?.isFedRAMPAccount == true },
            // The access token takes precedence, because requests are sent with it.
            residency: Self.region(claims?.residency ?? identity?.residency ?? owner?.residency))
    }
}

extension Credential {
    /// Returns the region or the route that a peer's value names, or `nil` if it names none.
    static func region(_ word: String?) -> String? {
        guard let word = UntrustedText.token(word, limit: 256), word.lowercased() != "no_constraint" else { return nil }
        return word
    }
}

extension Credential: CustomStringConvertible, CustomReflectable {
    var description: String { "Credential(\(UntrustedText.redacted))" }
    var customMirror: Mirror { Mirror(self, children: []) }
}

// MARK: Freshness

extension Credential {
    /// The state of an access token that decides whether it should be renewed before it is used.
    enum Freshness: Sendable, Hashable {
        case fresh
        /// It should be renewed, but may still be used if the renewal fails.
        case due
        /// It has expired.
        case expired
    }

    /// The time before the token expires at which a renewal is due, in seconds.
    static let earlyRefresh: TimeInterval = 5 * 60
    /// The age at which a token without an expiry is renewed, in seconds.
    static let maximumAge: TimeInterval = 8 * 24 * 60 * 60

    /// Whether the sign-in lasts only as long as its access token.
    private var isUnrenewable: Bool { refreshToken == nil && !isAccessToken }

    /// Returns whether only a new sign-in helps, because the access token has expired or was refused and can't be
    /// renewed.
    func isOver(at now: Date) -> Bool {
        isUnrenewable && (refusal?.isOfAccessToken == true || freshness(at: now) == .expired)
    }

    /// The error that explains why it can't be renewed without a refresh token.
    var ending: ChappieAuthError {
        if let refusal { return .reauthenticationRequired(refusal.reason) }
        return issuedClientID == nil
            ? .missingRefreshToken
            : .reauthenticationRequired(
                "Your sign-in has ended, and this service did not let it be renewed. Sign in once more.")
    }

    /// Returns the time before which the server expects no renewal, by this machine's clock, or `nil` if it has passed.
    func earliestRenewal(after now: Date) -> Date? {
        guard let date = earliestRefresh?.addingTimeInterval(-clockOffset), date > now else { return nil }
        return date
    }

    /// Returns the freshness of the access token at `now`, by this machine's clock. A renewal is not due before the
    /// server's earliest time.
    func freshness(at now: Date) -> Freshness {
        // The token's times are from the server's clock.
        let now = now.addingTimeInterval(clockOffset)
        if let expiresAt, expiresAt <= now { return .expired }
        if isAccessToken || isUnrenewable { return .fresh }
        if let earliestRefresh, now < earliestRefresh { return .fresh }
        if let expiresAt { return expiresAt <= now.addingTimeInterval(Self.earlyRefresh) ? .due : .fresh }
        guard let lastRefresh else { return .due }
        return now.timeIntervalSince(lastRefresh) > Self.maximumAge ? .due : .fresh
    }
}

// MARK: The stored document

extension Credential {
    /// The version of the document that this code writes.
    private static let documentVersion = 1
    private static let maximumDocumentSize = 1 << 20
    private static let knownMembers: Set = [
        "version", "grant", "issuer", "backend", "client_id", "tokens", "signed_in", "last_refresh",
        "earliest_refresh", "owner", "issued_client_id", "scopes", "expires_at", "refusal", "clock_offset", "set_aside",
    ]
    private static let knownTokenMembers: Set = ["id_token", "access_token", "refresh_token", "account_id"]

    /// Returns the JSON document for a ``CredentialStore``.
    func serialized() -> Secret {
        var tokens = ChappieJSONObject()
        tokens["id_token"] = idToken.map { .string($0.text) }
        tokens["access_token"] = .string(accessToken.text)
        tokens["refresh_token"] = refreshToken.map { .string($0.text) }
        tokens["account_id"] = accountID.map { .string($0) }
        var document = ChappieJSONObject([("version", .integer(Self.documentVersion))])
        document["grant"] = grant.map { .string($0) }
        document["issuer"] = .string(origin.issuer)
        document["backend"] = .string(origin.backend)
        if origin.client != CredentialOrigin.chatGPT.client { document["client_id"] = .string(origin.client) }
        document["tokens"] = .object(ChappieJSONObject(members: tokens.members + unknownTokenMembers.members))
        document["signed_in"] = signedIn.map { .string($0.ISO8601Format()) }
        document["last_refresh"] = lastRefresh.map { .string($0.ISO8601Format()) }
        document["earliest_refresh"] = earliestRefresh.map { .string($0.ISO8601Format()) }
        document["owner"] = owner?.ownerDocument
        document["issued_client_id"] = issuedClientID.map { .string($0) }
        document["scopes"] = scopes.map { .array($0.map { .string($0) }) }
        document["expires_at"] = announcedEnd.map { .string($0.ISO8601Format()) }
        document["refusal"] = refusal.map {
            ["reason": .string($0.reason), "of_access_token": .bool($0.isOfAccessToken)]
        }
        document["clock_offset"] = clockOffset == 0 ? nil : .integer(Int(clockOffset))
        document["set_aside"] = setAside.flatMap { try? ChappieJSON(parsing: $0.withBytes(Array.init)) }
        let whole = ChappieJSONObject(members: document.members + unknownMembers.members)
        return Secret(ChappieJSON.object(whole).serializedBytes())
    }

    /// Creates a credential from a stored document.
    ///
    /// - Throws: ``CredentialStoreError/corrupt(_:)`` with a message that contains no part of the document, `tooNew`, or
    ///   ``CredentialStoreError/foreign(_:)`` if the document is from another issuer or for another backend.
    init(serialized secret: Secret, for origin: CredentialOrigin) throws(CredentialStoreError) {
        guard secret.count <= Self.maximumDocumentSize else { throw .corrupt("it is larger than any credential") }
        guard let json = try? ChappieJSON(parsing: secret.withBytes(Array.init)), case .object(let document) = json
        else { throw .corrupt("it is not a JSON object") }
        guard let version = document["version"]?.int, version >= 1 else { throw .corrupt("it has no version") }
        guard version == Self.documentVersion else {
            throw .tooNew("The stored sign-in", found: version, known: Self.documentVersion)
        }
        guard case .object(let tokens) = document["tokens"] else { throw .corrupt("it holds no tokens") }
        guard let accessToken = Secret(token: tokens["access_token"]?.string) else {
            throw .corrupt("it holds no usable access token")
        }
        let found = CredentialOrigin(document, planScope: origin.planScope)
        guard found == origin else {
            throw .foreign(
                found.client == origin.client
                    ? "it was granted by \(found.issuer) for \(found.backend), and this program is set up for "
                        + "\(origin.issuer) and \(origin.backend)"
                    : "it was granted to the OAuth client \(found.client), and this program is \(origin.client)")
        }
        self.accessToken = accessToken
        self.origin = origin
        idToken = Secret(token: tokens["id_token"]?.string)
        refreshToken = Secret(token: tokens["refresh_token"]?.string)
        accountID = UntrustedText.token(tokens["account_id"]?.string, limit: 256)
        signedIn = document["signed_in"]?.string.flatMap(HTTPDate.rfc3339)
        lastRefresh = document["last_refresh"]?.string.flatMap(HTTPDate.rfc3339)
        earliestRefresh = document["earliest_refresh"]?.string.flatMap(HTTPDate.rfc3339)
        grant = UntrustedText.token(document["grant"]?.string, limit: 64)
        owner = document["owner"].map(ChappieAccountInfo.init(owner:))
        issuedClientID = UntrustedText.token(document["issued_client_id"]?.string, limit: 200)
        scopes = document["scopes"]?.array?.compactMap(\.string)
        announcedEnd = document["expires_at"]?.string.flatMap(HTTPDate.rfc3339)
        if let stored = document["refusal"] {
            refusal = Refusal(
                reason: UntrustedText.message(stored["reason"]?.string) ?? "The sign-in can't be renewed.",
                isOfAccessToken: stored["of_access_token"]?.bool ?? false)
        }
        clockOffset = document["clock_offset"]?.double ?? 0
        setAside = document["set_aside"].map { Secret($0.serializedBytes()) }
        unknownMembers = document.leaving(out: Self.knownMembers)
        unknownTokenMembers = tokens.leaving(out: Self.knownTokenMembers)
        readClaims()
    }
}

extension ChappieJSONObject {
    fileprivate func leaving(out names: Set<String>) -> ChappieJSONObject {
        ChappieJSONObject(members: members.filter { !names.contains($0.name) })
    }
}
