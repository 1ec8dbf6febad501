import ChappieAuth
@_exported public import ChappieRuntime
@_spi(ChappieInternals) public import ChappieSDK
@_exported public import ChappieThreadsSQLite

extension ChappieFileThreadStore {
    /// Threads in a file on this machine, with their key in the keyring unless the program chooses another place.
    ///
    /// ```swift
    /// let runtime = Chappie.client().runtime(store: ChappieFileThreadStore())
    /// ```
    /// The storage policy decides when the key can be read: with `.complete` only while the keyring is unlocked and the
    /// login session is not locked, otherwise while the keyring is unlocked. The store never falls back to plain text.
    ///
    /// - Parameters:
    ///   - directory: An absolute path. Default: `$XDG_STATE_HOME/chappie/threads`, or
    ///     `~/.local/state/chappie/threads`.
    ///   - storagePolicy: Encryption and backups.
    ///   - limits: How much may be stored. Default 512 MiB.
    ///   - keys: The store of the key: `.keyring`, `.encryptedFile(passphrase:)` or any `CredentialStore`. With
    ///     `.memory` the threads can't be read after the process ends.
    public convenience init(
        directory: String? = nil, storagePolicy: ChappieFileThreadStoreStoragePolicy = .init(),
        limits: ChappieFileThreadStoreLimits = .init(), keys: ChappieCredentialStorage = .keyring
    ) {
        let accessibility: ChappieKeychainAccessibility =
            storagePolicy.fileProtection == .complete ? .whenUnlockedThisDeviceOnly : .afterFirstUnlockThisDeviceOnly
        self.init(
            directory: directory, storagePolicy: storagePolicy, limits: limits, keys: keys.store(accessibility))
    }
}
