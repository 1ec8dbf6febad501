import ChappieAuth
import ChappieSDK
import ChappieTesting
import Foundation
import HTTPTypes
import Testing

/// The call forms that the documentation shows: they must compile as written, and do what it says.
@MainActor
@Suite struct DocumentedFormsTests {
    private let configuration = ChappieConfiguration(
        keychainService: "com.example.myapp", keychainAccount: "user-1",
        keychainAccessGroup: "TEAMID.com.example.shared",
        keychainAccessibility: .whenUnlockedThisDeviceOnly)

    private func session(_ seed: SeededAuth?, _ answers: [ScriptedHTTPAnswer] = []) -> ChappieAuthSession {
        let transport = ScriptedHTTPTransport(answers: answers)
        let manager =
            seed?.manager(transport: transport)
            ?? CredentialManager(
                slot: configuration.credentialSlot, store: InMemoryCredentialStore(), transport: transport)
        return ChappieAuthSession(credentials: manager)
    }

    private func describe(_ session: ChappieAuthSession) -> String {
        switch session.state {
        case .signedIn: session.accountInfo?.plan?.displayName ?? "Unknown plan"
        case .signedOut: "signed out"
        case .reauthenticationRequired: "sign in again"
        case .failed(let message): message
        default: "busy"
        }
    }

    @Test func `a returning person is signed in at once and signed out at once`() {
        let session = session(SeededAuth())
        #expect(describe(session) == "Plus")
        #expect(session.accountInfo?.email == "person@example.com")
        #expect(session.accountInfo?.isFedRAMPAccount == false)
        #expect(session.lastError == nil)
        session.signOut()
        #expect(describe(session) == "signed out")
        #expect(session.accountInfo == nil)
    }

    @Test func aRefusedRefreshAsksForANewSignIn() async {
        let session = session(
            SeededAuth(), [.response(status: .unauthorized, body: #"{"error":{"code":"refresh_token_reused"}}"#)])
        do {
            try await session.refreshAuth()
            Issue.record("no error")
        } catch let error as ChappieAuthError {
            #expect(error.requiresReauthentication)
        } catch { Issue.record("\(error)") }
        #expect(describe(session) == "sign in again")
    }

    @Test func manualDeviceFlow() async throws {
        let session = session(
            nil,
            [
                .response(body: #"{"device_auth_id":"d","user_code":"ABCD-1234","interval":"0"}"#),
                .response(body: #"{"authorization_code":"c","code_challenge":"x","code_verifier":"v"}"#),
                .response(body: SeededAuth().tokenAnswer),
            ])
        #expect(describe(session) == "signed out")
        #expect(session.deviceLinkState == .idle)
        let deviceCode = try await session.startDeviceCodeSignIn()
        #expect(deviceCode.userCode == "ABCD-1234")
        #expect(deviceCode.verificationURL.absoluteString == "https://auth.openai.com/codex/device")
        for await state in session.deviceLinkStateUpdates {
            if case .linked(let expiresAt) = state {
                #expect(expiresAt != nil)
                break
            }
        }
        #expect(describe(session) == "Plus")
    }

    @Test func `every client error that the documents catch can be caught`() async {
        func caught(_ error: ChappieClientError) async -> String {
            do {
                throw error as any Error
            } catch ChappieClientError.missingCredential {
                return "missing"
            } catch ChappieClientError.usageLimitReached(let limit) {
                let reset = limit.resetsAt.map { $0.formatted(date: .abbreviated, time: .shortened) }
                return "\(limit.plan?.displayName ?? "your current plan") \(reset ?? "-")"
            } catch ChappieClientError.reauthenticationRequired(let message) {
                return message
            } catch ChappieClientError.httpError(let status, let body) {
                return "HTTP \(status): \(body)"
            } catch ChappieClientError.streamingTransportReplayDiverged(let partial) {
                return partial
            } catch ChappieClientError.toolLoopLimitExceeded(let limit) {
                return "\(limit)"
            } catch {
                return error.localizedDescription
            }
        }
        let cases: [(ChappieClientError, String)] = [
            (.missingCredential, "missing"), (.usageLimitReached(ChappieUsageLimit(plan: .pro)), "Pro -"),
            (.reauthenticationRequired("why"), "why"), (.httpError(500, "x"), "HTTP 500: x"),
            (.streamingTransportReplayDiverged("half"), "half"), (.toolLoopLimitExceeded(3), "3"),
            (.invalidResponse, "The server sent an answer that could not be understood."),
        ]
        for (error, text) in cases { #expect(await caught(error) == text) }
    }

    @Test func policiesAreSpelledAsDocumented() {
        let policy = ChappieRateLimitBackoffPolicy(maxRetries: 3, initialDelay: 1, maximumDelay: 15)
        #expect(policy.respectsRetryAfterHeader)
        #expect(ChappieRateLimitBackoffPolicy.disabled == ChappieRateLimitBackoffPolicy(maxRetries: 0))
        #expect(configuration.keychainAccessGroup == "TEAMID.com.example.shared")
        #expect(ChappieConfiguration().keychainService == "com.chappie.sdk")
        #expect(ChappieConfiguration().keychainAccount == "default")
        #expect(ChappieConfiguration().model == nil)
    }

    @Test func aConfigurationIsASetting() throws {
        var other = configuration
        other.harness = "Be brief."
        other.rateLimitBackoff = .disabled
        other.network.proxy = .url("socks5h://localhost:1", excluding: "localhost")
        for configuration in [ChappieConfiguration(), other] {
            let data = try JSONEncoder().encode(configuration)
            #expect(try JSONDecoder().decode(ChappieConfiguration.self, from: data) == configuration)
        }
    }

    @Test func aStreamIsReadAndCancelledAsDocumented() async throws {
        let transport = ScriptedHTTPTransport(answers: [ScriptedHTTPAnswer(body: [.stall])])
        let client = ChappieClient(transport: transport, credentials: SeededAuth().manager(transport: transport))
        let handle = client.startStream(.user("Hello", fastMode: true))
        handle.cancel()
        do {
            for try await event in handle.events {
                if case .completed = event { Issue.record("completed") }
            }
            Issue.record("no error")
        } catch is CancellationError {
            // As documented: no action.
        }
    }

    @Test func `the entry point returns session and client for one configuration`() {
        let session = Chappie.authSession(
            configuration: ChappieConfiguration(keychainService: "com.example.chappie-tests-\(UUID().uuidString)"))
        let client = Chappie.client(configuration: configuration, harness: "Be brief.", rateLimitBackoff: .disabled)
        // No optional takes a harness, so that this is the harness without instructions.
        let plain = Chappie.client(configuration: configuration, harness: .none)
        #expect(session.accountInfo == nil)
        for client in [client, plain] {
            let isClient = (client as AnyObject) is ChappieClient
            #expect(isClient)
        }
    }

    @Test func `an attachment is read from a file's address`() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).txt")
        try Data("All is well.".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        #expect(try ChappieFile(contentsOf: file).name == file.lastPathComponent)
        #expect(throws: ChappieAttachmentError.self) { try ChappieImage(contentsOf: file) }
        let page = try #require(URL(string: "https://example.com/a.png"))
        #expect(throws: ChappieAttachmentError.unsupportedURL("address that is not a file's")) {
            try ChappieImage(contentsOf: page)
        }
    }
}
