import ChappieCore
import ChappieSimulator

extension Simulator {
    static let clientID = "app_EMoamEEZ73f0CkXaXp7hrann"

    var base: String { "http://127.0.0.1:\(port)" }
    var responses: String { "\(base)/backend-api/codex/responses" }

    /// A simulator that lives as long as `body` runs.
    static func during<Value>(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration(), scenario: String? = nil,
        _ body: (Simulator) async throws -> Value
    ) async throws -> Value {
        var configuration = configuration
        if let scenario { configuration.scenario = try SimulatorScenario(parsing: scenario) }
        let simulator = try await Simulator.start(configuration)
        do {
            let value = try await body(simulator)
            await simulator.stop()
            return value
        } catch {
            await simulator.stop()
            throw error
        }
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
