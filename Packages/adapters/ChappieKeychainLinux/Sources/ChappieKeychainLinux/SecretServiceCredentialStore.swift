@_spi(ChappieInternals) public import ChappieAuth
import FoundationEssentials

/// A store that uses the login session's keyring (gnome-keyring, KWallet, KeePassXC…) through the Secret Service and
/// libsecret.
///
/// ```swift
/// let store = SecretServiceCredentialStore(
///     files: FileCredentialLock.userDefault { ProcessInfo.processInfo.environment[$0] })
/// try await store.save(Secret(json), in: CredentialSlot(account: "work"))
/// ```
///
/// Each call runs on a private connection to the session bus and on a thread that may block. It ends at the deadline or
/// when its task is cancelled (``CredentialStoreError/failed(_:)``), so that neither a stuck service nor a restarted
/// one can block the program. The connection stays open, so that a token that is renewed after a load is stored without
/// delay. Calls to the same bus run one after the other in the entire process. As a result, a save reads back the bytes
/// that it wrote.
///
/// The store opens libsecret at run time. Without the library, every call throws ``CredentialStoreError/absent(_:)``.
/// The store never starts a bus (no D-Bus autolaunch).
///
/// An item has the schema `com.chappie.Credential`, the attributes `service` and `account`, and, if the slot has them,
/// `access-group` and `issuer`. Linux does not enforce access groups, so every program of the session can read every
/// item of an unlocked keyring.
///
/// Linux does not enforce accessibility levels either. This store observes them itself. Both levels need an unlocked
/// collection. ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly`` also refuses to *read* while the login
/// session is locked, and while logind does not report whether it is. A save and a deletion ignore the session's lock.
/// Otherwise a token that was renewed when the screen was being locked would be lost forever, and a user who signs out
/// would leave tokens that are still valid.
///
/// Secret Service API: <https://specifications.freedesktop.org/secret-service/>
public struct SecretServiceCredentialStore: SharedCredentialStore {
    /// Whether the keyring service may ask the user to unlock a keyring.
    public enum Unlocking: Sendable, Hashable {
        /// The service does not ask the user. A keyring that can't be unlocked without a question causes
        /// ``CredentialStoreError/locked(_:)``. Programs that run unattended use this.
        case never
        /// The keyring service may show its prompt, and the user has `deadline` to answer it. A dismissed prompt throws
        /// ``CredentialStoreError/denied(_:)``. An unanswered prompt is withdrawn and throws
        /// ``CredentialStoreError/timedOut(_:)``. `deadline` must be positive. A minute is a good value.
        case promptAllowed(deadline: Duration)
    }

    private let readDeadline: Duration
    private let writeDeadline: Duration
    private let promptDeadline: Duration?
    private let accessibility: ChappieKeychainAccessibility
    private let sessionLock: any SessionLock
    private let busAddress: String?
    private let environment: @Sendable () -> [String: String]
    /// A lock on the session bus, which is shared wherever the keyring is shared, combined with a lock in files.
    public let lock: any CredentialLock
    /// The notes on the credentials, stored in files.
    public let notes: any CredentialNotes

    /// Creates a store.
    ///
    /// - Parameters:
    ///   - files: A lock that excludes the processes with the same state folder, and keeps the notes and the marks. Use
    ///     `FileCredentialLock` of ChappieFiles.
    ///   - readDeadline: The limit for all steps of a load together, without a prompt. Must be positive. The default is
    ///     5 seconds.
    ///   - writeDeadline: The limit for all steps of a save (which reads back) or a deletion, without a prompt. Must be
    ///     positive. The default is 10 seconds.
    ///   - unlocking: Whether the user may be asked to unlock a keyring. The default is ``Unlocking/never``. A service
    ///     may also ask before it creates or removes an item (KeePassXC can be set to do so). That needs no permission
    ///     here, but without permission the user must answer within `writeDeadline`.
    ///   - accessibility: The condition for reading a credential. The default is
    ///     ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly``.
    ///   - sessionLock: A lock that reports whether the login session is locked. The store asks it before each load,
    ///     but only for `whenUnlockedThisDeviceOnly`. Its deadline is added to `readDeadline`. The default is
    ///     ``LogindSessionLock``.
    ///   - busAddress: The D-Bus address of the bus. With `nil`, which is the default, it is the value of
    ///     `DBUS_SESSION_BUS_ADDRESS` at the time of each call, or otherwise the socket `$XDG_RUNTIME_DIR/bus`.
    public init(
        files: any CredentialLock & CredentialNotes, readDeadline: Duration = .seconds(5),
        writeDeadline: Duration = .seconds(10), unlocking: Unlocking = .never,
        accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        sessionLock: any SessionLock = LogindSessionLock(), busAddress: String? = nil
    ) {
        self.init(
            files: files, readDeadline: readDeadline, writeDeadline: writeDeadline, unlocking: unlocking,
            accessibility: accessibility, sessionLock: sessionLock, busAddress: busAddress
        ) { ProcessInfo.processInfo.environment }
    }

    init(
        files: any CredentialLock & CredentialNotes, readDeadline: Duration, writeDeadline: Duration,
        unlocking: Unlocking,
        accessibility: ChappieKeychainAccessibility, sessionLock: any SessionLock, busAddress: String?,
        environment: @escaping @Sendable () -> [String: String]
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
        self.environment = environment
        lock = SessionBusCredentialLock(files: files, busAddress: busAddress)
        notes = files
    }

    /// Returns the secret in `slot`, or `nil` if the keyring is readable and the slot is empty.
    ///
    /// - Throws: `absent`, `locked` (the keyring, or the login session), `sessionUnknown`, `denied`, `timedOut`,
    ///   `corrupt` or `failed`.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        if accessibility == .whenUnlockedThisDeviceOnly, try await sessionLock.state() == .locked {
            throw .locked("the login session is locked")
        }
        return try await loadForDeletion(slot)
    }

    /// Reads the secret in `slot`, whether the login session is locked or not.
    ///
    /// - Throws: The errors of ``load(_:)``, except those about the login session.
    public func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await inSession(for: slot, within: readDeadline) { try $0.load(slot) }
    }

    /// Stores `secret`, reads it back through a new search, and returns if both have the same bytes.
    ///
    /// - Throws: `absent` (also if the service has no default keyring), `locked`, `denied`, `timedOut`, `notVerified`
    ///   or `failed`. After `timedOut` and after a cancellation, the service may still execute a write that it has
    ///   already received.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await inSession(for: slot, within: writeDeadline) { try $0.save(secret, in: slot) }
    }

    /// Checks that a save can succeed: there is a keyring for it, and it is unlocked. If prompts are allowed, the
    /// service now asks the user to unlock it. Writes nothing.
    ///
    /// - Throws: `absent` (also if the service has no default keyring), `locked`, `denied`, `timedOut` or `failed`.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await inSession(for: slot, within: readDeadline) { try $0.prepareToSave(in: slot) }
    }

    /// Removes the secret in `slot`. An empty slot is not an error.
    ///
    /// - Throws: `absent`, `locked`, `denied`, `timedOut` or `failed`.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        try await inSession(for: slot, within: writeDeadline) { try $0.delete(slot) }
    }

    private func inSession<Output: Sendable>(
        for slot: CredentialSlot, within deadline: Duration,
        _ work: @escaping @Sendable (KeyringSession) throws -> Output
    ) async throws(CredentialStoreError) -> Output {
        try slot.checkNames()
        let environment = environment()
        let address = if let busAddress { busAddress } else { try BusAddress.session(environment) }
        let limits = KeyringLimits(work: deadline, prompt: promptDeadline, environment: environment)
        return try await BusWorker.worker(for: address).inSession(limits, work)
    }
}
