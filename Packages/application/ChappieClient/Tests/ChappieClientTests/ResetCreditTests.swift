@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import Foundation
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieClient

/// The credits that reset the plan's limits.
@Suite(.timeLimit(.minutes(2))) struct ResetCreditTests {
    private static func answer(_ status: Int, _ body: String) -> ScriptedHTTPAnswer {
        .response(status: .init(code: status), headerFields: [.contentType: "application/json"], body: body)
    }

    private func harness(_ answers: ScriptedHTTPAnswer..., endpoints: ChappieEndpoints? = nil) -> ClientHarness {
        ClientHarness(.serverSentEvents, [], others: answers, endpoints: endpoints, configure: { _ in })
    }

    private func outcome(_ answer: ScriptedHTTPAnswer) async throws -> (error: ChappieClientError?, count: Int) {
        let harness = harness(answer)
        do {
            _ = try await harness.client.redeem(ChappieRedemptionRequest())
            return (nil, harness.http.receivedRequests.count)
        } catch let error as ChappieClientError {
            return (error, harness.http.receivedRequests.count)
        }
    }

    @Test func `credits that can be redeemed come first, in the order of their ends`() async throws {
        let harness = harness(
            Self.answer(
                200,
                #"""
                {"available_count": 2, "credits": [
                  {"id": "used", "status": "redeemed", "expires_at": "2090-01-01T00:00:00Z"},
                  {"id": "late", "status": "available", "expires_at": "2091-01-01T00:00:00.5Z", "title": "Full reset"},
                  {"id": "over", "status": "available", "expires_at": "1999-01-01T00:00:00Z"},
                  {"id": "soon", "status": "available", "expires_at": 3786912000, "granted_at": null},
                  {"status": "available"}, {"id": "endless", "status": "available", "shape": [1]}]}
                """#))
        let credits = try await harness.client.resetCredits()
        #expect(credits.map(\.id) == ["soon", "late", "endless", "over", "used"])
        #expect(credits[0].expiresAt == Date(timeIntervalSince1970: 3_786_912_000))
        #expect(credits[1].title == "Full reset" && credits[4].status == .redeemed)
        let sent = try #require(harness.http.receivedRequests.first)
        #expect(sent.method == .get && sent.url.path() == "/backend-api/wham/rate-limit-reset-credits")
        let empty = self.harness(Self.answer(200, #"{"available_count": 0, "credits": []}"#))
        #expect(try await empty.client.resetCredits().isEmpty)
    }

    @Test func `a redemption sends its own id, and the same request the same id again`() async throws {
        let harness = harness(
            Self.answer(200, #"{"code": "reset", "windows_reset": 2}"#),
            Self.answer(200, #"{"code": "already_redeemed", "windows_reset": 0}"#))
        let request = ChappieRedemptionRequest(creditID: "credit_1")
        let stored = try JSONDecoder().decode(ChappieRedemptionRequest.self, from: JSONEncoder().encode(request))
        #expect(try await harness.client.redeem(request) == ChappieRedemption(windowsReset: 2))
        #expect(
            try await harness.client.redeem(stored)
                == ChappieRedemption(windowsReset: 0, wasRedeemedBefore: true))
        let bodies = try harness.http.receivedRequests.map { try ChappieJSON(parsing: $0.body?.bytes ?? []) }
        #expect(bodies == [["redeem_request_id": .string(request.id), "credit_id": "credit_1"]] + [bodies[0]])
        #expect(UUID(uuidString: request.id) != nil && ChappieRedemptionRequest().id != request.id)
    }

    @Test(arguments: [
        (200, #"{"code": "nothing_to_reset"}"#, ChappieResetRefusal.nothingToReset),
        (200, #"{"code": "no_credit", "windows_reset": 0}"#, .noCredit),
        (403, #"{"error": {"code": "rate_limit_reset_ineligible", "message": "No."}}"#, .ineligible),
        (403, #"{"detail": {"code": "rate_limit_reset_ineligible"}}"#, .ineligible),
    ])
    func `a refusal names its reason`(status: Int, body: String, refusal: ChappieResetRefusal) async throws {
        let end = try await outcome(Self.answer(status, body))
        #expect(end.error == .resetRefused(refusal) && end.count == 1)
        #expect(end.error?.errorDescription?.isEmpty == false && end.error?.recoverySuggestion?.isEmpty == false)
    }

    @Test func `an outcome that is not known is no refusal, and nothing is sent again`() async throws {
        let lost = ChappieTransportError(.connectionLost, stage: .responseHead, host: "chatgpt.com", reason: "gone")
        for answer in [
            Self.answer(503, "{}"), Self.answer(200, #"{"code": "hologram"}"#), Self.answer(200, "<html>"),
            .failure(lost),
        ] {
            let end = try await outcome(answer)
            #expect(end.count == 1)
            if case .resetRefused? = end.error { Issue.record("\(String(describing: end.error))") }
            #expect(end.error != nil)
        }
    }

    @Test func `the plan route has no credits, and nothing is sent`() async throws {
        let harness = harness(endpoints: .continueWithChatGPT(appName: "Test"))
        await #expect(throws: ChappieClientError.notWithThisSignIn("The reset of limits")) {
            try await harness.client.resetCredits()
        }
        await #expect(throws: ChappieClientError.notWithThisSignIn("The reset of limits")) {
            try await harness.client.redeem(ChappieRedemptionRequest())
        }
        #expect(harness.http.receivedRequests.isEmpty)
    }
}
