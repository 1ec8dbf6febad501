#if canImport(Security)
    import ChappieAuth
    import ChappieCore
    import ChappieFiles
    import ChappieKeychainApple
    import ChappieURLSession
    import ChappieWebSocket

    /// The adapters of Apple's platforms: URLSession, Network.framework and the keychain.
    enum PlatformAdapters {
        /// The sign-in button has its own notifier.
        static let notifier: (any Notifier)? = nil

        static func transports(for policy: ChappieNetworkPolicy) -> Transports {
            Transports(
                http: URLSessionHTTPTransport(policy: policy),
                webSocket: StreamWebSocketTransport(
                    over: NetworkByteStreamTransport(policy: policy), deadlines: policy.deadlines))
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
