/// Where a credential lies in a store: one slot, one person's sign-in.
public struct CredentialSlot: Sendable, Hashable, Codable {
    /// The namespace, in reverse-DNS form. Default `com.chappie.sdk`.
    public let service: String
    /// The user of the host app. Default `default`.
    public let account: String
    /// Lets several programs share one item. Linux stores it as an attribute and does not enforce it.
    public let accessGroup: String?
    /// Names the issuer and the backend that the credential is for; `nil` for the default ones. A store must keep slots
    /// that differ only in this apart.
    public let issuer: String?

    /// Names a slot.
    public init(
        service: String = "com.chappie.sdk", account: String = "default", accessGroup: String? = nil,
        issuer: String? = nil
    ) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
        self.issuer = issuer
    }
}
