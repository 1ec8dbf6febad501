import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSimulator
import ChappieTesting
import FoundationEssentials

/// One account of several in a process: a slot, a session and clients of its own, over a network that all share.
struct Tenant: Sendable {
    let account: SimulatorAccount
    let configuration: ChappieConfiguration
    let store: InMemoryCredentialStore
    let session: ChappieAuthSession
    /// Another manager of the same slot, as another process has one.
    let newManager: @Sendable (any CredentialLock) -> CredentialManager
    private let simulator: Simulator
    private let makeClient: @Sendable (ChappieStreamingTransportPolicy) -> ChappieClient

    static let webSocketOnly = ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)

    init(
        _ account: SimulatorAccount, _ simulator: Simulator, _ configuration: ChappieConfiguration,
        store: InMemoryCredentialStore, session: ChappieAuthSession,
        newManager: @escaping @Sendable (any CredentialLock) -> CredentialManager,
        makeClient: @escaping @Sendable (ChappieStreamingTransportPolicy) -> ChappieClient
    ) {
        self.account = account
        self.simulator = simulator
        self.configuration = configuration
        self.store = store
        self.session = session
        self.newManager = newManager
        self.makeClient = makeClient
    }

    /// A new conversation.
    func client(_ policy: ChappieStreamingTransportPolicy = Tenant.webSocketOnly) -> ChappieClient {
        makeClient(policy)
    }

    /// Signs in to this tenant's slot, as `other` where one is given; returns the code that was shown.
    @MainActor @discardableResult
    func signIn(as other: SimulatorAccount? = nil) async throws -> String {
        let code = try await session.startDeviceCodeSignIn()
        try simulator.approve(userCode: code.userCode, as: (other ?? account).id)
        for await state in session.deviceLinkStateUpdates {
            if case .linked = state { break }
            if case .failed(let error) = state { throw error }
        }
        return code.userCode
    }

    /// What the slot holds.
    var stored: Secret? { store[configuration.credentialSlot] }

    /// The refresh token in the slot.
    var refreshToken: String? {
        stored.flatMap { try? ChappieJSON(parsing: $0.withBytes(Array.init)) }?["tokens"]?["refresh_token"]?.string
    }
}
