import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

/// What a host sees of the exchanges themselves: its own middleware, the server's names for them, the text alone.
@Suite(.timeLimit(.minutes(2))) struct ExchangeTests {
    /// Remembers what it sees, and adds a field; sends to another host where there is one.
    private final class Witness: HTTPMiddleware {
        private let seen = Mutex<[HTTPExchangeRequest]>([])
        private let statuses = Mutex<[Int]>([])
        private let host: URL?

        init(host: URL? = nil) { self.host = host }

        var requests: [HTTPExchangeRequest] { seen.withLock(\.self) }
        var answers: [Int] { statuses.withLock(\.self) }

        func intercept(
            _ request: HTTPExchangeRequest,
            next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
        ) async throws -> HTTPExchangeResponse {
            seen.withLock { $0.append(request) }
            var request = request
            request.headerFields[.acceptLanguage] = "eo"
            if let host { request.url = host }
            let response = try await next(request)
            statuses.withLock { $0.append(response.status.code) }
            return response
        }
    }

    // MARK: Middleware

    @Test func `middleware sees every HTTP exchange without the sign-in`() async throws {
        let witness = Witness()
        let usage = #"{"plan_type":"plus"}"#
        let harness = ClientHarness(
            .serverSentEvents, [.refused(500), .answer("Hello")],
            others: [.response(body: #"{"models":[]}"#), .response(body: usage)], middleware: [witness])
        #expect(await harness.ask().text == "Hello")
        _ = try await harness.client.models()
        _ = try await harness.client.usageLimits()
        #expect(witness.answers == [500, 200, 200, 200])
        #expect(
            witness.requests.map { $0.url.lastPathComponent } == ["responses", "responses", "models", "usage"])
        for request in witness.requests {
            let names = request.headerFields.map(\.name.canonicalName)
            #expect(!names.contains("authorization") && !names.contains("chatgpt-account-id"), "\(names)")
        }
        for request in harness.http.receivedRequests {
            #expect(request.headerFields[.acceptLanguage] == "eo")
            #expect(request.headerFields[.authorization] == "Bearer \(harness.seed.accessToken)")
        }
    }

    @Test func `a request that middleware sends to another host is refused`() async throws {
        let elsewhere = try #require(URL(string: "https://elsewhere.test/responses"))
        let harness = ClientHarness(.serverSentEvents, [.answer("Hello")], middleware: [Witness(host: elsewhere)])
        guard case .transportFailed(let error)? = await harness.ask().error else {
            Issue.record("no error")
            return
        }
        #expect(error.code == .invalidURL && error.host == "elsewhere.test")
        await #expect(throws: ChappieClientError.self) { _ = try await harness.client.models() }
        #expect(harness.http.receivedRequests.isEmpty)
    }

    @Test func theMessagesOfAWebSocketPassItBy() async {
        let witness = Witness()
        #expect(await ClientHarness(.webSocket, [.answer("Hello")], middleware: [witness]).ask().text == "Hello")
        #expect(witness.requests.isEmpty)
    }

    // MARK: Request ids

    @Test(arguments: [("x-request-id", "req_1"), ("x-oai-request-id", "req_1"), ("x-request-id", "two words")])
    func anAnswerHasTheServersNameForIt(_ name: String, _ value: String) async throws {
        let expected = value == "req_1" ? value : nil
        let fields = HTTPFields([HTTPField(name: try #require(HTTPField.Name(name)), value: value)])
        var answer = Reply.answer("Hello").httpAnswer
        answer.headerFields.append(contentsOf: fields)
        let overHTTP = ClientHarness(.serverSentEvents, [Reply(steps: [.raw(answer)])])
        #expect(await overHTTP.ask().response?.requestID == expected)
        let replies = [Reply.answer("One").webSocketSteps, Reply.answer("Two", id: "resp_2").webSocketSteps]
        let overWebSocket = ClientHarness(.webSocket, openings: [.opened(headerFields: fields, replies: replies)])
        for text in ["One", "Two"] {
            let response = try #require(await overWebSocket.ask().response)
            #expect(response.outputText == text)
            #expect(response.requestID == expected)
        }
    }

    @Test(arguments: [
        (Wire.serverSentEvents, 503, #"{"a":1}"#), (.webSocket, 503, #"{"a":2}"#),
        (.serverSentEvents, 400, #"{"a":1}"#),
        (.webSocket, 400, #"{"a":2}"#), (.serverSentEvents, 400, #"{"error":{"code":"context_length_exceeded"}}"#),
        (.serverSentEvents, 429, #"{"error":{"type":"usage_limit_reached","resets_in_seconds":9000}}"#),
        (.webSocket, 429, #"{"error":{"type":"usage_limit_reached","resets_in_seconds":9000}}"#),
    ])
    func anErrorOfTheServersHasItsNameForIt(wire: Wire, status: Int, body: String) async {
        // Of two equal errors the newest is meant.
        for id in ["req_1", "req_2"] {
            let reply = Reply.refused(status, body, headers: ["x-request-id": id])
            let error = await ClientHarness(wire, Array(repeating: reply, count: 12)).ask().error
            #expect(error?.requestID == id, "\(error.map { "\($0)" } ?? "no error")")
        }
    }

    @Test func `an answer that breaks, or is not understood, has the server's name for it`() async throws {
        let name = HTTPField.Name("cf-ray") ?? .accept
        for (body, id) in [(#"{"ok":1}"#, "ray_1"), ("data: {\"type\":\"response.created\"}\n\n", "ray_2")] {
            let answer = ScriptedHTTPAnswer(headerFields: [name: id], body: [.chunk(Array(body.utf8))])
            let harness = ClientHarness(.serverSentEvents, Array(repeating: Reply(steps: [.raw(answer)]), count: 3))
            let error = try #require(await harness.ask().error)
            #expect(error.requestID == id, "\(error)")
        }
    }

    @Test func aFailedResponseHasTheServersNameForIt() async {
        var answer = Reply.failed(#"{"code":"invalid_prompt"}"#).httpAnswer
        answer.headerFields[HTTPField.Name("x-request-id") ?? .accept] = "req_1"
        let error = await ClientHarness(.serverSentEvents, [Reply(steps: [.raw(answer)])]).ask().error
        guard case .responseFailed(let response)? = error else {
            Issue.record("\(error.map { "\($0)" } ?? "no error")")
            return
        }
        #expect(response.requestID == "req_1" && error?.requestID == "req_1")
        #expect(ChappieClientError.missingCredential.requestID == nil)
    }

    // MARK: Text alone

    @Test(arguments: Wire.allCases) func theTextAloneEndsAndFailsLikeTheStream(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.answer("Hello"), .refused(400)])
        var text = ""
        for try await piece in harness.client.stream("Hi").text { text += piece }
        #expect(text == "Hello")
        await #expect(throws: ChappieClientError.self) {
            for try await piece in harness.client.startStream(.user("Hi")).events.text { text += piece }
        }
    }
}
