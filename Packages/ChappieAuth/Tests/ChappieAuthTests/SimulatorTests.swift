@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieHTTP
import ChappieSimulator
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// The whole of it over real sockets, against a backend that takes every refresh token once.
@MainActor
@Suite struct SimulatorTests {
    private struct Setting {
        let simulator: Simulator
        let transport = CurlHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none))
        let store = InMemoryCredentialStore()

        init(_ configuration: SimulatorConfiguration) async throws {
            simulator = try await Simulator.start(configuration)
        }

        var endpoints: ChappieEndpoints { ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend) }
        var slot: CredentialSlot { CredentialSlot(issuer: endpoints.credentialIssuer) }

        func manager() -> CredentialManager {
            CredentialManager(
                slot: CredentialSlot(), store: store, transport: transport,
                endpoints: endpoints, lock: NoCredentialLock())
        }

        func models(_ manager: CredentialManager) async throws -> Int {
            let request = HTTPExchangeRequest(url: simulator.backend.appending(path: "codex/models"))
            let response = try await MiddlewareTransport(transport, middleware: [manager.authorization]).send(request)
            _ = try await response.body.collect(upTo: 16 << 20)
            return response.status.code
        }

        func count(_ path: String) -> Int {
            simulator.receivedRequests.count { $0.target.split(separator: "?").first == path[...] }
        }

        func end() async {
            transport.shutdown()
            await simulator.stop()
        }
    }

    @Test func signsInUsesTheBackendAndSignsOut() async throws {
        let setting = try await Setting(SimulatorConfiguration(pollInterval: 0))
        let manager = setting.manager()
        let session = ChappieAuthSession(credentials: manager)
        let updates = session.deviceLinkStateUpdates
        let code = try await session.startDeviceCodeSignIn()
        #expect(code.verificationURL == setting.simulator.verificationPage)
        try setting.simulator.approve(userCode: code.userCode)
        let last = await updates.next { ["linked", "failed", "expired", "cancelled"].contains($0.name) }
        #expect(last?.name == "linked")
        #expect(session.accountInfo?.accountID != nil)
        #expect(try await setting.models(manager) == 200)
        try await session.refreshAuth()
        #expect(try await setting.models(manager) == 200)
        try await session.signOutAndRevoke()
        #expect(setting.count("/oauth/revoke") == 1)
        #expect(setting.store[setting.slot] == nil)
        await #expect(throws: AuthorizationError.missingCredential) { try await setting.models(manager) }
        await setting.end()
    }

    @Test func aRefusalOnThePageIsADenial() async throws {
        let setting = try await Setting(SimulatorConfiguration(pollInterval: 0))
        let session = ChappieAuthSession(credentials: setting.manager())
        let updates = session.deviceLinkStateUpdates
        let code = try await session.startDeviceCodeSignIn()
        try setting.simulator.refuse(userCode: code.userCode)
        let last = await updates.next { ["linked", "failed", "expired", "cancelled"].contains($0.name) }
        guard case .failed(.authorizationDenied)? = last else {
            return #expect(Bool(false), "\(String(describing: last))")
        }
        await setting.end()
    }

    @Test func refreshesAskedForAtTheSameTimeAllSucceed() async throws {
        let setting = try await Setting(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        let manager = setting.manager()
        let session = ChappieAuthSession(credentials: manager)
        let updates = session.deviceLinkStateUpdates
        try await session.startDeviceCodeSignIn()
        #expect(await updates.next { ["linked", "failed"].contains($0.name) }?.name == "linked")
        let before = setting.count("/oauth/token")
        let refreshes = try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await session.refreshAuth() } }
            try await group.waitForAll()
            return setting.count("/oauth/token") - before
        }
        #expect((1...10).contains(refreshes))
        #expect(try await setting.models(manager) == 200)
        #expect(session.state != .reauthenticationRequired)
        await setting.end()
    }

    @Test func aRefreshTokenThatWasUsedElsewhereEndsTheSignIn() async throws {
        let setting = try await Setting(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        let session = ChappieAuthSession(credentials: setting.manager())
        let updates = session.deviceLinkStateUpdates
        try await session.startDeviceCodeSignIn()
        #expect(await updates.next { ["linked", "failed"].contains($0.name) }?.name == "linked")
        let copy = setting.store[setting.slot]
        try await session.refreshAuth()
        // A program with an old copy of the store, such as a restored backup.
        setting.store[setting.slot] = copy
        let late = ChappieAuthSession(credentials: setting.manager())
        await #expect {
            try await late.refreshAuth()
        } throws: { ($0 as? ChappieAuthError)?.requiresReauthentication == true }
        #expect(late.state == .reauthenticationRequired)
        #expect("\(String(describing: late.lastError))".contains("refresh_token_reused"))
        await setting.end()
    }

    @Test func twoProcessesThatShareAStoreShareTheirTokens() async throws {
        let setting = try await Setting(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        let first = ChappieAuthSession(credentials: setting.manager())
        let updates = first.deviceLinkStateUpdates
        try await first.startDeviceCodeSignIn()
        #expect(await updates.next { ["linked", "failed"].contains($0.name) }?.name == "linked")
        let otherManager = setting.manager()
        let second = ChappieAuthSession(credentials: otherManager)
        for _ in 0..<3 {
            try await first.refreshAuth()
            try await second.refreshAuth()
        }
        #expect(try await setting.models(otherManager) == 200)
        await setting.end()
    }
}
