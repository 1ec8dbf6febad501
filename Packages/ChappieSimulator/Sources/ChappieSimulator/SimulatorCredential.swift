public import FoundationEssentials

/// What a finished sign-in leaves behind, for programs and tests that skip the sign-in. Prints without the tokens.
public struct SimulatorCredential: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible {
    public let idToken: String
    public let accessToken: String
    public let refreshToken: String
    public let accountID: String
    public let email: String
    public let plan: String
    public let expiresAt: Date

    public var description: String { "SimulatorCredential(\(email), tokens redacted)" }
    public var debugDescription: String { description }
}
