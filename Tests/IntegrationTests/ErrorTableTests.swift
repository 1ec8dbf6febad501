import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieSimulator
import ChappieTesting
import Foundation
import Testing

/// Every error that the documents name, by an exchange with the simulator, and with a sentence that a user can act on.
@Suite(.timeLimit(.minutes(3))) struct ErrorTableTests {
    /// An exchange, and the error that it must end in.
    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var scenario: String?
        var question = "Hello"
        var policy = ChappieStreamingTransportPolicy.httpSSEOnly
        var tool: ChappieHostTool?
        var isSignedIn = true
        var configure: @Sendable (inout ChappieConfiguration) -> Void = { _ in }
        let matches: @Sendable (ChappieClientError) -> Bool
    }

    private struct Broken: LocalizedError { var errorDescription: String? { "The sensor is broken." } }

    private static func weather(_ policy: ChappieToolPolicy = .automatic) -> ChappieHostTool {
        ChappieHostTool(name: "weather", policy: policy) { _ in throw Broken() }
    }

    private static let call = "call weather {}"

    static let rows: [Row] = [
        Row(testDescription: "missingCredential", isSignedIn: false) { $0 == .missingCredential },
        Row(testDescription: "reauthenticationRequired", scenario: "unauthorized-storm") {
            if case .reauthenticationRequired(let reason) = $0 { !reason.isEmpty } else { false }
        },
        Row(testDescription: "usageLimitReached", scenario: "usage-limit") {
            if case .usageLimitReached(let limit) = $0 { limit.plan == .plus && limit.resetsAt != nil } else { false }
        },
        Row(testDescription: "missingToolHandler", question: "force call weather {}") {
            $0 == .missingToolHandler("weather")
        },
        Row(testDescription: "toolApprovalDenied", question: call, tool: weather(.deny)) {
            if case .toolApprovalDenied("weather", let reason) = $0 { !reason.isEmpty } else { false }
        },
        Row(
            testDescription: "toolExecutionFailed", question: call, tool: weather(),
            configure: { $0.toolFailureBehavior = .throwError }
        ) { $0 == .toolExecutionFailed("weather", "The sensor is broken.") },
        Row(
            testDescription: "toolLoopLimitExceeded", question: "keep calling weather {}", tool: weather(),
            configure: { $0.toolLoopLimit = 2 }
        ) { $0 == .toolLoopLimitExceeded(2) },
        Row(testDescription: "responseFailed", scenario: "failed") {
            if case .responseFailed(let response) = $0 { response.status == .failed } else { false }
        },
        Row(testDescription: "responseFailed, ended early", scenario: "incomplete") {
            if case .responseFailed(let response) = $0 { !response.outputText.isEmpty } else { false }
        },
        Row(testDescription: "streamingTransportReplayDiverged", scenario: "diverge") {
            if case .streamingTransportReplayDiverged(let partial) = $0 { !partial.isEmpty } else { false }
        },
        Row(testDescription: "httpError", scenario: "bad-request") {
            if case .httpError(400, let body) = $0 { body.contains("Invalid prompt.") } else { false }
        },
        Row(testDescription: "invalidResponse", scenario: "html") { $0 == .invalidResponse },
        Row(testDescription: "transportFailed", scenario: "hang-up") {
            if case .transportFailed(let error) = $0 { error.code == .connectionLost } else { false }
        },
        Row(testDescription: "contextWindowExceeded", scenario: "failed-context-length") {
            $0 == .contextWindowExceeded
        },
        Row(
            testDescription: "messageTooLarge", policy: Tenant.webSocketOnly,
            configure: { $0.endpoints.profile.webSocket?.messageLimit = 100 }
        ) { if case .messageTooLarge(let bytes, 100) = $0 { bytes > 100 } else { false } },
        Row(
            testDescription: "invalidTool", tool: ChappieHostTool(name: "two words") { _ in "x" }
        ) { if case .invalidTool("two words", _) = $0 { true } else { false } },
    ]

    @Test(arguments: rows) func everyErrorOfTheTableCanHappenAndSaysWhatToDo(row: Row) async throws {
        let scenario = try row.scenario.map { try SimulatorScenario(named: $0) }
        try await Loopback.run(scenario, signedIn: row.isSignedIn ? 1 : 0, clock: HastyClock()) { loopback in
            let tenant = loopback.tenants[0]
            let client = tenant.client(row.policy, tools: row.tool.map { [$0] } ?? [], configure: row.configure)
            do {
                let text = try await client.send(row.question)
                Issue.record("there was an answer: \(text)")
            } catch let error as ChappieClientError {
                #expect(row.matches(error), "\(error)")
                // As the documents catch it: what no case was written for still has a sentence.
                let anyError: any Error = error
                #expect(anyError.localizedDescription == error.errorDescription)
                #expect(
                    error.errorDescription?.hasSuffix(".") == true || row.testDescription == "reauthenticationRequired")
                #expect(error.recoverySuggestion?.isEmpty == false)
            }
        }
    }
}
