#if !canImport(Security)
    import ChappieAuth
    import ChappieCore
    import ChappieCurl
    import ChappieDesktopLinux
    import ChappieFiles
    import ChappieHTTP
    import ChappieKeychainLinux
    import ChappieWebSocket

    /// The adapters of Linux: libcurl, the Secret Service and the desktop's notifications.
    enum PlatformAdapters {
        static let notifier: (any Notifier)? = DBusNotifier()

        /// Creates both transports of a network policy, which share one thread.
        static func transports(for policy: ChappieNetworkPolicy) -> Transports {
            let network = CurlNetwork(policy: policy)
            return Transports(
                http: CurlHTTPTransport(network: network), webSocket: CurlWebSocketTransport(network: network))
        }

        static func keyring(
            _ unlocking: ChappieKeyringUnlocking, _ accessibility: ChappieKeychainAccessibility, appGroup: String?
        ) throws(CredentialStoreError) -> any SharedCredentialStore {
            let ofService: SecretServiceCredentialStore.Unlocking =
                if let limit = unlocking.limit { .promptAllowed(deadline: limit) } else { .never }
            return SecretServiceCredentialStore(
                files: ChappieCredentialStorage.userLock(), unlocking: ofService, accessibility: accessibility)
        }

        /// Returns `nil`, because the registrations are in files.
        static func registrations(accessGroup: String?) -> (any RegistrationStore)? { nil }

        static var backgroundTime: any BackgroundTime { UnlimitedBackgroundTime() }
    }
#endif
