public import ChappieCore

/// Where a sign-in stands.
public enum ChappieAuthState: Sendable, Hashable {
    /// No credential is stored.
    case signedOut
    /// A sign-in has begun; the device code has been asked for.
    case signingIn
    /// The device code is there and waits for approval in a browser.
    case awaitingDeviceCode(userCode: String, verificationURL: URL)
    /// Signed in. `expiresAt` is when the access token ends (it is renewed before); `nil` when that is unknown.
    case signedIn(expiresAt: Date?)
    /// The stored refresh token is missing or no longer good; only a new sign-in helps.
    case reauthenticationRequired
    /// Something went wrong that the user has to look at; the string is a sentence for the user.
    case failed(String)

    /// Whether a user is signed in.
    public var isSignedIn: Bool { if case .signedIn = self { true } else { false } }
}

/// Progress of one device sign-in, finer than ``ChappieAuthState``.
public enum ChappieDeviceLinkState: Sendable, Hashable {
    /// No sign-in has been started. Next: `requestingCode`.
    case idle
    /// The code has been asked for. Next: `awaitingUserCode`, `cancelled`, `failed`.
    case requestingCode
    /// The code is ready to be shown. Next: `polling`, `cancelled`.
    case awaitingUserCode(ChappieDeviceCode)
    /// The service is being asked whether the user has approved. Next: `linked`, `expired`, `cancelled`, `failed`.
    case polling(ChappieDeviceCode)
    /// Signed in; the credential is stored. `expiresAt` as in ``ChappieAuthState/signedIn(expiresAt:)``.
    case linked(expiresAt: Date?)
    /// The code expired before it was approved.
    case expired
    /// The sign-in was cancelled.
    case cancelled
    /// The sign-in failed; an earlier credential, if there was one, is untouched.
    case failed(ChappieAuthError)
}

/// The code and address with which the user approves a sign-in on another screen (RFC 8628, 3.3).
public struct ChappieDeviceCode: Sendable, Hashable, Codable {
    /// The code to type, as the service spells it: printable ASCII, at most 64 characters.
    public let userCode: String
    /// The page to type it into.
    public let verificationURL: URL
    /// When it stops being good, by this machine's wall clock; for a countdown only. The session itself measures with a
    /// clock that can't be set. At most 15 minutes away.
    public let expiresAt: Date?
    /// How long the session waits between two polls: 1 s to 60 s.
    public let pollInterval: Duration

    /// A prompt with these values.
    public init(userCode: String, verificationURL: URL, expiresAt: Date? = nil, pollInterval: Duration = .seconds(5)) {
        self.userCode = userCode
        self.verificationURL = verificationURL
        self.expiresAt = expiresAt
        self.pollInterval = pollInterval
    }
}

/// The account that is signed in: the claims of the tokens, never the tokens.
///
/// Read from the id token's claims without checking its signature; it came over TLS from the issuer itself. Good for
/// showing and for routing, not for deciding what a user may do.
public struct ChappieAccountInfo: Sendable, Hashable, Codable {
    /// The address of the account, where the token names it.
    public let email: String?
    /// The ChatGPT user.
    public let userID: String?
    /// The ChatGPT account (workspace); travels as `chatgpt-account-id`.
    public let accountID: String?
    /// The plan, where the token names it.
    public let plan: ChappiePlan?
    /// Whether requests must carry `X-OpenAI-Fedramp: true`. Default `false`.
    public let isFedRAMPAccount: Bool

    /// Facts of an account; what is not known is nil.
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

    /// Whether both are the same user in the same account, whatever has become of the plan or the address. A user that
    /// is not known is taken for the same.
    public func isSameAccount(as other: ChappieAccountInfo) -> Bool {
        guard accountID == other.accountID else { return false }
        guard let userID, let otherUserID = other.userID else { return true }
        return userID == otherUserID
    }
}

/// How an authorization was obtained (RFC 6749, 1.3), beside ``ChappieRegistration`` (who asks) and
/// ``ChappieEndpointProfile`` (where, and in which shape). The raw value is kept beside a stored credential.
///
/// A grant ends in an authorization code; the exchange of that code for tokens does not know which grant produced it.
public enum ChappieGrant: String, Sendable, Hashable {
    /// The device authorization grant in the form that ChatGPT speaks (a relative of RFC 8628).
    case deviceCode = "device_code"
}
