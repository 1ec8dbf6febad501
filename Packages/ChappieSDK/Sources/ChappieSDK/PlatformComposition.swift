import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieCurl
import ChappieDesktopLinux
import ChappieHTTP
import ChappieKeychainLinux
import ChappieWebSocket
import FoundationEssentials
import Synchronization

/// The adapters of this platform, made once per process and shared.
final class PlatformComposition: Sendable {
    static let shared = PlatformComposition()

    private let networks = Mutex<[ChappieNetworkPolicy: (http: CurlHTTPTransport, webSocket: CurlWebSocketTransport)]>(
        [:])
    private let managers = Mutex<[ChappieConfiguration: CredentialManager]>([:])

    let notifier: any Notifier = DBusNotifier()
    let modelCache = ChappieFileModelCache { ProcessInfo.processInfo.environment[$0] }

    /// Both ways to the network, on one thread.
    func transports(for policy: ChappieNetworkPolicy) -> (http: CurlHTTPTransport, webSocket: CurlWebSocketTransport) {
        networks.withLock { networks in
            if let known = networks[policy] { return known }
            let network = CurlNetwork(policy: policy)
            let new = (CurlHTTPTransport(network: network), CurlWebSocketTransport(network: network))
            networks[policy] = new
            return new
        }
    }

    func credentials(for configuration: ChappieConfiguration) -> CredentialManager {
        // What a credential depends on; models and harnesses share it.
        let key = ChappieConfiguration(
            keychainService: configuration.keychainService, keychainAccount: configuration.keychainAccount,
            keychainAccessGroup: configuration.keychainAccessGroup,
            keychainAccessibility: configuration.keychainAccessibility, endpoints: configuration.endpoints,
            network: configuration.network)
        let transport = transports(for: configuration.network).http
        return managers.withLock { managers in
            if let manager = managers[key] { return manager }
            let manager = CredentialManager(
                slot: key.credentialSlot,
                store: SecretServiceCredentialStore(accessibility: key.keychainAccessibility),
                transport: transport, endpoints: key.endpoints,
                lock: FileCredentialLock.userDefault { ProcessInfo.processInfo.environment[$0] })
            managers[key] = manager
            return manager
        }
    }
}
