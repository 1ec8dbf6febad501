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

    private struct CredentialKey: Hashable {
        let slot: CredentialSlot
        let endpoints: ChappieEndpoints
        let network: ChappieNetworkPolicy
        let accessibility: ChappieKeychainAccessibility
    }

    private let networks = Mutex<[ChappieNetworkPolicy: (http: CurlHTTPTransport, webSocket: CurlWebSocketTransport)]>(
        [:])
    private let managers = Mutex<[CredentialKey: CredentialManager]>([:])

    let notifier: any Notifier = DBusNotifier()

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
        let key = CredentialKey(
            slot: configuration.credentialSlot, endpoints: configuration.endpoints, network: configuration.network,
            accessibility: configuration.keychainAccessibility)
        let transport = transports(for: configuration.network).http
        return managers.withLock { managers in
            if let manager = managers[key] { return manager }
            let manager = CredentialManager(
                slot: key.slot, store: SecretServiceCredentialStore(accessibility: key.accessibility),
                transport: transport, endpoints: key.endpoints,
                lock: FileCredentialLock.userDefault { ProcessInfo.processInfo.environment[$0] })
            managers[key] = manager
            return manager
        }
    }
}
