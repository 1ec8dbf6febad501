// In the place of PlatformComposition.swift, whose adapters need Linux, and of CredentialStorage.swift: what Chappie.swift asks for.
public import ChappieAuth
import ChappieClient
import ChappieCore
import Logging

final class PlatformComposition: Sendable {
    static let shared = PlatformComposition()
    let notifier: (any Notifier)? = nil
    let modelCache: (any ChappieModelCache)? = nil

    func transports(for policy: ChappieNetworkPolicy) -> (http: any HTTPTransport, webSocket: any WebSocketTransport) {
        fatalError()
    }

    func credentials(
        for configuration: ChappieConfiguration, in storage: ChappieCredentialStorage, logger: Logger?
    ) -> CredentialManager { fatalError() }
}

/// As in CredentialStorage.swift.
public struct ChappieCredentialStorage: Sendable {
    public static let keyring = ChappieCredentialStorage()
    public static func custom(_ store: any CredentialStore) -> ChappieCredentialStorage { ChappieCredentialStorage() }
}
