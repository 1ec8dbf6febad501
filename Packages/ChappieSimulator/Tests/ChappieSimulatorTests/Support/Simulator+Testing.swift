import ChappieCore
import ChappieSimulator
import TestFixtures

extension Simulator {
    static let clientID = "app_EMoamEEZ73f0CkXaXp7hrann"

    var base: String { "http://127.0.0.1:\(port)" }
    var responses: String { "\(base)/backend-api/codex/responses" }

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
        var lines: [String] = []
        for await exchange in log { lines.append(exchange.line) }
        return lines
    }

    /// A turn with nothing but what is needed.
    static func turn(_ text: String, _ more: [(String, ChappieJSON)] = []) -> ChappieJSON {
        .object(
            ChappieJSONObject(
                [
                    ("model", "gpt-5.5"), ("store", false), ("stream", true),
                    ("input", [["role": "user", "content": .string(text)]]),
                ] + more))
    }

    /// One exchange with a new access token.
    func authorized(
        _ method: String, _ path: String, headers: [String] = [], json: ChappieJSON? = nil, body: [UInt8]? = nil
    ) throws -> Curl {
        try Curl(
            method, "\(base)/backend-api/\(path)",
            headers: ["authorization: Bearer \(issueCredential().accessToken)"] + headers, json: json, body: body)
    }

    func ask(_ text: String, _ more: [(String, ChappieJSON)] = [], options: [String] = []) throws -> Curl {
        try Curl(
            "POST", responses, headers: ["authorization: Bearer \(issueCredential().accessToken)"],
            json: Self.turn(text, more), options: options)
    }
}

extension [ChappieJSON] {
    var types: [String] { compactMap { $0["type"]?.string } }
    /// The text deltas, joined.
    var text: String {
        filter { $0["type"] == "response.output_text.delta" }.compactMap { $0["delta"]?.string }.joined()
    }
}
