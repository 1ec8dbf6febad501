public import ChappieCore

/// Who is signed in: what the tokens say about the person, never the tokens.
///
/// Read from the id token's claims without checking its signature; it came over TLS from the issuer itself. Good for
/// showing and for routing, not for deciding what somebody may do.
public struct ChappieAccountInfo: Sendable, Hashable, Codable {
    public let email: String?
    /// The ChatGPT user.
    public let userID: String?
    /// The ChatGPT account (workspace); travels as `chatgpt-account-id`.
    public let accountID: String?
    public let plan: ChappiePlan?
    /// Whether requests must carry `X-OpenAI-Fedramp: true`. Default `false`.
    public let isFedRAMPAccount: Bool

    public init(
        email: String? = nil, userID: String? = nil, accountID: String? = nil, plan: ChappiePlan? = nil,
        isFedRAMPAccount: Bool = false
    ) {
        self.email = email
        self.userID = userID
        self.accountID = accountID
        self.plan = plan
        self.isFedRAMPAccount = isFedRAMPAccount
    }
}
