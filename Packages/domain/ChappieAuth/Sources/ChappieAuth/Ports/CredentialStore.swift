@_spi(ChappieInternals) public import ChappieCore

/// The place of a credential in a store. One slot holds one user's sign-in.
public struct CredentialSlot: Sendable, Hashable, Codable {
    /// The namespace, in reverse-DNS form. Default `com.chappie.sdk`.
    public let service: String
    /// The user of the host app. Default `default`.
    public let account: String
    /// The access group, with which several programs share one item. Apple's systems enforce it. Linux stores it as an
    /// attribute and does not enforce it.
    public let accessGroup: String?
    /// The issuer, the backend and the OAuth client of the credential, or `nil` for the default ones. A store must
    /// separate slots that differ only in this.
    public let issuer: String?

    /// Creates a slot with these names.
    public init(
        service: String = "com.chappie.sdk", account: String = "default", accessGroup: String? = nil,
        issuer: String? = nil
    ) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
        self.issuer = issuer
    }

    /// The name of the slot's item in a keyring program.
    @_spi(ChappieInternals) public var label: String {
        let place = "(\(service)\(issuer.map { ", \($0)" } ?? ""))"
        // The accounts of the keys of thread stores have this prefix.
        return account.hasPrefix("threads-")
            ? "Chappie key of stored threads \(place)" : "Chappie credential for \(account) \(place)"
    }

    /// Throws if a name contains a NUL character. C strings end at the first one, so two different slots could become
    /// one.
    @_spi(ChappieInternals) public func checkNames() throws(CredentialStoreError) {
        guard ![service, account, accessGroup ?? "", issuer ?? ""].contains(where: { $0.utf8.contains(0) }) else {
            throw .failed("the names of a credential's slot can't contain a NUL character")
        }
    }

    /// A digest of the names, for the name of a lock or a setting. If two slots have the same digest, they share a lock,
    /// which is harmless.
    @_spi(ChappieInternals) public var digest: String {
        FNV1a.hexadecimal([service, account, accessGroup ?? ""] + [issuer].compactMap(\.self))
    }
}

/// The conditions for reading a stored credential.
///
/// Apple's systems enforce them, also when a credential is stored. On Linux, both conditions require that the keyring's
/// collection is unlocked. The first also requires that the login session is not locked, if there is one.
public enum ChappieKeychainAccessibility: String, Sendable, Hashable, Codable {
    /// Only while the device is unlocked. The credential never moves to another device. This is the default.
    case whenUnlockedThisDeviceOnly
    /// Also in the background, after the first unlock since the device started.
    case afterFirstUnlockThisDeviceOnly
}

/// A store that keeps one secret per slot, for the processes of one machine: the OS keyring, an encrypted file, or
/// memory.
///
/// A place that several machines can reach, such as a row of a database, needs a ``SharedCredentialStore``. With a
/// plain store each machine has its own lock, two machines send the same single-use refresh token, and the sign-in
/// ends.
///
/// A store never falls back to another place and never keeps a copy.
///
/// A complete fake:
/// ```swift
/// actor Memory: CredentialStore {
///     private var secrets: [CredentialSlot: Secret] = [:]
///     func load(_ slot: CredentialSlot) -> Secret? { secrets[slot] }
///     func save(_ secret: Secret, in slot: CredentialSlot) { secrets[slot] = secret }
///     func delete(_ slot: CredentialSlot) { secrets[slot] = nil }
/// }
/// ```
public protocol CredentialStore: Sendable {
    /// Returns the secret in `slot`, or `nil` if the slot is empty, which is not an error.
    ///
    /// - Throws: ``CredentialStoreError``. The call never waits longer than the store's own deadline.
    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret?

    /// Reads the secret in `slot` before it is deleted, so that its tokens can be revoked. The default calls
    /// ``load(_:)``. The secret is not used for requests, so a store needs no condition for its use here, such as an
    /// unlocked screen.
    ///
    /// - Throws: The errors of ``load(_:)``.
    func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret?

    /// Checks whether ``save(_:in:)`` can work, before a sign-in asks the user for anything and before a renewal uses
    /// up the refresh token. Unlocks the store if necessary and asks for a passphrase, unless ``load(_:)`` has already
    /// done so. The default does nothing.
    ///
    /// In a ``SharedCredentialStore`` this is the last call before a renewal sends the refresh token. If its lock is a
    /// lease, this is the place to make sure that the lease lasts until the answer is stored.
    ///
    /// - Throws: ``CredentialStoreError``. The stored secret is unchanged.
    func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError)

    /// Replaces the secret in `slot`. Returns once the secret has been written, read back and compared.
    ///
    /// - Throws: ``CredentialStoreError``. The earlier secret is then still stored, or no loss is known.
    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError)

    /// Removes the secret in `slot`. An empty slot is not an error.
    ///
    /// - Throws: ``CredentialStoreError``.
    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError)

    /// Returns a stream with an element whenever a store that was locked may be readable again. A session that could not
    /// read a locked store then reads it again. The default returns a stream that has ended.
    func unlocks() -> AsyncStream<Void>
}

extension CredentialStore {
    /// Returns the result of ``load(_:)``.
    public func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await load(slot)
    }

    /// Does nothing, for stores that are always ready.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {}

    /// Returns a stream that has ended, for stores that do not learn when they are unlocked.
    public func unlocks() -> AsyncStream<Void> { AsyncStream { $0.finish() } }
}

/// The reason why a credential store failed. Each case needs another message for the user.
public enum CredentialStoreError: Error, Sendable, Hashable {
    /// The machine has no such store, because there is no session bus, no keyring service, or a library is missing.
    case absent(String)
    /// The keyring is locked and could not be unlocked without asking the user.
    case locked(String)
    /// The credential is read only while the login session is not locked, and the system does not report whether it is
    /// locked.
    case sessionUnknown(String)
    /// The store refused access, because the user dismissed the prompt or permissions forbid it.
    case denied(String)
    /// The store did not answer within its deadline.
    case timedOut(Duration)
    /// The stored bytes are not a credential document.
    case corrupt(String)
    /// A newer version of the program has written what the string names. It is unchanged. `found` is the version of its
    /// format, and `known` the newest one that this program reads.
    case tooNew(String, found: Int, known: Int)
    /// The store returned bytes other than those it was given.
    case notVerified
    /// Another process held the credential's lock during all of this time.
    case busy(Duration)
    /// This process's hold of the credential's lock has ended, and another process may have changed the credential.
    /// Nothing was saved or deleted. This is for a ``SharedCredentialStore`` whose lock can end before it is released.
    case overtaken
    /// The passphrase does not fit the encrypted file at this path. The file is unchanged.
    case wrongPassphrase(String)
    /// An encrypted file needs a passphrase, and none is available. The string has the reason.
    case noPassphrase(String)
    /// Other users could read, change or replace this file or folder. `remedy` is the advice for the user.
    case unsafeFile(String, remedy: String)
    /// There is no folder in which this user can store anything. No home directory is known, the files there belong to
    /// root, or the file system lacks a required feature. `remedy` is the advice for the user.
    case unusableFolder(String, remedy: String)
    /// The stored credential is from another issuer or for another backend than those this program is configured for.
    /// The string names them. The credential is unchanged.
    case foreign(String)
    /// This program can't use the folder of the app group that the configuration names. The string has the reason. This
    /// occurs only on Apple's platforms.
    case noSharedFolder(String)
    /// Any other failure. The string is the store's own message.
    case failed(String)
}

extension CredentialStoreError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? { sentence(onApple: Self.isOnApple) }

    /// The user's next step.
    public var recoverySuggestion: String? {
        Self.isOnApple ? adviceOnApple ?? advice : advice
    }

    #if canImport(Security)
        private static let isOnApple = true
    #else
        private static let isOnApple = false
    #endif

    func sentence(onApple: Bool) -> String {
        let keyring = onApple ? "keychain" : "keyring"
        return switch self {
        case .absent(let detail): "No \(keyring) is available: \(detail)."
        case .locked(let detail): "The \(keyring) is locked: \(detail)."
        case .sessionUnknown(let detail):
            "The credential was not read, because logind does not say whether the screen is locked: \(detail)."
        case .denied(let detail): "The \(keyring) refused access: \(detail)."
        case .timedOut(let limit): "The credential store did not answer within \(limit.components.seconds) s."
        case .corrupt(let detail): "The stored credential can't be read: \(detail)."
        case .tooNew(let name, let found, let known):
            "\(name) was written by a newer version of this program (format \(found), this version knows \(known))."
        case .notVerified: "The credential store accepted the credential but gave back something else."
        case .busy(let limit):
            "Another program has been changing this sign-in for more than \(limit.components.seconds) s."
        case .overtaken: "Another program or machine has taken over the change of this sign-in."
        case .wrongPassphrase(let path): "The passphrase does not open \(path)."
        case .noPassphrase(let detail): "There is no passphrase for the encrypted credential file: \(detail)."
        case .unsafeFile(let reason, _): "This is not safe to use: \(reason)."
        case .unusableFolder(let reason, _): "The credential store can't be used: \(reason)."
        case .foreign(let detail): "The stored credential belongs to another service: \(detail)."
        case .noSharedFolder(let detail): "The app group of this credential can't be used: \(detail)."
        case .failed(let detail): "The credential store failed: \(detail)."
        }
    }

    private var advice: String {
        switch self {
        case .absent:
            """
            Start a keyring service such as gnome-keyring in this login session, or choose an encrypted file: give the \
            session and the client `store: .encryptedFile(passphrase:)`.
            """
        case .locked: "Unlock the keyring (log in to the desktop, or open your password manager) and try again."
        case .sessionUnknown:
            "Restart logind, the system's login manager (`sudo systemctl restart systemd-logind`), and try again."
        case .denied: "Allow this program to use the keyring and try again."
        case .timedOut:
            "Look for an unanswered keyring prompt or a disk that doesn't answer, or restart the keyring service."
        case .corrupt: "Nothing was deleted. Sign in again to replace it."
        case .tooNew: "Update this program. Nothing was changed."
        case .busy, .overtaken: "Try again in a moment. If the problem stays, look for a program that hangs."
        case .wrongPassphrase:
            """
            Nothing was changed. Try again with the passphrase the file was made with. If it is lost, sign out, \
            which removes the file, and sign in again.
            """
        case .noPassphrase:
            """
            Put it into a file that only you can read and name that file to the program, pass it as the systemd \
            credential chappie-passphrase, or run the program in a terminal.
            """
        case .unsafeFile(_, let remedy), .unusableFolder(_, let remedy): remedy
        case .foreign:
            "It was not changed. Check the configured addresses, or use another account name for this service."
        case .noSharedFolder:
            """
            Add the app group to the App Groups capability of every program that shares the credential, or remove it \
            from the configuration (`appGroup:`).
            """
        case .notVerified, .failed:
            "Check the keyring service, or the disk on which the credential is stored, and try again."
        }
    }
    /// The user's next step on Apple's platforms, if it differs from the one on Linux.
    var adviceOnApple: String? {
        switch self {
        case .absent:
            """
            Log in to the device. A program without a user's session needs another store: give the session and the \
            client `store: .memory` or a `CredentialStore` of its own.
            """
        case .locked: "Unlock the device and try again."
        case .denied:
            """
            Allow the program to use the keychain if the system asks. If an entitlement is missing, add the access \
            group under Keychain Sharing in the target's capabilities, and sign the program again.
            """
        case .timedOut: "Look for an unanswered question of the system or a disk that doesn't answer, and try again."
        case .notVerified, .failed: "Try again. If the problem stays, restart the device."
        default: nil
        }
    }
}
