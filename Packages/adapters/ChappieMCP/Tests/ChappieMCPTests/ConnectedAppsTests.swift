@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieMCP
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

/// The apps that the user has connected, with the simulator.
@Suite(.timeLimit(.minutes(2))) struct ConnectedAppsTests {
    /// Returns a simulator, and the credentials of a user who has signed in.
    @MainActor
    private func signedIn(
        _ scenario: String? = nil
    ) async throws -> (InMemorySimulator, CredentialManager, ChappieConfiguration) {
        let simulator = try InMemorySimulator(
            SimulatorConfiguration(
                autoApprove: true, pollInterval: 0, scenario: try scenario.map(SimulatorScenario.init(named:))))
        let configuration = ChappieConfiguration(
            streamingTransportPolicy: .httpSSEOnly,
            endpoints: ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend))
        let credentials = CredentialManager(
            slot: configuration.credentialSlot, store: InMemoryCredentialStore(), transport: simulator.transport,
            endpoints: configuration.endpoints)
        _ = try await ChappieAuthSession(credentials: credentials).signIn { _ in }
        return (simulator, credentials, configuration)
    }

    private func failure(of apps: ChappieConnectedApps) async -> ChappieMCPError? {
        do {
            _ = try await apps.list()
            return nil
        } catch {
            return error as? ChappieMCPError
        }
    }

    @Test func `the apps and their tools are listed with the sign-in's token`() async throws {
        let (simulator, credentials, _) = try await signedIn()
        let apps = ChappieConnectedApps(credentials: credentials, transport: simulator.transport)
        let all = try await apps.list()
        #expect(all.map(\.name) == ["calendar", "gmail"])
        #expect(all[1].tools.map(\.name) == ["gmail.search_emails", "gmail.send_email"])
        #expect(all[1].tools.map(\.isReadOnly) == [true, false])
        let requests = simulator.transport.receivedRequests.filter { $0.url.path().hasSuffix("/backend-api/ps/mcp") }
        #expect(requests.count >= 3)
        for request in requests {
            for name in ["authorization", "chatgpt-account-id", "originator", "user-agent", "x-openai-product-sku"] {
                let field = try #require(HTTPField.Name(name))
                #expect(request.headerFields[field]?.isEmpty == false, "\(name) is missing")
            }
        }
    }

    @Test func `only the chosen apps are offered, and only a reading tool may run without a question`() async throws {
        let (simulator, credentials, _) = try await signedIn()
        let apps = ChappieConnectedApps(
            credentials: credentials, transport: simulator.transport, apps: ["Gmail"],
            automaticTools: ["gmail.search_emails", "gmail.send_email", "calendar.list_events"])
        let tools = try await apps.tools()
        #expect(tools.map(\.name) == ["gmail_search_emails", "gmail_send_email"])
        #expect(
            tools.map(\.policy) == [.automatic, .ask]
                && tools.allSatisfy { $0.namespace == ChappieConnectedApps.namespace })
        apps.offer([])
        #expect(try await apps.tools().isEmpty)
        apps.offer(["slack"])
        let error = await #expect(throws: ChappieMCPError.self) { try await apps.tools() }
        #expect(error?.reason == #"you have connected no app "slack", but these apps: calendar, gmail"#)
        let careful = ChappieConnectedApps(credentials: credentials, transport: simulator.transport)
        #expect(try await careful.tools().map(\.policy) == [.ask, .ask, .ask, .ask])
    }

    @Test func `a model reads with an app, and the user refuses a write`() async throws {
        let (simulator, credentials, configuration) = try await signedIn()
        let asked = Mutex<[String]>([])
        let client = ChappieClient(
            configuration: configuration, transport: simulator.transport, credentials: credentials,
            toolProviders: [ChappieConnectedApps(credentials: credentials, transport: simulator.transport)],
            toolApprovalHandler: { request in
                asked.withLock { $0.append(request.call.name) }
                return request.call.name.contains("send") ? .denied(reason: "not now") : .approved()
            })
        let read = try await client.send(#"call gmail_search_emails {"query": "invoice"}"#)
        #expect(read.contains("gmail.search_emails of") && read.contains("invoice"))
        let written = try await client.send(#"call gmail_send_email {"text": "hello"}"#)
        #expect(written.contains("not now") && !written.contains("gmail.send_email of"))
        #expect(asked.withLock { $0 } == ["gmail_search_emails", "gmail_send_email"])
        let again = try await client.send(#"call gmail_search_emails {"query": "reconnect"}"#)
        #expect(again.contains("https://chatgpt.com/apps/connect"))
    }

    @Test(arguments: ["apps-not-included", "apps-401"])
    func `a sign-in without the permission stays signed in`(scenario: String) async throws {
        let (simulator, credentials, configuration) = try await signedIn(scenario)
        let apps = ChappieConnectedApps(credentials: credentials, transport: simulator.transport)
        let error = try #require(await failure(of: apps))
        #expect(error.code == .appsNotIncluded)
        #expect(error.reason == "this sign-in doesn't include connected apps")
        let client = ChappieClient(
            configuration: configuration, transport: simulator.transport, credentials: credentials,
            toolProviders: [apps])
        #expect(try await client.send("reply: still here") == "still here")
        // Nothing was renewed because of the refusal.
        let renewals = simulator.transport.receivedRequests.count { $0.url.path().hasSuffix("/oauth/token") }
        #expect(renewals == 1)
    }

    @Test func `a redirect is not followed`() async throws {
        let (simulator, credentials, _) = try await signedIn("apps-redirect")
        let apps = ChappieConnectedApps(credentials: credentials, transport: simulator.transport)
        #expect(await failure(of: apps) != nil)
        #expect(simulator.transport.receivedRequests.allSatisfy { $0.url.host() == simulator.backend.host() })
    }

    @Test func `the plan's route has no connected apps`() async throws {
        let endpoints = ChappieEndpoints.continueWithChatGPT(appName: "Test")
        let transport = ScriptedHTTPTransport { _ in ScriptedHTTPAnswer() }
        var seed = SeededAuth()
        seed.endpoints = endpoints
        let apps = ChappieConnectedApps(
            credentials: seed.manager(transport: transport, endpoints: endpoints), transport: transport)
        await #expect(throws: ChappieClientError.notWithThisSignIn("Using connected apps")) { try await apps.tools() }
        #expect(transport.receivedRequests.isEmpty)
    }
}
