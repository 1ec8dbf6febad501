public import FoundationEssentials

/// What a person needs to approve a sign-in on another screen (RFC 8628, 3.3).
public struct ChappieDeviceCode: Sendable, Hashable {
    /// The code to type, as the service spells it: printable ASCII, at most 64 characters.
    public let userCode: String
    /// The page to type it into.
    public let verificationURL: URL
    /// When it stops being good, by this machine's wall clock; for a countdown only. The session itself measures with a
    /// clock that nobody sets. At most 15 minutes away.
    public let expiresAt: Date?
    /// How long the session waits between two polls: 1 s to 60 s.
    public let pollInterval: Duration

    public init(userCode: String, verificationURL: URL, expiresAt: Date? = nil, pollInterval: Duration = .seconds(5)) {
        self.userCode = userCode
        self.verificationURL = verificationURL
        self.expiresAt = expiresAt
        self.pollInterval = pollInterval
    }
}
