/// When a stored credential may be read.
///
/// On Linux both ask that the keyring's collection is unlocked, and the first additionally that the login session is
/// not locked, where there is one.
public enum ChappieKeychainAccessibility: String, Sendable, Hashable, Codable {
    /// Only while the device is unlocked; never moves to another device. The default.
    case whenUnlockedThisDeviceOnly
    /// Also in the background, once the device has been unlocked since it started.
    case afterFirstUnlockThisDeviceOnly
}
