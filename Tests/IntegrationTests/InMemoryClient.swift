import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSimulatorServer
import ChappieTesting

extension InMemorySimulator {
    /// Returns a client that has signed in.
    @MainActor
    func client(
        _ policy: ChappieStreamingTransportPolicy = Tenant.oneAttempt, tools: [ChappieHostTool] = [],
        toolProviders: [any ChappieToolProvider] = [], approval: ChappieToolApprovalHandler? = nil
    ) async throws -> ChappieClient {
        let configuration = ChappieConfiguration(
            rateLimitBackoff: ChappieRateLimitBackoffPolicy(initialDelay: 0.01), streamingTransportPolicy: policy,
            endpoints: ChappieEndpoints(issuer: issuer, backend: backend))
        let credentials = CredentialManager(
            slot: configuration.credentialSlot, store: InMemoryCredentialStore(), transport: transport,
            endpoints: configuration.endpoints)
        _ = try await ChappieAuthSession(credentials: credentials).signIn { _ in }
        return ChappieClient(
            configuration: configuration, transport: transport, webSocket: webSocket, credentials: credentials,
            tools: tools, toolProviders: toolProviders, toolApprovalHandler: approval)
    }
}
