#if canImport(Security)
    import ChappieAuth
    import ChappieCore
    import ChappieFiles
    import ChappieKeychainApple
    import ChappieURLSession

    /// The adapters of Apple's platforms: URLSession and the keychain. Without a `ByteStreamTransport` over
    /// Network.framework, answers arrive as server-sent events.
    enum PlatformAdapters {
        /// The sign-in button has its own notifier.
        static let notifier: (any Notifier)? = nil

        static func transports(for policy: ChappieNetworkPolicy) -> Transports {
            Transports(http: URLSessionHTTPTransport(policy: policy), webSocket: nil)
        }

        /// Returns the keychain, which the system unlocks with the device without asking the user.
        static func keyring(
            _ unlocking: ChappieKeyringUnlocking, _ accessibility: ChappieKeychainAccessibility,
            _ files: FileCredentialLock
        ) -> any SharedCredentialStore {
            LocalCredentialStore(KeychainCredentialStore(accessibility: accessibility), lock: files)
        }
    }
#endif
