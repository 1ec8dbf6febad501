/// A person and the account they sign in as.
public struct SimulatorAccount: Sendable, Hashable {
    /// The account (workspace) id: the claim `chatgpt_account_id`.
    public var id: String
    /// The claim `chatgpt_user_id`.
    public var userID: String
    public var email: String
    public var name: String
    /// The plan as it is on the wire: `free`, `plus`, `pro`, `team`, or any other word.
    public var plan: String
    /// How much of its plan is used; `nil`, the default, for ``SimulatorConfiguration/usage``.
    public var usage: SimulatorUsage?
    /// The slugs of the models that it may use; `nil`, the default, for all. Only those of the catalogue count.
    public var models: [String]?

    public init(
        id: String = "acct_00000000-0000-4000-8000-000000000001",
        userID: String = "user-simulated",
        email: String = "ada@example.com",
        name: String = "Ada Example",
        plan: String = "plus",
        usage: SimulatorUsage? = nil,
        models: [String]? = nil
    ) {
        self.id = id
        self.userID = userID
        self.email = email
        self.name = name
        self.plan = plan
        self.usage = usage
        self.models = models
    }
}
