import ChappieAuth
import ChappieKeychainLinux
import ChappieTesting

extension SecretServiceCredentialStore {
    /// As the other, on `bus`.
    static func forTests(
        on bus: PrivateBus, readDeadline: Duration = .seconds(60), writeDeadline: Duration = .seconds(60),
        unlocking: Unlocking = .never,
        accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        sessionLock: any SessionLock = ManualSessionLock()
    ) -> SecretServiceCredentialStore {
        forTests(
            on: bus.address, readDeadline: readDeadline, writeDeadline: writeDeadline, unlocking: unlocking,
            accessibility: accessibility, sessionLock: sessionLock)
    }

    /// A store on the bus at `address` that does not ask the machine's own logind. The deadlines are for a machine under load.
    static func forTests(
        on address: String, readDeadline: Duration = .seconds(60), writeDeadline: Duration = .seconds(60),
        unlocking: Unlocking = .never,
        accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        sessionLock: any SessionLock = ManualSessionLock()
    ) -> SecretServiceCredentialStore {
        SecretServiceCredentialStore(
            readDeadline: readDeadline, writeDeadline: writeDeadline, unlocking: unlocking,
            accessibility: accessibility, sessionLock: sessionLock, busAddress: address)
    }
}
