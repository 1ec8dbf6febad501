@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieCurl
import ChappieDesktopLinux
import ChappieFiles
import ChappieHTTP
import ChappieWebSocket
import FoundationEssentials
import Logging
import Synchronization

/// The adapters of this platform, made once per process and shared.
final class PlatformComposition: Sendable {
    static let shared = PlatformComposition()

    private let networks = Mutex<[ChappieNetworkPolicy: (http: CurlHTTPTransport, webSocket: CurlWebSocketTransport)]>(
        [:])
    private let managers = Mutex<[ManagerKey: WeakManager]>([:])

    /// The key of a manager. A sign-out has to reach every session and client of the credential, whatever else their
    /// configurations differ in.
    private struct ManagerKey: Hashable, Sendable {
        let slot: CredentialSlot
        let store: ChappieCredentialStorage.Identity
    }

    /// A manager lives as long as a session, a client or its own work holds it, because an app may have many users, one
    /// after the other.
    private struct WeakManager {
        weak var manager: CredentialManager?
    }

    #if os(Linux)
        let notifier: (any Notifier)? = DBusNotifier()
    #else
        /// The sign-in button has its own notifier.
        let notifier: (any Notifier)? = nil
    #endif
    let modelCache = ChappieFileModelCache { ProcessInfo.processInfo.environment[$0] }

    /// Both transports of a network policy, which share one thread.
    func transports(for policy: ChappieNetworkPolicy) -> (http: CurlHTTPTransport, webSocket: CurlWebSocketTransport) {
        networks.withLock { networks in
            if let known = networks[policy] { return known }
            let network = CurlNetwork(policy: policy)
            let new = (CurlHTTPTransport(network: network), CurlWebSocketTransport(network: network))
            networks[policy] = new
            return new
        }
    }

    /// The manager of the configuration's slot in `storage`, which logs to `logger` if there is one. The configuration
    /// that makes it decides about its network, its accessibility and the name under which it renews tokens.
    func credentials(
        for configuration: ChappieConfiguration, in storage: ChappieCredentialStorage = .keyring, logger: Logger? = nil
    ) -> CredentialManager {
        let slot = configuration.credentialSlot
        let key = ManagerKey(slot: slot, store: storage.identity)
        let manager = managers.withLock { managers in
            if let manager = managers[key]?.manager { return manager }
            let manager = CredentialManager(
                slot: slot, store: storage.store(configuration.keychainAccessibility),
                transport: transports(for: configuration.network).http, endpoints: configuration.endpoints,
                lock: storage.lock)
            managers = managers.filter { $0.value.manager != nil }
            managers[key] = WeakManager(manager: manager)
            return manager
        }
        if let logger { manager.log(to: logger) }
        return manager
    }
}
