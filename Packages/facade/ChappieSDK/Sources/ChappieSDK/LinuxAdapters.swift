#if !canImport(Security)
    import ChappieAuth
    import ChappieCore
    import ChappieCrypto
    import ChappieCurl
    import ChappieDesktopLinux
    import ChappieHTTP
    import ChappieKeychainLinux
    import ChappieWebSocket

    /// The adapters of Linux: libcurl, the Secret Service and the desktop's notifications.
    enum PlatformAdapters {
        static let notifier: (any Notifier)? = DBusNotifier()

        /// Both transports of a network policy, which share one thread.
        static func transports(for policy: ChappieNetworkPolicy) -> Transports {
            let network = CurlNetwork(policy: policy)
            return Transports(
                http: CurlHTTPTransport(network: network), webSocket: CurlWebSocketTransport(network: network))
        }

        static func keyring(
            _ unlocking: ChappieKeyringUnlocking, _ accessibility: ChappieKeychainAccessibility
        ) -> any CredentialStore {
            let ofService: SecretServiceCredentialStore.Unlocking =
                if let limit = unlocking.limit { .promptAllowed(deadline: limit) } else { .never }
            return SecretServiceCredentialStore(unlocking: ofService, accessibility: accessibility)
        }

        /// The lock of this store's credentials, beside them. `files` is for a store without a lock.
        static func lock(of store: any CredentialStore, _ files: any CredentialLock) -> any CredentialLock {
            switch store {
            case let store as SecretServiceCredentialStore: store.lock(files)
            case let store as EncryptedFileCredentialStore: store.lock
            default: files
            }
        }
    }
#endif
