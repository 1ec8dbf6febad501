#if canImport(Security)
    import ChappieAuth
    import ChappieCore
    import ChappieCrypto
    import ChappieKeychainApple
    import ChappieURLSession

    /// The adapters of Apple's platforms: URLSession and the keychain. Without a `ByteStreamTransport` over
    /// Network.framework, answers come as server-sent events.
    enum PlatformAdapters {
        /// The sign-in button has its own notifier.
        static let notifier: (any Notifier)? = nil

        static func transports(for policy: ChappieNetworkPolicy) -> Transports {
            Transports(http: URLSessionHTTPTransport(policy: policy), webSocket: nil)
        }

        /// The system unlocks its keychain with the device and does not ask the user.
        static func keyring(
            _ unlocking: ChappieKeyringUnlocking, _ accessibility: ChappieKeychainAccessibility
        ) -> any CredentialStore { KeychainCredentialStore(accessibility: accessibility) }

        /// The lock of this store's credentials. `files` is for a store without one.
        static func lock(of store: any CredentialStore, _ files: any CredentialLock) -> any CredentialLock {
            (store as? EncryptedFileCredentialStore)?.lock ?? files
        }
    }
#endif
