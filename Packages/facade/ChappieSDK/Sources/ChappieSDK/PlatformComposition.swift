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

    /// The key of a manager: a slot with its network and endpoints, and its store.
    private struct ManagerKey: Hashable, Sendable {
        let configuration: ChappieConfiguration
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

    /// The manager of the configuration's slot in `storage`, which logs to `logger` if there is one.
    func credentials(
        for configuration: ChappieConfiguration, in storage: ChappieCredentialStorage = .keyring, logger: Logger? = nil
    ) -> CredentialManager {
        // A credential depends only on these; configurations with other models or harnesses share it.
        let slot = ChappieConfiguration(
            keychainService: configuration.keychainService, keychainAccount: configuration.keychainAccount,
            keychainAccessGroup: configuration.keychainAccessGroup,
            keychainAccessibility: configuration.keychainAccessibility, endpoints: configuration.endpoints,
            network: configuration.network)
        let manager =
            if let identity = storage.identity {
                managers.withLock { managers in
                    let key = ManagerKey(configuration: slot, store: identity)
                    if let manager = managers[key]?.manager { return manager }
                    let manager = makeManager(for: slot, in: storage)
                    managers = managers.filter { $0.value.manager != nil }
                    managers[key] = WeakManager(manager: manager)
                    return manager
                }
            } else {
                makeManager(for: slot, in: storage)
            }
        if let logger { manager.log(to: logger) }
        return manager
    }

    private func makeManager(
        for slot: ChappieConfiguration, in storage: ChappieCredentialStorage
    ) -> CredentialManager {
        CredentialManager(
            slot: slot.credentialSlot, store: storage.store(slot.keychainAccessibility),
            transport: transports(for: slot.network).http, endpoints: slot.endpoints, lock: storage.lock)
    }
}
