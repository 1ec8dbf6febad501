/// The person and the account everybody signs in as.
public struct SimulatorAccount: Sendable, Hashable {
    /// The account (workspace) id: the claim `chatgpt_account_id`.
    public var id: String
    /// The claim `chatgpt_user_id`.
    public var userID: String
    public var email: String
    public var name: String
    /// The plan as it is on the wire: `free`, `plus`, `pro`, `team`, or any other word.
    public var plan: String

    public init(
        id: String = "acct_00000000-0000-4000-8000-000000000001",
        userID: String = "user-simulated",
        email: String = "ada@example.com",
        name: String = "Ada Example",
        plan: String = "plus"
    ) {
        self.id = id
        self.userID = userID
        self.email = email
        self.name = name
        self.plan = plan
    }
}
