import ChappieCore
import FoundationEssentials

/// The tokens of one sign-in.
struct Credential: Sendable {
    private(set) var idToken: Secret?
    private(set) var accessToken: Secret
    private(set) var refreshToken: Secret?
    /// The account that the sign-in was for; requests are routed by it.
    private(set) var accountID: String?
    /// When the tokens were last obtained, by the wall clock.
    private(set) var lastRefresh: Date?
    /// How the sign-in came about: ``ChappieGrant/rawValue``, or a word of a later version.
    let grant: String?
    /// Members of the stored document that this version does not know; they are written back as they were.
    let unknownMembers: ChappieJSONObject
    let unknownTokenMembers: ChappieJSONObject
    /// Derived from the tokens once, because every request asks.
    private(set) var info = ChappieAccountInfo()
    private(set) var expiresAt: Date?

    init(
        idToken: Secret?, accessToken: Secret, refreshToken: Secret?, accountID: String? = nil, lastRefresh: Date?,
        grant: String?, unknownMembers: ChappieJSONObject = ChappieJSONObject(),
        unknownTokenMembers: ChappieJSONObject = ChappieJSONObject()
    ) {
        self.idToken = idToken
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.accountID = accountID
        self.lastRefresh = lastRefresh
        self.grant = grant
        self.unknownMembers = unknownMembers
        self.unknownTokenMembers = unknownTokenMembers
        readClaims()
    }

    /// The credential that a finished grant gives.
    ///
    /// - Throws: ``ChappieAuthError/missingRefreshToken``; ``ChappieAuthError/invalidResponse`` without the other two.
    init(exchanged answer: TokenAnswer, grant: ChappieGrant, at now: Date) throws(ChappieAuthError) {
        guard let idToken = answer.idToken, let accessToken = answer.accessToken else { throw .invalidResponse }
        guard let refreshToken = answer.refreshToken else { throw .missingRefreshToken }
        self.init(
            idToken: idToken, accessToken: accessToken, refreshToken: refreshToken, lastRefresh: now,
            grant: grant.rawValue)
    }

    /// This credential with the tokens that a refresh brought; what it did not bring stays.
    func refreshed(with answer: TokenAnswer, at now: Date) -> Credential {
        var new = self
        new.idToken = answer.idToken ?? idToken
        new.accessToken = answer.accessToken ?? accessToken
        new.refreshToken = answer.refreshToken ?? refreshToken
        new.lastRefresh = now
        new.readClaims()
        return new
    }

    func hasSameTokens(as other: Credential) -> Bool {
        idToken == other.idToken && accessToken == other.accessToken && refreshToken == other.refreshToken
    }

    /// What must not appear in any message.
    var secrets: [Secret] { [idToken, accessToken, refreshToken].compactMap(\.self) }

    private mutating func readClaims() {
        // Access tokens carry the same namespaces; they fill what the id token leaves open.
        let first = idToken.flatMap(JWTClaims.init)?.account
        let claims = JWTClaims(accessToken)
        let second = claims?.account
        accountID = accountID ?? first?.accountID ?? second?.accountID
        info = ChappieAccountInfo(
            email: first?.email ?? second?.email, userID: first?.userID ?? second?.userID, accountID: accountID,
            plan: first?.plan ?? second?.plan,
            isFedRAMPAccount: first?.isFedRAMPAccount == true || second?.isFedRAMPAccount == true)
        expiresAt = claims?.expiresAt
    }
}

extension Credential: CustomStringConvertible, CustomReflectable {
    var description: String { "Credential(\(SafeText.redacted))" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
