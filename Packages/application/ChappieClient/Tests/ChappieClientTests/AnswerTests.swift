import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// Each way of asking returns or throws what the documents say.
@Suite struct AnswerTests {
    @Test(arguments: Wire.allCases, ["max_output_tokens", "content_filter"])
    func `an answer that ended early is an error only of send`(wire: Wire, reason: String) async throws {
        let harness = ClientHarness(wire, Array(repeating: .incomplete("half", reason: reason), count: 3))
        do {
            _ = try await harness.client.send("Hi")
            Issue.record("no error")
        } catch ChappieClientError.responseFailed(let response) {
            #expect(response.outputText == "half")
            #expect(response.status == .incomplete)
            #expect(response.incompleteReason == reason)
            let sentence = ChappieClientError.responseFailed(response).errorDescription ?? ""
            #expect(sentence.contains(reason) && !sentence.contains("without a reason"), "\(sentence)")
        }
        let response = try await harness.client.response(ChappieResponseRequest(messages: [.user("Hi")]))
        #expect(response.outputText == "half")
        #expect(response.incompleteReason == reason)
        let seen = await harness.ask()
        #expect(seen.text == "half")
        #expect(seen.response?.status == .incomplete)
    }

    @Test func theModelListAndTheLimitsFollowTheBackoff() async throws {
        let busy = ScriptedHTTPAnswer.response(status: .tooManyRequests, headerFields: [.retryAfter: "5"], body: "{}")
        let list = ScriptedHTTPAnswer.response(body: #"{"models":[{"slug":"a"}]}"#)
        let usage = ScriptedHTTPAnswer.response(body: #"{"plan_type":"plus"}"#)
        let harness = ClientHarness(others: [busy, busy, list, busy, usage])
        #expect(try await harness.client.models().map(\.slug) == ["a"])
        #expect(harness.clock.elapsed == .seconds(10))
        #expect(try await harness.client.usageLimits().plan == .plus)
        #expect(harness.clock.elapsed == .seconds(15))
        let strict = ClientHarness(others: [busy, busy], backoff: .disabled)
        await #expect(throws: ChappieClientError.httpError(429, "{}")) { try await strict.client.models() }
        #expect(strict.http.receivedRequests.count == 1)
    }

    /// A pooled connection has died with the network under it; the second one doesn't stand.
    @Test(arguments: [ChappieTransportError.Code.connectionLost, .timedOut])
    func `the model list and the limits are requested once more on a new connection`(
        _ code: ChappieTransportError.Code
    ) async throws {
        func failure(_ stage: ChappieTransportError.Stage) -> ScriptedHTTPAnswer {
            .failure(ChappieTransportError(code, stage: stage, host: "chatgpt.com", reason: "r"))
        }
        let (list, usage) = (#"{"models":[{"slug":"a"}]}"#, #"{"plan_type":"plus"}"#)
        let dead = failure(.responseHead)
        let harness = ClientHarness(others: [dead, .response(body: list), dead, .response(body: usage)])
        #expect(try await harness.client.models().map(\.slug) == ["a"])
        #expect(try await harness.client.usageLimits().plan == .plus)
        for answers in [[dead, dead], [dead, failure(.connect)], [failure(.connect)]] {
            let harness = ClientHarness(others: answers)
            await #expect(throws: ChappieClientError.self) { try await harness.client.models() }
            #expect(harness.http.receivedRequests.count == answers.count)
        }
    }

    // MARK: Models, limits, account

    private static let list =
        #"{"models":[{"slug":"b","priority":2},{"slug":"a","priority":1},{"slug":"h","visibility":"hide"}]}"#

    @Test func `models are sorted best first and are cached by their tag`() async throws {
        let harness = ClientHarness(
            others: [
                .response(headerFields: [.eTag: "\"v1\""], body: Self.list), .response(status: .notModified),
                .response(headerFields: [.eTag: "\"v2\""], body: #"{"models":[{"slug":"c"}]}"#),
                .response(body: Self.list),
            ], modelCache: EmptyModelCache())
        let client = harness.client
        #expect(try await client.models().map(\.slug) == ["a", "b"])
        #expect(try await client.models(filter: ChappieModelFilter(includesHidden: true)).count == 3)
        #expect(try await client.bestAvailableModel()?.slug == "c")
        #expect(try await client.fallbackModel(excluding: "a")?.slug == "b")
        let requests = harness.http.receivedRequests
        #expect(requests.map { $0.headerFields[.ifNoneMatch] } == [nil, "\"v1\"", "\"v1\"", "\"v2\""])
        #expect(
            requests[0].url.absoluteString == "https://chatgpt.com/backend-api/codex/models?client_version=0.163.0")
    }

    @Test func `a page in the place of a list or of limits is a network's`() async throws {
        let harness = ClientHarness(others: [.response(body: "<html>"), .response(body: "<html>")])
        let page = ChappieGatewayAnswer(sender: .network, host: "chatgpt.com", status: 200)
        await #expect(throws: ChappieClientError.gatewayAnswered(page)) { try await harness.client.models() }
        await #expect(throws: ChappieClientError.gatewayAnswered(page)) { try await harness.client.usageLimits() }
    }

    @Test(arguments: ["", "[]", #"{"object":1}"#])
    func nonsenseIsAnInvalidResponse(body: String) async throws {
        let harness = ClientHarness(others: [.response(body: body), .response(body: body)])
        await #expect(throws: ChappieClientError.invalidResponse) { try await harness.client.models() }
        await #expect(throws: ChappieClientError.invalidResponse) { try await harness.client.usageLimits() }
    }

    @Test func theLimitsAndTheAccountAreRead() async throws {
        let usage =
            #"{"plan_type":"plus","rate_limit":{"primary_window":{"used_percent":12,"limit_window_seconds":18000}}}"#
        let harness = ClientHarness(others: [.response(body: usage)])
        let limits = try await harness.client.usageLimits()
        #expect(limits.plan == .plus && limits.primary?.windowMinutes == 300)
        #expect(try await harness.client.accountInfo().email == "person@example.com")
    }
}
