@_spi(ChappieInternals) public import ChappieCore

/// The state of a sign-in.
public enum ChappieAuthState: Sendable, Hashable {
    /// No credential is stored.
    case signedOut
    /// A sign-in has begun. There is nothing to show yet.
    case signingIn
    /// The sign-in waits for approval in a browser. `userCode` is empty if the page needs no code.
    case awaitingDeviceCode(userCode: String, verificationURL: URL)
    /// The user is signed in. `expiresAt` is the time when the access token expires, or `nil` if it is unknown. The
    /// token is renewed before that time.
    case signedIn(expiresAt: Date?)
    /// The stored refresh token is missing or no longer valid. Only a new sign-in helps.
    case reauthenticationRequired
    /// A failure that needs the user's attention. The string is a sentence for the user.
    case failed(String)

    /// Whether a user is signed in.
    public var isSignedIn: Bool { if case .signedIn = self { true } else { false } }
}

/// The progress of one sign-in, in more detail than ``ChappieAuthState``.
public enum ChappieDeviceLinkState: Sendable, Hashable {
    /// No sign-in has been started. Next: `requestingCode`.
    case idle
    /// The code has been requested. Next: `awaitingUserCode`, `cancelled`, `failed`.
    case requestingCode
    /// The code is ready to be shown. Next: `polling`, `cancelled`.
    case awaitingUserCode(ChappieDeviceCode)
    /// The session asks the service whether the user has approved. If there is no code to type, the browser has
    /// returned, and the session asks for the tokens. Next: `linked`, `expired`, `cancelled`, `failed`.
    case polling(ChappieDeviceCode)
    /// The user is signed in, and the credential is stored. `expiresAt` is the value of
    /// ``ChappieAuthState/signedIn(expiresAt:)``.
    case linked(expiresAt: Date?)
    /// The code expired before it was approved.
    case expired
    /// The sign-in was cancelled.
    case cancelled
    /// The sign-in failed. An earlier credential is unchanged.
    case failed(ChappieAuthError)
}

/// The page on which the user approves a sign-in, and the code to type there if the page needs one (RFC 8628, 3.3).
public struct ChappieDeviceCode: Sendable, Hashable, Codable {
    /// The code to type, in the service's spelling: printable ASCII, at most 64 characters. It is empty if the page
    /// needs no code, because the browser returns to this machine by itself.
    public let userCode: String
    /// The page to open. Its query may contain values of this sign-in, so don't log it.
    public let verificationURL: URL
    /// The time when the sign-in expires, by this machine's wall clock. It is at most 15 minutes away. Use it only for
    /// a countdown, because the session itself uses a clock that can't be set.
    public let expiresAt: Date?
    /// The session's pause between two polls: 1 s to 60 s.
    public let pollInterval: Duration

    /// Creates a device code with these values.
    public init(userCode: String, verificationURL: URL, expiresAt: Date? = nil, pollInterval: Duration = .seconds(5)) {
        self.userCode = userCode
        self.verificationURL = verificationURL
        self.expiresAt = expiresAt
        self.pollInterval = pollInterval
    }

    /// Whether the user has to type ``userCode``.
    public var needsCode: Bool { !userCode.isEmpty }

    /// The user's next step, in one sentence.
    public var instructions: String {
        needsCode ? "Open \(verificationURL) and type \(userCode)." : "Open \(verificationURL) and come back."
    }
}

/// The account that is signed in. It has the claims of the tokens, never the tokens.
///
/// The claims are read without checking the signature, because the id token was received over TLS from the issuer
/// itself. Use them for display and for routing, not to decide what a user may do.
public struct ChappieAccountInfo: Sendable, Hashable, Codable {
    /// The e-mail address of the account, if the token has it.
    public let email: String?
    /// The id of the ChatGPT user.
    public let userID: String?
    /// The id of the ChatGPT account (workspace), which requests send as `chatgpt-account-id`. It is `nil` if the
    /// tokens name no workspace. The service then routes requests by the token. The tokens of "Continue with ChatGPT"
    /// never name a workspace.
    public let accountID: String?
    /// The plan, if the token has it.
    public let plan: ChappiePlan?
    /// Whether requests must send `X-OpenAI-Fedramp: true`. Default `false`.
    public let isFedRAMPAccount: Bool
    /// Whether this program may use the user's plan, or `nil` if the sign-in has no separate permission for that.
    public let planUse: ChappiePlanUse?
    /// The region to which the workspace is pinned, such as `eu`, or `nil` if there is none. Requests must name it.
    public let residency: String?

    /// Creates an account with these facts. An unknown fact is `nil`.
    public init(
        email: String? = nil, userID: String? = nil, accountID: String? = nil, plan: ChappiePlan? = nil,
        isFedRAMPAccount: Bool = false, planUse: ChappiePlanUse? = nil, residency: String? = nil
    ) {
        self.email = email
        self.userID = userID
        self.accountID = accountID
        self.plan = plan
        self.isFedRAMPAccount = isFedRAMPAccount
        self.planUse = planUse
        self.residency = residency
    }

    /// The id of the owner of the data that is kept for an account: the account, or the user if the sign-in names no
    /// account.
    @_spi(ChappieInternals) public var ownerID: String? { accountID ?? userID }

    /// Returns whether both are the same user in the same account, even if the plan or the e-mail address differs.
    ///
    /// If both have the same account, an unknown user counts as the same user. If only one of them names an account,
    /// both must name the same user. If neither names an account and one names no user, they differ only if their
    /// e-mail addresses differ.
    public func isSameAccount(as other: ChappieAccountInfo) -> Bool {
        if let accountID, let otherID = other.accountID, accountID != otherID { return false }
        if let userID, let otherID = other.userID { return userID == otherID }
        guard accountID == nil else { return accountID == other.accountID }
        return other.accountID == nil && (email == nil || other.email == nil || email == other.email)
    }
}

/// The user's decision about the plan, for a sign-in that asks for it.
public enum ChappiePlanUse: String, Sendable, Hashable, Codable {
    /// Requests may use the plan.
    case granted
    /// The user is signed in, but requests fail with ``ChappieAuthError/planUseNotGranted``.
    case notGranted
}

/// The kind of grant of a sign-in (RFC 6749, 1.3). ``ChappieRegistration`` identifies the program, and
/// ``ChappieEndpoints`` the service.
public enum ChappieGrant: Sendable, Hashable, Codable {
    /// ChatGPT's form of the device authorization grant (similar to RFC 8628). This is the default.
    case deviceCode
    /// A browser on this machine, without a code, for workspaces that forbid device codes. The client, the credential
    /// and its renewal are those of ``deviceCode``. ``ChappieAuthSession/signIn(by:_:)`` accepts this instead of the
    /// grant of the endpoints.
    case browser
    /// The grant of "Continue with ChatGPT": a browser on this machine, and a client id that the service issues to this
    /// program and this user (RFC 8252). `appName` is the program's own name, 1 to 80 characters.
    case continueWithChatGPT(appName: String)
    /// An access token that its owner has created in a ChatGPT Business or Enterprise workspace, for a server or a job
    /// without a browser. It can't be renewed, and signing out here does not revoke it.
    case accessToken

    /// The name of the grant in a stored credential.
    public var rawValue: String {
        switch self {
        case .deviceCode: "device_code"
        case .browser: "browser"
        case .continueWithChatGPT: "continue_with_chatgpt"
        case .accessToken: "access_token"
        }
    }

    /// Creates the grant with this name, or returns `nil` for an unknown name. The program's name is not stored, so it
    /// is empty.
    public init?(rawValue: String) {
        switch rawValue {
        case "device_code": self = .deviceCode
        case "browser": self = .browser
        case "continue_with_chatgpt": self = .continueWithChatGPT(appName: "")
        case "access_token": self = .accessToken
        default: return nil
        }
    }
}

// MARK: The owner of an access token

extension ChappieAccountInfo {
    /// Creates an account from the service's answer about an access token. A stored document has the same members. An
    /// unexpected value counts as absent.
    init(owner: ChappieJSON) {
        self.init(
            email: UntrustedText.line(owner["email"]?.string, limit: 320),
            userID: Self.identifier(owner, "chatgpt_user_id") ?? Self.identifier(owner, "user_id"),
            accountID: Self.identifier(owner, "chatgpt_account_id") ?? Self.identifier(owner, "account_id"),
            plan: UntrustedText.line(owner["chatgpt_plan_type"]?.string, limit: 64).map(ChappiePlan.init(rawValue:)),
            isFedRAMPAccount: owner["chatgpt_account_is_fedramp"]?.bool ?? false,
            residency: Self.identifier(owner, "chatgpt_compute_residency")
                ?? Self.identifier(owner, "chatgpt_data_residency"))
    }

    private static func identifier(_ owner: ChappieJSON, _ name: String) -> String? {
        UntrustedText.token(owner[name]?.string, limit: 256)
    }

    /// The members of a stored document that ``init(owner:)`` reads.
    var ownerDocument: ChappieJSON {
        var document = ChappieJSONObject()
        document["email"] = email.map { .string($0) }
        document["chatgpt_user_id"] = userID.map { .string($0) }
        document["chatgpt_account_id"] = accountID.map { .string($0) }
        document["chatgpt_plan_type"] = plan.map { .string($0.rawValue) }
        document["chatgpt_account_is_fedramp"] = .bool(isFedRAMPAccount)
        document["chatgpt_compute_residency"] = residency.map { .string($0) }
        return .object(document)
    }
}
