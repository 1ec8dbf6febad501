@_spi(ChappieInternals) public import ChappieAuth
public import ChappieClient
import ChappieCore
import ChappieCrypto
import ChappieFiles
import ChappieLoopback
import Logging
import Synchronization

/// The transports of one network policy.
final class Transports: Sendable {
    let http: any HTTPTransport
    let webSocket: any WebSocketTransport

    init(http: any HTTPTransport, webSocket: any WebSocketTransport) {
        self.http = http
        self.webSocket = webSocket
    }
}

/// The adapters of this platform, which are created once per process and shared.
final class PlatformComposition: Sendable {
    static let shared = PlatformComposition()

    private let networks = Mutex<[ChappieNetworkPolicy: Transports]>([:])
    private let managers = Mutex<[ManagerKey: WeakManager]>([:])
    private let observing = Mutex<(any ChappieObserver)?>(nil)

    /// The key of a manager. A sign-out has to reach every session and client of the credential, even if their
    /// configurations differ in other properties.
    private struct ManagerKey: Hashable, Sendable {
        let slot: CredentialSlot
        let store: ChappieCredentialStorage.Identity
    }

    /// A weak reference to a manager. A manager lives as long as a session, a client or its own work holds it, because
    /// an app may have many users, one after the other.
    private struct WeakManager {
        weak var manager: CredentialManager?
    }

    /// The observer of everything that is created from now on.
    var observer: (any ChappieObserver)? {
        get { observing.withLock(\.self) }
        set { observing.withLock { $0 = newValue } }
    }

    let notifier = PlatformAdapters.notifier
    let modelCache = ChappieFileModelCache { ProcessInfo.processInfo.environment[$0] }

    /// Creates the notes on networks that block WebSockets.
    static func webSocketNotes(under policy: ChappieNetworkPolicy) -> ChappieFileWebSocketNotes? {
        ChappieFileWebSocketNotes(proxy: policy.proxy) { ProcessInfo.processInfo.environment[$0] }
    }

    /// Returns the transports of a network policy.
    func transports(for policy: ChappieNetworkPolicy) -> Transports {
        networks.withLock { networks in
            if let known = networks[policy] { return known }
            let new = PlatformAdapters.transports(for: policy)
            networks[policy] = new
            return new
        }
    }

    /// Returns the manager of the configuration's slot in `storage`, which logs to `logger` if there is one. The
    /// configuration that creates it determines its network, its accessibility and the name under which it renews
    /// tokens.
    func credentials(
        for configuration: ChappieConfiguration, in storage: ChappieCredentialStorage = .keyring, logger: Logger? = nil
    ) -> CredentialManager {
        let slot = configuration.credentialSlot
        let key = ManagerKey(slot: slot, store: storage.identity)
        let manager = managers.withLock { managers in
            if let manager = managers[key]?.manager { return manager }
            let manager = CredentialManager(
                slot: slot,
                store: storage.store(configuration.keychainAccessibility, appGroup: configuration.appGroup),
                transport: transports(for: configuration.network).http, endpoints: configuration.endpoints,
                browserSignIn: .ofPlatform(for: configuration, in: storage),
                backgroundTime: PlatformAdapters.backgroundTime, observer: observer)
            managers = managers.filter { $0.value.manager != nil }
            managers[key] = WeakManager(manager: manager)
            return manager
        }
        if let logger { manager.log(to: logger) }
        return manager
    }
}

extension BrowserSignInPorts {
    /// Returns the adapters of this platform for a sign-in with a browser on this machine, or `nil` if the
    /// configuration has none. Nothing is opened or read before such a sign-in begins.
    ///
    /// - Parameters:
    ///   - configuration: The configuration with the grant and the slot.
    ///   - storage: The place of the credential. Registrations are next to a credential in Apple's keychain.
    ///   - variable: Looks up a variable of the process. Default: its environment.
    @_spi(ChappieInternals) public static func ofPlatform(
        for configuration: ChappieConfiguration, in storage: ChappieCredentialStorage = .keyring,
        _ variable: (String) -> String? = { ProcessInfo.processInfo.environment[$0] }
    ) -> BrowserSignInPorts? {
        let (listener, cryptography) = (LoopbackCallbackListener(), SystemSignInCryptography())
        switch configuration.endpoints.grant {
        case .continueWithChatGPT: break
        case .browser: return BrowserSignInPorts(listener: listener, cryptography: cryptography)
        case .deviceCode:
            // Elsewhere the system suspends a program whose user is in the browser.
            #if os(Linux) || os(macOS)
                return BrowserSignInPorts(listener: listener, cryptography: cryptography)
            #else
                return nil
            #endif
        case .accessToken: return nil
        }
        let accessGroup = configuration.keychainAccessGroup
        let ofKeyring = storage.isKeyring ? PlatformAdapters.registrations(accessGroup: accessGroup) : nil
        return BrowserSignInPorts(
            listener: listener, registrations: ofKeyring ?? FileRegistrationStore.userDefault(variable),
            cryptography: cryptography)
    }
}
