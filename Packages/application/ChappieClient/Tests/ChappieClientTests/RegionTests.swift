@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// Refusals with status 401 that are not about the token.
@Suite struct RegionTests {
    private static let words = "Workspace is not authorized in this region."
    private static let refused = Reply.refused(401, #"{"detail":"\#(words)"}"#, headers: ["x-request-id": "req_9"])

    private static func check(_ routing: String) -> ScriptedHTTPAnswer {
        .response(body: #"{"accounts":[{"id":"account-1",\#(routing)}]}"#)
    }

    private func paths(_ harness: ClientHarness) -> [String] { harness.http.receivedRequests.map { $0.url.path() } }

    @Test(arguments: Wire.allCases) func `a refusal for the region is repeated over the service's route`(
        wire: Wire
    ) async throws {
        let harness = ClientHarness(
            wire, [Self.refused, .answer("Hello"), .answer("again", id: "resp_2")],
            others: [Self.check(#""account_routing_override":"us_cr""#)])
        #expect(await harness.ask().text == "Hello")
        #expect(await harness.ask().text == "again")
        let checks = paths(harness).filter { $0.hasSuffix("/wham/accounts/check") }
        #expect(checks.count == 1 && !paths(harness).contains("/oauth/token"))
        let name = try #require(HTTPField.Name("x-openai-account-routing-override"))
        let sent =
            wire == .webSocket
            ? harness.webSocket.receivedOpenings.map { $0.headerFields[name] }
            : harness.http.receivedRequests.filter { $0.url.path().hasSuffix("/responses") }.map {
                $0.headerFields[name]
            }
        #expect(sent.first == .some(nil) && sent.dropFirst().allSatisfy { $0 == "us_cr" } && sent.count > 1)
    }

    @Test(arguments: Wire.allCases) func `a refusal for the region without another route says what was sent`(
        wire: Wire
    ) async throws {
        let harness = ClientHarness(
            wire, [Self.refused], others: [Self.check(#""workspace_backend_origin":"https://eu.chatgpt.example""#)])
        let error = await harness.ask().error
        guard case .planRefused(let refusal)? = error else {
            Issue.record("another error: \(String(describing: error))")
            return
        }
        #expect(refusal.reason == .workspaceRegion)
        #expect(refusal.status == 401)
        #expect(refusal.region == nil)
        #expect(error?.requestID == "req_9")
        let sentence = error?.errorDescription ?? ""
        #expect(sentence.hasPrefix("Your workspace allows requests from its region only: \(Self.words)"))
        #expect(sentence.contains("https://eu.chatgpt.example") && sentence.contains("names no region"))
        #expect(harness.http.receivedRequests.allSatisfy { $0.url.host() == "chatgpt.com" })
        #expect(!paths(harness).contains("/oauth/token"))
    }

    @Test func `the region that was sent is named`() {
        var refusal = RegionRefusal(status: 401, message: nil, requestID: nil)
        refusal.region = "eu"
        let error = ChappieClientError.wrapping(refusal) as? ChappieClientError
        #expect(
            error?.errorDescription
                == "Your workspace allows requests from its region only. The request named the region \"eu\".")
    }

    @Test func `lists and limits take the route as well`() async throws {
        let refused = ScriptedHTTPAnswer.response(
            status: .unauthorized,
            body:
                #"{"error":{"message":"The requested model snapshot is not available for your project's geography."}}"#)
        let list = ScriptedHTTPAnswer.response(body: SeededModelCache.list.serialized())
        let harness = ClientHarness(
            others: [refused, Self.check(#""account_routing_override":"us""#), list])
        #expect(try await !harness.client.models().isEmpty)
        #expect(paths(harness).count == 3 && !paths(harness).contains("/oauth/token"))
    }

    /// Which 401 may be cured by another token.
    @Test(arguments: [
        ("", true), ("<html>No</html>", true), ("{}", true), (#"{"detail":"Unauthorized"}"#, true),
        (#"{"error":{"code":"token_expired","message":"Provided authentication token is expired."}}"#, true),
        (#"{"error":{"code":"token_revoked","message":"It was revoked."}}"#, true),
        (#"{"error":{"message":"Your session has ended. Please log in again."}}"#, true),
        (#"{"error":{"message":"Could not validate your credentials."}}"#, true),
        (#"{"detail":"Workspace is not authorized in this region."}"#, false),
        (#"{"detail":"The requested model snapshot is not available for your project's geography."}"#, false),
        (#"{"detail":"Requests from your region are not allowed."}"#, false),
        (#"{"detail":"Your workspace has no access to this model."}"#, false),
        (#"{"error":{"code":"model_not_allowed","message":"The model is not enabled for you."}}"#, false),
    ])
    func `only a 401 about the token renews it`(_ body: String, _ renews: Bool) async throws {
        let refusals = PlanRefusals(errors: BackendErrors(.chatGPT), clock: SystemClock())
        var response = HTTPExchangeResponse(status: .unauthorized, body: HTTPBody(bytes: Array(body.utf8)))
        let refusal = try await refusals.refusal(in: &response)
        #expect((refusal == nil) == renews, "\(String(describing: refusal))")
        #expect(try await response.body.collect(upTo: 1000) == Array(body.utf8), "it can still be read")
    }

    @Test(arguments: Wire.allCases) func `a 401 about something else is final`(wire: Wire) async throws {
        let body = #"{"detail":"Your workspace has no access to this model."}"#
        let harness = ClientHarness(wire, [.refused(401, body)])
        guard case .httpError(401, _)? = await harness.ask().error else {
            Issue.record("another error")
            return
        }
        #expect(!paths(harness).contains("/oauth/token"))
    }

    /// The advice asks to report it.
    @Test func `a refusal to report names the request`() {
        let refusal = ChappiePlanRefusal(reason: .userUnknown, message: "Refused", requestID: "req_7")
        let error = ChappieClientError.planRefused(refusal)
        #expect(error.errorDescription?.hasSuffix("Refused. The request's id is req_7.") == true)
        #expect(error.recoverySuggestion?.contains("the request's id") == true)
    }
}
