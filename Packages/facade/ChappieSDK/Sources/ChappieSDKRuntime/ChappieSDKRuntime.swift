public import ChappieAuth
@_exported public import ChappieRuntime
@_spi(ChappieInternals) public import ChappieSDK
@_exported public import ChappieThreadsSQLite

extension ChappieFileThreadStore {
    /// Creates a store of threads in a file on this machine. Their key is in the keyring unless the program chooses
    /// another place.
    ///
    /// ```swift
    /// let runtime = Chappie.client().runtime(store: ChappieFileThreadStore())
    /// ```
    /// The storage policy determines when the key can be read. With `.complete`, it can be read only while the keyring
    /// is unlocked and the login session is not locked. Otherwise it can be read while the keyring is unlocked. The
    /// store never falls back to plain text.
    ///
    /// - Parameters:
    ///   - directory: An absolute path. Default: a folder of the app and the user whose client creates the runtime:
    ///     `$XDG_STATE_HOME/chappie/threads/KEYCHAIN-SERVICE/DIGEST`, or the same in `~/.local/state`. Without a
    ///     runtime, use ``init(owner:storagePolicy:limits:keys:)``.
    ///   - storagePolicy: The policy for encryption and backups.
    ///   - limits: The limits for the stored data. Default 512 MiB.
    ///   - keys: The store of the key: `.keyring`, `.encryptedFile(passphrase:)` or `.custom(_:)`. With
    ///     `.memory` the threads can't be read after the process ends.
    public convenience init(
        directory: String? = nil, storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(),
        limits: ChappieFileThreadStoreLimits = .init(), keys: ChappieCredentialStorage = .keyring
    ) {
        self.init(
            directory: directory, storagePolicy: storagePolicy, limits: limits,
            keys: keys.store(storagePolicy.accessibility))
    }

    /// Creates a store of the threads of one user of this app, which also works without a runtime.
    ///
    /// ```swift
    /// let store = ChappieFileThreadStore(owner: ChappieConfiguration(keychainService: "com.example.shop").credentialSlot)
    /// ```
    /// - Parameters:
    ///   - owner: The slot of the user's credential, which a configuration names.
    ///   - storagePolicy: The policy for encryption and backups.
    ///   - limits: The limits for the stored data. Default 512 MiB.
    ///   - keys: The store of the key.
    public convenience init(
        owner: CredentialSlot, storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(),
        limits: ChappieFileThreadStoreLimits = .init(), keys: ChappieCredentialStorage = .keyring
    ) {
        self.init(
            owner: owner, storagePolicy: storagePolicy, limits: limits, keys: keys.store(storagePolicy.accessibility))
    }
}

extension ChappieFileThreadStoreStoragePolicy {
    fileprivate var accessibility: ChappieKeychainAccessibility {
        fileProtection == .complete ? .whenUnlockedThisDeviceOnly : .afterFirstUnlockThisDeviceOnly
    }
}
