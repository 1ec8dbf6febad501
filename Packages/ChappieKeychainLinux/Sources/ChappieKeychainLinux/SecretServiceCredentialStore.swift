@_spi(ChappieInternals) public import ChappieAuth
import FoundationEssentials

/// The login session's keyring (gnome-keyring, KWallet, KeePassXC…) through the Secret Service and libsecret.
///
/// ```swift
/// let store = SecretServiceCredentialStore()
/// try await store.save(Secret(json), in: CredentialSlot(account: "work"))
/// ```
///
/// Each call works on a connection to the session bus that is ours alone and on a thread that may block, and is given up
/// at the deadline or when its task is cancelled (``CredentialStoreError/failed(_:)``), so that neither a stuck service
/// nor a restarted one can hang the program. The connection stays, so that a token that is renewed after a load is stored
/// without delay. Calls to the same bus run one after the other, process-wide: what a save reads back is what it wrote.
///
/// libsecret is opened at run time: without it every call throws ``CredentialStoreError/absent(_:)``. A bus is never
/// started (no D-Bus autolaunch).
///
/// An item has the schema `com.chappie.Credential`, the attributes `service`, `account` and, when the slot has them,
/// `access-group` and `issuer`. Linux does not enforce access groups: every program of the session can read every item of
/// an unlocked keyring.
///
/// Linux does not enforce accessibility levels either; this store keeps to them by itself. Both levels need the
/// collection unlocked; ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly`` also refuses to *read* while the
/// login session is locked. Saving and deleting don't look at the session's lock: a token that was renewed just when
/// the screen went dark would be lost for good.
///
/// Secret Service API: <https://specifications.freedesktop.org/secret-service/>
public struct SecretServiceCredentialStore: CredentialStore {
    /// Whether a locked keyring may be unlocked by asking the user.
    public enum Unlocking: Sendable, Hashable {
        /// The user is not asked: a locked keyring is ``CredentialStoreError/locked(_:)`` at once. For everything that
        /// runs unattended.
        case never
        /// The keyring service may show its prompt, and gives the user `deadline` to answer it. A dismissed prompt is
        /// ``CredentialStoreError/denied(_:)``, an unanswered one is taken back and
        /// ``CredentialStoreError/timedOut(_:)``. `deadline` must be positive; a minute is a good value.
        case promptAllowed(deadline: Duration)
    }

    private let readDeadline: Duration
    private let writeDeadline: Duration
    private let promptDeadline: Duration?
    private let accessibility: ChappieKeychainAccessibility
    private let sessionLock: any SessionLock
    private let busAddress: String?

    /// - Parameters:
    ///   - readDeadline: How long a load may take, all of its steps together, but for a prompt. Must be positive. Default
    ///     5 seconds.
    ///   - writeDeadline: How long a save (which reads back) or a delete may take, likewise. Must be positive. Default
    ///     10 seconds.
    ///   - unlocking: Whether the user may be asked to unlock a keyring. Default ``Unlocking/never``. Services may also
    ///     ask before they make or remove an item (KeePassXC does, if it is set so); that needs no permission, but
    ///     without it the answer has to come within `writeDeadline`.
    ///   - accessibility: When a credential may be read. Default
    ///     ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly``.
    ///   - sessionLock: Tells whether the login session is locked; asked before each load, and only for
    ///     `whenUnlockedThisDeviceOnly`. Its deadline comes on top of `readDeadline`. Default ``LogindSessionLock``.
    ///   - busAddress: The D-Bus address of the bus to use. Default `nil`: the value of `DBUS_SESSION_BUS_ADDRESS` at the
    ///     time of each call, otherwise the socket `$XDG_RUNTIME_DIR/bus`.
    public init(
        readDeadline: Duration = .seconds(5), writeDeadline: Duration = .seconds(10), unlocking: Unlocking = .never,
        accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        sessionLock: any SessionLock = LogindSessionLock(), busAddress: String? = nil
    ) {
        promptDeadline = if case .promptAllowed(let deadline) = unlocking { deadline } else { nil }
        precondition(
            min(readDeadline, writeDeadline, promptDeadline ?? readDeadline) > .zero,
            "A keyring call needs a deadline above zero.")
        self.readDeadline = readDeadline
        self.writeDeadline = writeDeadline
        self.accessibility = accessibility
        self.sessionLock = sessionLock
        self.busAddress = busAddress
    }

    /// The secret in `slot`; `nil` when the keyring is readable and has none.
    ///
    /// - Throws: `absent`, `locked` (the keyring, or the login session), `denied`, `timedOut`, `corrupt` or `failed`.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        if accessibility == .whenUnlockedThisDeviceOnly, try await sessionLock.state() == .locked {
            throw .locked("the login session is locked")
        }
        return try await inSession(for: slot, within: readDeadline) { try $0.load(slot) }
    }

    /// Stores `secret`, reads it back through a new look-up, and returns when both are the same bytes.
    ///
    /// - Throws: `absent` (also when the service has no default keyring), `locked`, `denied`, `timedOut`,
    ///   `notVerified` or `failed`. After `timedOut` and a cancellation the service may still carry out a write that it
    ///   has already received.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await inSession(for: slot, within: writeDeadline) { try $0.save(secret, in: slot) }
    }

    /// Makes sure that a save can succeed: there is a keyring for it, and it is unlocked, which is asked for here where the
    /// user may be asked. Writes nothing.
    ///
    /// - Throws: `absent` (also when the service has no default keyring), `locked`, `denied`, `timedOut` or `failed`.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await inSession(for: slot, within: readDeadline) { try $0.prepareToSave(in: slot) }
    }

    /// Removes the secret in `slot`; an empty slot is not an error.
    ///
    /// - Throws: `absent`, `locked`, `denied`, `timedOut` or `failed`.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        try await inSession(for: slot, within: writeDeadline) { try $0.delete(slot) }
    }

    private func inSession<Output: Sendable>(
        for slot: CredentialSlot, within deadline: Duration,
        _ work: @escaping @Sendable (KeyringSession) throws -> Output
    ) async throws(CredentialStoreError) -> Output {
        try CredentialItem.check(slot)
        let environment = ProcessInfo.processInfo.environment
        let address = if let busAddress { busAddress } else { try BusAddress.session(environment) }
        let limits = KeyringLimits(work: deadline, prompt: promptDeadline)
        return try await BusWorker.worker(for: address).inSession(limits, work)
    }
}

extension FileCredentialLock {
    /// The lock in the folder that all programs of this user share: `$XDG_STATE_HOME/chappie/locks`, and
    /// `~/.local/state/chappie/locks` without that variable.
    ///
    /// - Parameter variable: looks up a variable of the process.
    public static func userDefault(_ variable: (String) -> String?) -> FileCredentialLock {
        let home = variable("HOME").flatMap { $0.isEmpty ? nil : $0 + "/.local/state" }
        let state = variable("XDG_STATE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil } ?? home
        return FileCredentialLock(directory: state.map { $0 + "/chappie/locks" })
    }
}
