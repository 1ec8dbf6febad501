import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieCurl
import ChappieHTTP
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket
import Foundation

/// Two accounts in one process, composed as the SDK does it: one network, one store, one folder of locks; for each account
/// a configuration that differs in `keychainAccount`, a manager, a session.
struct Tenancy: Sendable {
    let simulator: Simulator
    let http: CurlHTTPTransport
    let locks: FileCredentialLock
    let first: Tenant
    let second: Tenant

    static let accounts = [
        SimulatorAccount(
            id: "acct-first", userID: "user-first", email: "first@example.com", plan: "plus",
            usage: SimulatorUsage(primaryUsedPercent: 11, secondaryUsedPercent: 1), models: ["gpt-5.5", "gpt-6.1-sol"]),
        SimulatorAccount(
            id: "acct-second", userID: "user-second", email: "second@example.com", plan: "pro",
            usage: SimulatorUsage(primaryUsedPercent: 77, secondaryUsedPercent: 7), models: ["gpt-5.5-mini"]),
    ]

    /// - Parameter signedIn: whether both are signed in when `body` begins.
    static func run(signedIn: Bool = true, _ body: (Tenancy) async throws -> Void) async throws {
        let simulator = try await Simulator.start(
            SimulatorConfiguration(
                pollInterval: 0, account: accounts[0], otherAccounts: [accounts[1]], recordedRequestLimit: 4096))
        let network = CurlNetwork(policy: ChappieNetworkPolicy(proxy: .none))
        let http = CurlHTTPTransport(network: network)
        let webSocket = CurlWebSocketTransport(network: network)
        let folder = FileManager.default.temporaryDirectory.path + "/chappie-tenancy-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let locks = FileCredentialLock(directory: folder)
        let store = InMemoryCredentialStore()
        func tenant(_ account: SimulatorAccount) async -> Tenant {
            var endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
            // Bodies that the test can read.
            endpoints.profile.requestCodingThreshold = .max
            let configuration = ChappieConfiguration(keychainAccount: account.id, endpoints: endpoints)
            let newManager: @Sendable (any CredentialLock) -> CredentialManager = { [endpoints] lock in
                CredentialManager(
                    slot: configuration.credentialSlot, store: store, transport: http, endpoints: endpoints, lock: lock)
            }
            let manager = newManager(locks)
            return Tenant(
                account, simulator, configuration, store: store,
                session: await ChappieAuthSession(credentials: manager), newManager: newManager,
                makeClient: { policy in
                    var configuration = configuration
                    configuration.streamingTransportPolicy = policy
                    return ChappieClient(
                        configuration: configuration, transport: http, webSocket: webSocket, credentials: manager)
                })
        }
        let tenancy = Tenancy(
            simulator: simulator, http: http, locks: locks, first: await tenant(accounts[0]),
            second: await tenant(accounts[1]))
        do {
            if signedIn {
                try await tenancy.first.signIn()
                try await tenancy.second.signIn()
            }
            try await body(tenancy)
        } catch {
            http.shutdown()
            await simulator.stop()
            throw error
        }
        http.shutdown()
        await simulator.stop()
    }

    var tenants: [Tenant] { [first, second] }

    /// The requests that were sent to `path`, without their queries.
    func requests(_ path: String) -> [ReceivedRequest] {
        simulator.receivedRequests.filter { $0.target.prefix { $0 != "?" } == path[...] }
    }

    /// Whether the WebSocket with this number is open.
    func isOpen(_ connection: Int) -> Bool {
        simulator.webSocketConnections.contains { $0.connection == connection && $0.isOpen }
    }

    /// How often `refreshToken` was spent.
    func refreshes(with refreshToken: String) -> Int {
        requests("/oauth/token").count { request in
            (try? ChappieJSON(parsing: request.body))?["refresh_token"]?.string == refreshToken
        }
    }
}
