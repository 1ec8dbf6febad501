@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieRuntime
import ChappieSimulatorServer
import ChappieTesting
import Foundation
import Testing

/// Every case of ``ChappieClientError`` by an exchange with the simulator, caught as the documents catch it, with a sentence
/// that a user can act on.
@Suite(.timeLimit(.minutes(3))) struct ErrorTableTests {
    /// The cases. No switch over them has a default, so that a new case does not compile before it has a row.
    enum Name: String, CaseIterable {
        case missingCredential, missingRefreshToken, missingAccountID, reauthenticationRequired, usageLimitReached
        case missingToolHandler, toolApprovalDenied, toolExecutionFailed, toolLoopLimitExceeded, responseFailed
        case streamingTransportReplayDiverged, httpError, invalidResponse, approvalPending, invalidStructuredOutput
        case invalidTool, transportFailed, contextWindowExceeded, messageTooLarge, renewalFailed, credentialStoreFailed
        case blockedByGateway, gatewayAnswered, modelUnavailable, unsupportedInput, planRefused, usageNotReported,
            timeLimitExceeded
        case inputTooLarge, conversationRefused, notWithThisSignIn, searchFailed, imageFailed, resetRefused
        case tooManyTurns, stopping

        init(_ error: ChappieClientError) {
            self =
                switch error {
                case .missingCredential: .missingCredential
                case .missingRefreshToken: .missingRefreshToken
                case .missingAccountID: .missingAccountID
                case .reauthenticationRequired: .reauthenticationRequired
                case .usageLimitReached: .usageLimitReached
                case .missingToolHandler: .missingToolHandler
                case .toolApprovalDenied: .toolApprovalDenied
                case .toolExecutionFailed: .toolExecutionFailed
                case .toolLoopLimitExceeded: .toolLoopLimitExceeded
                case .responseFailed: .responseFailed
                case .streamingTransportReplayDiverged: .streamingTransportReplayDiverged
                case .httpError: .httpError
                case .invalidResponse: .invalidResponse
                case .approvalPending: .approvalPending
                case .invalidStructuredOutput: .invalidStructuredOutput
                case .invalidTool: .invalidTool
                case .transportFailed: .transportFailed
                case .contextWindowExceeded: .contextWindowExceeded
                case .messageTooLarge: .messageTooLarge
                case .renewalFailed: .renewalFailed
                case .credentialStoreFailed: .credentialStoreFailed
                case .blockedByGateway: .blockedByGateway
                case .gatewayAnswered: .gatewayAnswered
                case .modelUnavailable: .modelUnavailable
                case .unsupportedInput: .unsupportedInput
                case .planRefused: .planRefused
                case .usageNotReported: .usageNotReported
                case .timeLimitExceeded: .timeLimitExceeded
                case .inputTooLarge: .inputTooLarge
                case .conversationRefused: .conversationRefused
                case .notWithThisSignIn: .notWithThisSignIn
                case .searchFailed: .searchFailed
                case .imageFailed: .imageFailed
                case .resetRefused: .resetRefused
                case .tooManyTurns: .tooManyTurns
                case .stopping: .stopping
                }
        }
    }

    /// An exchange, and the error that it must end in.
    struct Row: Sendable, CustomTestStringConvertible {
        let name: Name
        /// What tells it from the other rows of its error.
        var note = ""
        /// A built-in one's name, or one in JSON.
        var scenario: String?
        var policy = ChappieStreamingTransportPolicy.httpSSEOnly
        var tool: ChappieHostTool?
        var isSignedIn = true
        /// Whether the question is asked by another run of the program, which reads the store.
        var isNewProcess = false
        var configure: @Sendable (inout ChappieConfiguration) -> Void = { _ in }
        /// What becomes of the sign-in before the question is asked.
        var prepare: @Sendable (Tenant) throws -> Void = { _ in }
        var ask: @Sendable (ChappieClient) async throws -> String = { try await $0.send("Hello") }
        /// Whether the error holds what the exchange was about; the catch clauses see to the rest.
        var matches: @Sendable (ChappieClientError) -> Bool = { _ in true }

        var testDescription: String { note.isEmpty ? name.rawValue : "\(name.rawValue), \(note)" }
    }

    private struct Broken: LocalizedError { var errorDescription: String? { "The sensor is broken." } }

    private static func weather(_ policy: ChappieToolPolicy = .automatic) -> ChappieHostTool {
        ChappieHostTool(name: "weather", policy: policy) { _ in throw Broken() }
    }

    private static let endless = ChappieHostTool(name: "endless") { _ in
        try await Task.sleep(for: .seconds(3600))
        return "never"
    }

    private static let call: @Sendable (ChappieClient) async throws -> String = {
        try await $0.send("call weather {}")
    }

    /// A token in what the server says about an error; no error may hand it on.
    static let leak = SeededAuth().accessToken

    static func rows(of name: Name) -> [Row] {
        switch name {
        case .missingCredential: [Row(name: name, isSignedIn: false)]
        case .missingRefreshToken:
            // The service gives no sign-in without a refresh token, so that only the store can have lost it.
            [Row(name: name, scenario: "unauthorized-storm", prepare: { try $0.loseRefreshToken() })]
        case .missingAccountID:
            // The service has named the account, so that only the store can have lost it.
            [Row(name: name, isNewProcess: true, prepare: { try $0.loseAccount() })]
        case .reauthenticationRequired:
            [
                Row(name: name, note: "though renewed", scenario: "unauthorized-storm"),
                Row(
                    name: name, note: "revoked",
                    scenario: .scenario(
                        unauthorized, .rule("/oauth/token", #""refresh":"invalidated""#, bodyContains: "refresh_token")),
                    matches: { $0 == .reauthenticationRequired("Your sign-in was revoked. Please sign in again.") }),
            ]
        case .usageLimitReached:
            [
                Row(
                    name: name, scenario: "usage-limit",
                    matches: { if case .usageLimitReached(let limit) = $0 { limit.resetsAt != nil } else { false } })
            ]
        case .missingToolHandler: [Row(name: name, ask: { try await $0.send("force call weather {}") })]
        case .toolApprovalDenied: [Row(name: name, tool: weather(.deny), ask: call)]
        case .toolExecutionFailed:
            [
                Row(
                    name: name, tool: weather(), configure: { $0.toolFailureBehavior = .throwError }, ask: call,
                    matches: { $0 == .toolExecutionFailed("weather", "The sensor is broken.") })
            ]
        case .toolLoopLimitExceeded:
            [
                Row(
                    name: name, tool: weather(), configure: { $0.toolLoopLimit = 2 },
                    ask: { try await $0.send("keep calling weather {}") })
            ]
        case .responseFailed:
            [
                Row(
                    name: name, scenario: "failed",
                    matches: {
                        if case .responseFailed(let response) = $0 { response.status == .failed } else { false }
                    }),
                Row(
                    name: name, note: "ended early", scenario: "incomplete",
                    matches: {
                        if case .responseFailed(let response) = $0 { !response.outputText.isEmpty } else { false }
                    }),
            ]
        case .streamingTransportReplayDiverged:
            [Row(name: name, scenario: "diverge", configure: { $0.replayDivergence = .fail })]
        case .httpError:
            [
                Row(
                    name: name, note: "400", scenario: "bad-request",
                    matches: {
                        if case .httpError(400, let body) = $0 { body.contains("Invalid prompt.") } else { false }
                    }),
                Row(
                    name: name, note: "500", scenario: "server-error-forever",
                    matches: { if case .httpError(500, _) = $0 { true } else { false } }),
                Row(
                    name: name, note: "403 with a token",
                    scenario: .scenario(
                        .rule("/backend-api/codex/responses", #""status":403,"body":{"detail":"No: Bearer \#(leak)"}"#)),
                    matches: { if case .httpError(403, _) = $0 { true } else { false } }),
            ]
        case .blockedByGateway:
            [("over WebSocket first", ChappieStreamingTransportPolicy.default), ("over HTTP", .httpSSEOnly)].map {
                Row(
                    name: name, note: $0,
                    scenario: .scenario(
                        .rule(
                            "/backend-api/codex/responses",
                            #""status":403,"body":"<!DOCTYPE html><title>Wait</title>","headers":{"content-type":"text/html"}"#
                        )), policy: $1, matches: { $0 == .blockedByGateway("127.0.0.1") })
            }
        case .conversationRefused:
            [
                Row(
                    name: name,
                    scenario: .scenario(
                        .rule(
                            "/backend-api/codex/responses",
                            #""status":404,"body":{"error":{"message":"Item with id 'rs_1' not found."}}"#)),
                    ask: {
                        await $0.resumeContext(
                            ChappieClientContext(
                                sessionID: "s", model: "", messages: [.user("One")], createdAt: Date()))
                        return try await $0.send("Two")
                    }, matches: { $0 == .conversationRefused("Item with id 'rs_1' not found.") })
            ]
        case .gatewayAnswered:
            [("a page", #""body":"<html>","headers":{"content-type":"text/html"}"#), ("511", #""status":511"#)].map {
                Row(name: name, note: $0, scenario: .scenario(.rule("/backend-api/codex/responses", $1)))
            }
        case .modelUnavailable:
            [
                Row(
                    name: name,
                    scenario: .scenario(
                        .rule(
                            "/backend-api/codex/responses",
                            #""status":404,"body":{"error":{"message":"Model not found m","param":"model"}}"#)),
                    configure: { $0.model = "m" },
                    matches: {
                        if case .modelUnavailable(let refusal) = $0 { refusal.suggestion != nil } else { false }
                    })
            ]
        case .unsupportedInput:
            [
                Row(
                    name: name, configure: { $0.model = "gpt-6.1-sol" },
                    ask: {
                        let image = ChappieImage(source: .url("https://example.com/a.png"))
                        return try await $0.send(.user("Hello", images: [image]))
                    })
            ]
        case .planRefused:
            [
                Row(
                    name: name,
                    scenario: .scenario(
                        .rule(
                            "/v1/responses",
                            #""status":403,"body":{"error":{"code":"subscription_sharing_user_not_eligible","message":"Ask your administrator"}}"#
                        )),
                    configure: onPlan)
            ]
        case .usageNotReported:
            [
                Row(
                    name: name, configure: onPlan,
                    ask: { "\(try await $0.usageLimits())" })
            ]
        case .timeLimitExceeded:
            // A tool that never returns: with a tool the clock is the system's.
            [
                Row(
                    name: name, tool: endless,
                    ask: { client in
                        let request = ChappieResponseRequest(
                            messages: [.user("call endless {}")], timeLimit: .milliseconds(300))
                        return try await client.response(request).outputText
                    })
            ]
        case .invalidResponse: [Row(name: name, scenario: "not-json")]
        case .approvalPending: [Row(name: name, tool: weather(.ask), ask: call)]
        case .invalidStructuredOutput:
            [Row(name: name, ask: { "\(try await $0.send("reply: {}", as: [String: String].self, schema: town))" })]
        case .invalidTool: [Row(name: name, tool: ChappieHostTool(name: "two words") { _ in "x" })]
        case .transportFailed: [Row(name: name, scenario: "hang-up")]
        case .contextWindowExceeded: [Row(name: name, scenario: "failed-context-length")]
        case .inputTooLarge:
            [
                Row(
                    name: name, scenario: "failed-context-length",
                    ask: { try await $0.send(String(repeating: "word ", count: 400_000)) })
            ]
        case .messageTooLarge:
            [
                Row(
                    name: name, policy: Tenant.webSocketOnly,
                    configure: { $0.endpoints.webSocketMessageLimit = 100 })
            ]
        case .renewalFailed:
            [
                Row(
                    name: name,
                    scenario: .scenario(
                        unauthorized, .rule("/oauth/token", #""status":503"#, bodyContains: "refresh_token")),
                    matches: { $0 == .renewalFailed(.tokenExchangeFailed(statusCode: 503, body: "")) })
            ]
        case .notWithThisSignIn:
            [
                Row(
                    name: name, configure: onPlan,
                    ask: { "\(try await $0.generateImage(ChappieImageRequest("a fox")).width)" })
            ]
        case .searchFailed:
            [
                Row(
                    name: name,
                    scenario: .scenario(
                        .rule(
                            "/backend-api/codex/alpha/search",
                            #""status":200,"body":{"output":"Found no tool response for call"}"#)),
                    ask: { try await $0.search(ChappieSearchRequest("swift")).text })
            ]
        case .imageFailed:
            [
                Row(
                    name: name,
                    scenario: .scenario(
                        .rule(
                            "/backend-api/codex/images/generations",
                            #""status":400,"body":{"error":{"code":"moderation_blocked","message":"Not allowed."}}"#)),
                    ask: { "\(try await $0.generateImage(ChappieImageRequest("a fox")).width)" })
            ]
        case .resetRefused:
            [Row(name: name, scenario: "credits-ineligible", ask: { "\(try await $0.redeem(.init()))" })]
        case .tooManyTurns:
            [Row(name: name, ask: { try await pool(of: $0, turnsTotal: 0).send("Hello", thread: "t", for: "user") })]
        case .stopping:
            [
                Row(
                    name: name,
                    ask: { client in
                        let pool = pool(of: client)
                        await pool.stop()
                        return try await pool.send("Hello", thread: "t", for: "user")
                    })
            ]
        case .credentialStoreFailed:
            // The store is on this machine, where no server can make it fail; it is the testing product's.
            [
                Row(
                    name: name, scenario: "unauthorized-storm",
                    prepare: { $0.store.fail(.load, with: keyringIsLocked) })
            ]
        }
    }

    private static func pool(of client: ChappieClient, turnsTotal: Int = 1) -> ChappieClientPool {
        ChappieClientPool(limits: .init(turnsTotal: turnsTotal)) { _ in
            client.runtime(store: ChappieInMemoryThreadStore())
        }
    }

    private static let unauthorized = String.rule("/backend-api/*", #""unauthorized":true"#)
    private static let keyringIsLocked = CredentialStoreError.locked("the login keyring is locked")

    private static func onPlan(_ configuration: inout ChappieConfiguration) {
        configuration.endpoints.grant = .continueWithChatGPT(appName: "Test")
        configuration.endpoints.backend = configuration.endpoints.issuer.appending(path: "v1")
    }

    private static let town: ChappieJSONSchema = [
        "type": "object", "properties": ["town": ["type": "string"]], "required": ["town"],
    ]

    @Test(arguments: Name.allCases.flatMap(rows))
    func `every error of the table can happen and describes what to do`(row: Row) async throws {
        let scenario = try row.scenario.map(SimulatorScenario.init(ofARow:))
        // Pauses pass at once; the time limit of a tool must not.
        let clock: any ChappieClock = row.tool == nil ? HastyClock() : SystemClock()
        try await Loopback.run(scenario, signedIn: row.isSignedIn ? 1 : 0, clock: clock) { loopback in
            let tenant = loopback.tenants[0]
            let secrets = loopback.secrets + [Self.leak]
            try row.prepare(tenant)
            let client = tenant.client(
                row.policy, credentials: row.isNewProcess ? tenant.newManager(NoCredentialLock()) : nil,
                tools: row.tool.map { [$0] } ?? [], approval: { _ in .deferred }, configure: row.configure)
            do {
                let text = try await row.ask(client)
                Issue.record("there was an answer: \(text)")
            } catch let error as ChappieClientError {
                #expect(Self.caught { throw error } == row.name)
                #expect(Name(error) == row.name)
                #expect(row.matches(error), "\(error)")
                expectWords(of: error, without: secrets + loopback.secrets)
            }
        }
    }

    @Test(arguments: Name.allCases) func everyErrorHasARow(_ name: Name) {
        #expect(!Self.rows(of: name).isEmpty)
    }

    /// As the documents catch it: case by case, with what each holds.
    private static func caught(_ work: () throws -> Void) -> Name? {
        do {
            try work()
        } catch ChappieClientError.missingCredential {
            return .missingCredential
        } catch ChappieClientError.modelUnavailable(let refusal) where refusal.slug == "m" {
            return .modelUnavailable
        } catch ChappieClientError.unsupportedInput(let what, let advice) where !what.isEmpty && !advice.isEmpty {
            return .unsupportedInput
        } catch ChappieClientError.missingRefreshToken {
            return .missingRefreshToken
        } catch ChappieClientError.missingAccountID {
            return .missingAccountID
        } catch ChappieClientError.reauthenticationRequired(let message) where !message.isEmpty {
            return .reauthenticationRequired
        } catch ChappieClientError.usageLimitReached(let limit) where limit.type == "usage_limit_reached" {
            return .usageLimitReached
        } catch ChappieClientError.missingToolHandler(let name) where name == "weather" {
            return .missingToolHandler
        } catch ChappieClientError.toolApprovalDenied(let name, let reason) where name == "weather" && !reason.isEmpty {
            return .toolApprovalDenied
        } catch ChappieClientError.toolExecutionFailed(let name, let message)
            where name == "weather" && !message.isEmpty
        {
            return .toolExecutionFailed
        } catch ChappieClientError.timeLimitExceeded(let limit) where limit == .milliseconds(300) {
            return .timeLimitExceeded
        } catch ChappieClientError.toolLoopLimitExceeded(let limit) where limit == 2 {
            return .toolLoopLimitExceeded
        } catch ChappieClientError.responseFailed(let response) where response.status != .completed {
            return .responseFailed
        } catch ChappieClientError.streamingTransportReplayDiverged(let partial) where !partial.isEmpty {
            return .streamingTransportReplayDiverged
        } catch ChappieClientError.httpError(let status, let body) where status >= 400 && !body.isEmpty {
            return .httpError
        } catch ChappieClientError.blockedByGateway(let host) where !host.isEmpty {
            return .blockedByGateway
        } catch ChappieClientError.gatewayAnswered(let answer) where answer.sender == .network {
            return .gatewayAnswered
        } catch ChappieClientError.planRefused(let refusal) where refusal.reason == .notEligible {
            return .planRefused
        } catch ChappieClientError.usageNotReported(let page) where page != nil {
            return .usageNotReported
        } catch ChappieClientError.invalidResponse {
            return .invalidResponse
        } catch ChappieClientError.approvalPending(let turn) where turn.approvals.count == 1 {
            return .approvalPending
        } catch ChappieClientError.invalidStructuredOutput(let violation, let answer)
            where answer == "{}" && !violation.message.isEmpty
        {
            return .invalidStructuredOutput
        } catch ChappieClientError.invalidTool(let name, let reason) where name == "two words" && !reason.isEmpty {
            return .invalidTool
        } catch ChappieClientError.transportFailed(let error) where error.code == .connectionLost {
            return .transportFailed
        } catch ChappieClientError.contextWindowExceeded {
            return .contextWindowExceeded
        } catch ChappieClientError.inputTooLarge(let size) where size.isQuestion && size.estimatedTokens ?? 0 > 272_000
        {
            return .inputTooLarge
        } catch ChappieClientError.conversationRefused(let message) where !message.isEmpty {
            return .conversationRefused
        } catch ChappieClientError.notWithThisSignIn(let name) where !name.isEmpty {
            return .notWithThisSignIn
        } catch ChappieClientError.searchFailed(let message) where !message.isEmpty {
            return .searchFailed
        } catch ChappieClientError.imageFailed(.refusedBySafetyCheck(let message)) where message == "Not allowed." {
            return .imageFailed
        } catch ChappieClientError.resetRefused(.ineligible) {
            return .resetRefused
        } catch ChappieClientError.messageTooLarge(let bytes, let limit) where bytes > limit {
            return .messageTooLarge
        } catch ChappieClientError.renewalFailed(let error) where !error.requiresReauthentication {
            return .renewalFailed
        } catch ChappieClientError.credentialStoreFailed(let error) where error == keyringIsLocked {
            return .credentialStoreFailed
        } catch ChappieClientError.tooManyTurns {
            return .tooManyTurns
        } catch ChappieClientError.stopping {
            return .stopping
        } catch {}
        return nil
    }
}

extension String {
    /// A scenario's JSON.
    static func scenario(_ rules: String..., settings: String = "") -> String {
        "{\"settings\":{\(settings)},\"rules\":[\(rules.joined(separator: ","))]}"
    }

    /// A rule for the requests of `path` whose body holds this text.
    static func rule(_ path: String, _ effect: String, bodyContains text: String = "") -> String {
        "{\"match\":{\"path\":\"\(path)\",\"bodyContains\":\"\(text)\"},\"effect\":{\(effect)}}"
    }
}

extension SimulatorScenario {
    /// A built-in one by its name, or one in JSON.
    init(ofARow text: String) throws {
        if text.hasPrefix("{") { try self.init(parsing: text) } else { try self.init(named: text) }
    }
}

/// What the error says is two sentences for a user, by every way that an app may ask for them, and holds none of `secrets`.
func expectWords(
    of error: some LocalizedError, without secrets: [String], sourceLocation: SourceLocation = #_sourceLocation
) {
    // As the documents catch what no case was written for.
    let anyError: any Error = error
    #expect(anyError.localizedDescription == error.errorDescription, sourceLocation: sourceLocation)
    for text in [error.errorDescription, error.recoverySuggestion] {
        #expect(
            text?.first?.isUppercase == true && text.map { [".", "!", "?"].contains($0.last) } == true,
            "\(text ?? "nothing")", sourceLocation: sourceLocation)
    }
    let shown = "\(error) \(error.errorDescription ?? "") \(error.recoverySuggestion ?? "")"
    #expect(!secrets.isEmpty && !secrets.contains { shown.contains($0) }, "\(shown)", sourceLocation: sourceLocation)
}
