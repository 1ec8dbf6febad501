@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The service's search of the web, which the client asks for itself.
struct SearchService: Sendable {
    let caller: ServiceCaller
    /// The id of the conversation, in which the references of earlier answers are valid.
    let id: String
    /// The id of the turn.
    let turnID: String
    let model: String

    /// The number of requests for one search, if the service or the network fails.
    private static let attempts = 3
    /// The largest number of pages that are read from an answer.
    private static let resultLimit = 200
    /// The largest answer, in bytes.
    private static let answerLimit = 16 << 20
    /// The beginnings of outputs that are failures, although the status says otherwise (public reports, 2026).
    private static let failures = ["Found no tool response", "Error parsing function call"]

    /// Runs commands. The form is that of the Codex CLI 0.163.0.
    ///
    /// - Parameters:
    ///   - commands: the members `search_query`, `open`, `find` and others.
    ///   - settings: the way in which they are run.
    ///   - input: the end of the conversation.
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    func run(
        _ commands: ChappieJSONObject, _ settings: ChappieJSONObject, input: [ChappieJSON]
    ) async throws -> ChappieSearchAnswer {
        guard let url = caller.endpoints.searchURL else { throw ChappieClientError.notWithThisSignIn("The web search") }
        let body: ChappieJSONObject = [
            "id": .string(id), "model": .string(model), "input": .array(input), "commands": .object(commands),
            "settings": .object(settings), "max_output_tokens": 10000,
        ]
        var attempt = 1
        while true {
            do {
                let response = try await caller.post(body, to: url, fields)
                return try answer(response, try await response.body.collect(upTo: Self.answerLimit))
            } catch {
                let failure = AttemptFailure(error, over: .serverSentEvents)
                guard attempt < Self.attempts, Self.mayPass(failure.kind) else { throw failure.error }
                let pause = failure.retryAfter.map { min($0, 10) } ?? 0.5 * Double(attempt)
                try await caller.clock.sleep(for: .seconds(pause))
                attempt += 1
            }
        }
    }

    /// Returns whether the same request may succeed.
    private static func mayPass(_ kind: AttemptFailure.Kind) -> Bool {
        [.broken, .unanswered, .unreachable, .unresolved, .overloaded].contains(kind)
    }

    private var fields: HTTPFields {
        let metadata: ChappieJSONObject = [
            "session_id": .string(id), "thread_id": .string(id), "turn_id": .string(turnID), "model": .string(model),
        ]
        return [.turnMetadata: ChappieJSON.object(metadata).serialized()]
    }

    private func answer(_ response: HTTPExchangeResponse, _ body: [UInt8]) throws -> ChappieSearchAnswer {
        let json = try? ChappieJSON(parsing: body)
        let results = (json?["results"]?.array ?? []).prefix(Self.resultLimit).compactMap(ChappieSearchResult.init)
        guard let json, let output = json["output"]?.string ?? (results.isEmpty ? nil : "") else {
            throw caller.errors.failure(
                ofSuccess: response.status.code, headerFields: response.headerFields, body: body, now: caller.clock.now)
        }
        if Self.failures.contains(where: output.hasPrefix) {
            throw ChappieClientError.searchFailed(UntrustedText.message(output, limit: 300) ?? "")
        }
        return ChappieSearchAnswer(text: output, results: results)
    }
}

extension ChappieClientError {
    /// Whether the endpoint of a tool does not exist here, or a page of the protection in front of the service came
    /// instead of its answer. The next request would be answered in the same way.
    var isGone: Bool {
        switch self {
        case .blockedByGateway, .gatewayAnswered, .httpError(404, _): true
        default: false
        }
    }
}

extension HTTPField.Name {
    /// The field that names the conversation and the turn. The name is valid by RFC 9110's grammar. The fallback only
    /// avoids a trap.
    fileprivate static let turnMetadata = HTTPField.Name("x-codex-turn-metadata") ?? .accept
}
