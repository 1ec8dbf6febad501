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

    /// Whether both are the same person in the same account, whatever has become of the plan or the address. A user that
    /// is not known is taken for the same.
    public func isSameAccount(as other: ChappieAccountInfo) -> Bool {
        guard accountID == other.accountID else { return false }
        guard let userID, let otherUserID = other.userID else { return true }
        return userID == otherUserID
    }
}
