public import FoundationEssentials

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
    /// Something went wrong that a person has to look at; the string is a sentence for them.
    case failed(String)
}
