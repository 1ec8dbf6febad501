public import FoundationEssentials

/// Progress of one device sign-in, finer than ``ChappieAuthState``.
public enum ChappieDeviceLinkState: Sendable, Hashable {
    /// No sign-in has been started. Next: `requestingCode`.
    case idle
    /// The code has been asked for. Next: `awaitingUserCode`, `cancelled`, `failed`.
    case requestingCode
    /// The code is ready to be shown. Next: `polling`, `cancelled`.
    case awaitingUserCode(ChappieDeviceCode)
    /// The service is being asked whether the person has approved. Next: `linked`, `expired`, `cancelled`, `failed`.
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
