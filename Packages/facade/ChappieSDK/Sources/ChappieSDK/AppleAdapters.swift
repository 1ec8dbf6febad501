#if canImport(Security)
    import ChappieAuth
    import ChappieCore
    @_spi(ChappieInternals) import ChappieFiles
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
        ///
        /// - Parameter appGroup: The app group whose folder has the notes, or `nil` if the keychain has them.
        static func keyring(
            _ unlocking: ChappieKeyringUnlocking, _ accessibility: ChappieKeychainAccessibility, appGroup: String?
        ) throws(CredentialStoreError) -> any SharedCredentialStore {
            var notes: (any CredentialNotes)?
            if let appGroup { notes = try FileCredentialLock.notes(inAppGroup: appGroup) }
            return KeychainCredentialStore(accessibility: accessibility, notes: notes)
        }

        /// Returns the registrations of the programs that share the keychain's credentials.
        static func registrations(accessGroup: String?) -> (any RegistrationStore)? {
            KeychainRegistrationStore(accessGroup: accessGroup)
        }

        static var backgroundTime: any BackgroundTime { SystemBackgroundTime() }
    }
#endif
