import ChappieCore
import FoundationEssentials
import Synchronization
import TestFixtures

@testable import ChappieSimulator
@testable import ChappieSimulatorServer

extension Simulator {
    static let clientID = "app_EMoamEEZ73f0CkXaXp7hrann"

    var base: String { "http://127.0.0.1:\(port)" }
    /// The header field of a new sign-in.
    var bearer: String { "authorization: Bearer \(signIn().accessToken)" }

    /// Signs in without any request: for tests that are about something else.
    func signIn(clientID: String = clientID) -> IssuedTokens {
        core.withBackend { backend, now in backend.tokens.signIn(clientID: clientID, now: now) }
    }

    /// A simulator that lives as long as `body` runs, on a thread of its own: what it does blocks.
    @discardableResult
    static func during<Value: Sendable>(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration(), named name: String? = nil,
        scenario: String? = nil, _ body: @escaping @Sendable (Simulator) throws -> Value
    ) async throws -> Value {
        var configuration = configuration
        if let name { configuration.scenario = try SimulatorScenario(named: name) }
        if let scenario { configuration.scenario = try SimulatorScenario(parsing: scenario) }
        let simulator = try await Simulator.start(configuration)
        do {
            let value = try await onOwnThread { try body(simulator) }
            await simulator.stop()
            return value
        } catch {
            await simulator.stop()
            throw error
        }
    }

    /// The lines of the log, when `body` has run.
    static func logged(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration(), named name: String? = nil,
        scenario: String? = nil, _ body: @escaping @Sendable (Simulator) throws -> Void
    ) async throws -> [String] {
        let log = try await during(configuration, named: name, scenario: scenario) { simulator in
            try body(simulator)
            return simulator.log
        }
        return await log.reduce(into: []) { $0.append($1) }
    }

    /// A turn in the lite form with nothing but what is needed. One that starts from a response brings no tools again.
    static func turn(
        _ text: String, _ more: [(String, ChappieJSON)] = [], tools: [ChappieJSON] = []
    ) -> ChappieJSON {
        let declared: ChappieJSON = ["type": "additional_tools", "role": "developer", "tools": .array(tools)]
        let message: ChappieJSON = ["role": "user", "content": .string(text)]
        let isChained = more.contains { $0.0 == "previous_response_id" }
        let body: ChappieJSONObject = [
            "model": "gpt-6.1-sol", "store": false, "stream": true,
            "input": isChained ? [message] : [declared, message],
            "tool_choice": "auto", "parallel_tool_calls": false, "reasoning": ["context": "all_turns"],
            "include": ["reasoning.encrypted_content"],
        ]
        return .object(ChappieJSONObject(body.members.map { ($0.name, $0.value) } + more))
    }

    /// A turn as it was in September, with nothing but what is needed.
    static func flatTurn(_ text: String, _ more: [(String, ChappieJSON)] = []) -> ChappieJSON {
        let message: ChappieJSON = ["role": "user", "content": .string(text)]
        return .object(
            ChappieJSONObject([("model", "gpt-5.5"), ("store", false), ("stream", true), ("input", [message])] + more))
    }

    static let versionHeader = "version: 0.163.0"
    static let liteMarker = "x-openai-internal-codex-responses-lite: true"
    static func routingHint(_ model: String) -> String { "x-codex-routing-hint: model=\(model)" }

    /// One exchange with a new access token, and the header fields of November.
    func authorized(
        _ method: String, _ path: String, headers: [String] = [], json: ChappieJSON? = nil, body: [UInt8]? = nil,
        without missing: String? = nil, options: [String] = []
    ) throws -> Curl {
        let hint = Self.routingHint(json?["model"]?.string ?? "gpt-6.1-sol")
        let usual = [bearer, Self.versionHeader, Self.liteMarker, hint]
        let kept = usual.filter { field in field != missing && !headers.contains { $0.hasPrefix(Self.name(of: field)) }
        }
        return try Curl(
            method, "\(base)/backend-api/\(path)", headers: kept + headers, json: json, body: body, options: options)
    }

    private static func name(of field: String) -> Substring { field.prefix { $0 != ":" } }

    func post(_ body: ChappieJSON, without missing: String? = nil) throws -> Curl {
        try authorized("POST", "codex/responses", json: body, without: missing)
    }

    func ask(_ text: String, _ more: [(String, ChappieJSON)] = [], options: [String] = []) throws -> Curl {
        try authorized("POST", "codex/responses", json: Self.turn(text, more), options: options)
    }
}

extension [ChappieJSON] {
    var types: [String] { compactMap { $0["type"]?.string } }
    /// The text deltas, joined.
    var text: String {
        filter { $0["type"] == "response.output_text.delta" }.compactMap { $0["delta"]?.string }.joined()
    }
}

/// A clock that goes on when it is told to.
final class StillClock: ChappieClock {
    private let seconds = Mutex(1_795_000_000.0)

    var now: Date { Date(timeIntervalSince1970: seconds.withLock { $0 }) }
    var elapsed: Duration { .zero }
    func sleep(for duration: Duration) async throws { try Task.checkCancellation() }
    func advance(seconds count: Double) { seconds.withLock { $0 += count } }
}
