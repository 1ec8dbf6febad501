@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
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

        func manager() -> CredentialManager {
            CredentialManager(
                slot: CredentialSlot(), store: store, transport: transport,
                endpoints: ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend))
        }

        func usage(_ manager: CredentialManager) async throws -> Int {
            let request = HTTPExchangeRequest(url: simulator.backend.appending(path: "wham/usage"))
            let response = try await MiddlewareTransport(transport, middleware: [manager.authorization]).send(request)
            _ = try await response.body.collect(upTo: 16 << 20)
            return response.status.code
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
        let account = try await session.signIn { code in
            #expect(code.verificationURL == setting.simulator.verificationPage)
            #expect(throws: Never.self) { try setting.simulator.approve(userCode: code.userCode) }
        }
        #expect(account.accountID != nil)
        #expect(try await setting.usage(manager) == 200)
        try await session.refreshAuth()
        #expect(try await setting.usage(manager) == 200)
        try await session.signOutAndRevoke()
        #expect(setting.simulator.receivedRequests.count { $0.target == "/oauth/revoke" } == 1)
        #expect(setting.store[manager.slot] == nil)
        await #expect(throws: ChappieAuthError.missingCredential) { try await setting.usage(manager) }
        await setting.end()
    }

    @Test func aRefusalOnThePageIsADenial() async throws {
        let setting = try await Setting(SimulatorConfiguration(pollInterval: 0))
        let session = ChappieAuthSession(credentials: setting.manager())
        await #expect {
            _ = try await session.signIn { try? setting.simulator.refuse(userCode: $0.userCode) }
        } throws: { error in
            if case .authorizationDenied? = error as? ChappieAuthError { true } else { false }
        }
        await setting.end()
    }

    @Test func `processes share their tokens until one uses an old copy`() async throws {
        let setting = try await Setting(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        let manager = setting.manager()
        let first = ChappieAuthSession(credentials: manager)
        _ = try await first.signIn { _ in }
        let copy = setting.store[manager.slot]
        let second = ChappieAuthSession(credentials: setting.manager())
        for _ in 0..<3 {
            try await first.refreshAuth()
            try await second.refreshAuth()
        }
        #expect(try await setting.usage(manager) == 200)
        // A program with an old copy of the store, such as a restored backup.
        setting.store[manager.slot] = copy
        let late = ChappieAuthSession(credentials: setting.manager())
        await #expect {
            try await late.refreshAuth()
        } throws: { ($0 as? ChappieAuthError)?.requiresReauthentication == true }
        #expect(late.state == .reauthenticationRequired)
        #expect("\(String(describing: late.lastError))".contains("refresh_token_reused"))
        await setting.end()
    }
}
