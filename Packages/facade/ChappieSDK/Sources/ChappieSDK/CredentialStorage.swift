public import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieCrypto
@_spi(ChappieInternals) public import ChappieFiles
import Synchronization

/// The place in which ``Chappie`` stores credentials. It is ``keyring`` unless the program chooses another place.
///
/// ```swift
/// let storage: ChappieCredentialStorage = .encryptedFile(passphrase: .environment)
/// let session = Chappie.authSession(store: storage)
/// let client = Chappie.client(store: storage)
/// ```
/// There is no fallback. If the chosen place can't be used, the session reports the reason.
public struct ChappieCredentialStorage: Sendable {
    enum Place: Sendable {
        case keyring(ChappieKeyringUnlocking)
        case memory
        /// Two places with equal identities and folders are the same.
        case encryptedFile(Result<EncryptedFileCredentialStore, CredentialStoreError>, ChappiePassphrase.Identity)
        case custom(any CredentialStore, Identity)
    }

    let place: Place
    private static let sharedMemory = ChappieEphemeralCredentialStore()
    private static let lastNumber = Atomic(0)

    /// The keyring of the login session, over the Secret Service, and on Apple's platforms the keychain. The
    /// configuration's `keychainAccessibility` specifies when it can be read. The user is not asked to unlock it. This
    /// is the default.
    public static let keyring = ChappieCredentialStorage(place: .keyring(.never))

    /// Returns the keyring, which may ask the user to unlock it. It is for programs with a window.
    ///
    /// ```swift
    /// let storage: ChappieCredentialStorage = .keyring(unlocking: .promptAllowed)
    /// ```
    /// It is the same place as ``keyring``. Sessions and clients of a process share the setting of the first of them.
    public static func keyring(unlocking: ChappieKeyringUnlocking) -> ChappieCredentialStorage {
        ChappieCredentialStorage(place: .keyring(unlocking))
    }

    /// This process's memory, with one place for each slot. It ends with the process. It is for temporary sign-ins and
    /// for tests.
    public static let memory = ChappieCredentialStorage(place: .memory)

    /// Returns an encrypted file for each slot (AES-256-GCM, with a key made by scrypt). It is for machines without a
    /// keyring.
    ///
    /// - Parameters:
    ///   - passphrase: The source of the passphrase, which the store asks when it first needs the passphrase.
    ///   - directory: An absolute path. Default: `$XDG_DATA_HOME/chappie/credentials`, or
    ///     `~/.local/share/chappie/credentials`, which the program `chappie` also uses. On Apple's platforms,
    ///     `credentials` in the program's own folder of Application Support.
    public static func encryptedFile(
        passphrase: ChappiePassphrase, directory: String? = nil
    ) -> ChappieCredentialStorage {
        let store = Result { () throws(CredentialStoreError) in
            try EncryptedFileCredentialStore(directory: directory, passphrase: passphrase.source)
        }
        return ChappieCredentialStorage(place: .encryptedFile(store, passphrase.identity))
    }

    /// Returns an encrypted file with a passphrase that the program already has. A passphrase in the source text is not
    /// secret, so use it only in tests.
    public static func encryptedFile(passphrase: String, directory: String? = nil) -> ChappieCredentialStorage {
        encryptedFile(passphrase: ChappiePassphrase(passphrase), directory: directory)
    }

    /// Returns an encrypted file with a passphrase that the program asks for. See ``ChappiePassphrase/asking(_:)``.
    public static func encryptedFile(
        directory: String? = nil, passphrase: @escaping @Sendable () async throws -> String?
    ) -> ChappieCredentialStorage {
        encryptedFile(passphrase: .asking { _ in try await passphrase() }, directory: directory)
    }

    /// Returns a storage for any other store.
    ///
    /// A plain `CredentialStore` is for one machine, because its lock is in this machine's state folder. A place that
    /// several machines can reach, such as a row of a database, needs a `SharedCredentialStore`, which brings a lock of
    /// that place. Without it two machines send the same single-use refresh token, and the user's sign-in ends.
    ///
    /// Each call with a store that is neither an object nor `Hashable` is another place, because such stores can't be
    /// compared. Give the same storage to the session and to its clients. Otherwise each of them has its own
    /// credential, as if it were another process.
    public static func custom(_ store: any CredentialStore) -> ChappieCredentialStorage {
        let identity: Identity =
            if type(of: store) is AnyClass {
                // The manager keeps the object alive, so that no other object gets its identity.
                .object(ObjectIdentifier(store as AnyObject))
            } else if let store = store as? any CredentialStore & Hashable {
                .value(HashableStore(store: store))
            } else {
                .number(lastNumber.add(1, ordering: .relaxed).newValue)
            }
        return ChappieCredentialStorage(place: .custom(store, identity))
    }

    /// Returns the store at this place, with the lock that keeps other processes out of the place. If the store can't
    /// be created, every call of it throws the reason.
    ///
    /// - Parameter appGroup: The app group of the programs that share a credential in Apple's keychain. Default none.
    @_spi(ChappieInternals) public func store(
        _ accessibility: ChappieKeychainAccessibility, appGroup: String? = nil
    ) -> any SharedCredentialStore {
        do throws(CredentialStoreError) {
            return switch place {
            case .keyring(let unlocking): try PlatformAdapters.keyring(unlocking, accessibility, appGroup: appGroup)
            case .memory: LocalCredentialStore(Self.sharedMemory, lock: NoCredentialLock())
            case .encryptedFile(let store, _): try store.get()
            case .custom(let store as any SharedCredentialStore, _): store
            case .custom(let store, _): LocalCredentialStore(store, lock: Self.userLock())
            }
        } catch {
            return LocalCredentialStore(NoStore(reason: error), lock: NoCredentialLock())
        }
    }

    /// Returns the lock in this user's state folder.
    @_spi(ChappieInternals) public static func userLock() -> FileCredentialLock {
        .userDefault { ProcessInfo.processInfo.environment[$0] }
    }

    /// The identity of a store. Stores with equal identities share a manager. These are stores at the same place, the
    /// same object, or equal values.
    enum Identity: Hashable, Sendable {
        case keyring
        case memory
        case encryptedFile(directory: String?, ChappiePassphrase.Identity)
        case object(ObjectIdentifier)
        case value(HashableStore)
        /// A storage whose store can't be compared.
        case number(Int)
    }

    var isKeyring: Bool { if case .keyring = place { true } else { false } }

    var identity: Identity {
        switch place {
        case .keyring: .keyring
        case .memory: .memory
        case .encryptedFile(let store, let passphrase):
            .encryptedFile(directory: (try? store.get())?.directory, passphrase)
        case .custom(_, let identity): identity
        }
    }

    /// Returns whether both are the same place, so that sessions and clients of both share a credential.
    @_spi(ChappieInternals) public func isSamePlace(as other: ChappieCredentialStorage) -> Bool {
        identity == other.identity
    }

    struct HashableStore: Hashable, Sendable {
        let store: any CredentialStore & Hashable

        static func == (left: HashableStore, right: HashableStore) -> Bool {
            AnyHashable(left.store) == AnyHashable(right.store)
        }

        func hash(into hasher: inout Hasher) { AnyHashable(store).hash(into: &hasher) }
    }
}

/// A setting for whether the desktop may ask the user to unlock the keyring.
public struct ChappieKeyringUnlocking: Sendable, Hashable {
    /// The time that the user has, or `nil` if the user is not asked.
    let limit: Duration?

    /// A locked keyring is an error at once (`locked`). This is for programs that run unattended.
    public static let never = Self(limit: nil)

    /// The desktop's own dialogue may ask, and the user has a minute.
    public static let promptAllowed = Self.promptAllowed(within: .seconds(60))

    /// Returns a setting with which the desktop's own dialogue may ask. The user has this time, which must be positive.
    /// A dialogue that is dismissed is `denied`, and an unanswered one is `timedOut`.
    public static func promptAllowed(within limit: Duration) -> Self {
        Self(limit: limit)
    }
}

/// A replacement for a store that can't be created, for example without a home directory.
private struct NoStore: CredentialStore {
    let reason: CredentialStoreError

    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? { throw reason }
    func prepareToSave(in slot: CredentialSlot) throws(CredentialStoreError) { throw reason }
    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) { throw reason }
    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) { throw reason }
}

/// A store that keeps credentials in this process's memory until the process ends.
///
/// It is for temporary sign-ins, and for machines on which the user wants to store nothing. It is never a fallback. A
/// program must choose it.
public actor ChappieEphemeralCredentialStore: CredentialStore {
    private var secrets: [CredentialSlot: Secret] = [:]

    /// Creates an empty store.
    public init() {}

    /// Returns the last saved secret.
    public func load(_ slot: CredentialSlot) -> Secret? { secrets[slot] }
    /// Saves the secret.
    public func save(_ secret: Secret, in slot: CredentialSlot) { secrets[slot] = secret }
    /// Deletes the secret.
    public func delete(_ slot: CredentialSlot) { secrets[slot] = nil }
}
