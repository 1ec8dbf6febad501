@_spi(ChappieInternals) import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// After a change of plan the tokens name the old plan for days: the client renews them once.
@Suite struct PlanChangeTests {
    private static let refused = Reply.refused(
        429, #"{"error":{"type":"usage_not_included","message":"Not included."}}"#)

    private static func usage(_ plan: String) -> ScriptedHTTPAnswer { .response(body: #"{"plan_type":"\#(plan)"}"#) }

    /// Tokens of the same user, which name `plan`.
    private static func tokens(_ plan: String) -> ScriptedHTTPAnswer {
        var person = SeededAuth(expiresAt: Date(timeIntervalSince1970: 1_800_000_000))
        person.plan = plan
        person.serial = 2
        let answer: ChappieJSON = [
            "id_token": .string(person.idToken), "access_token": .string(person.accessToken), "refresh_token": "rt_2",
        ]
        return .response(body: answer.serialized())
    }

    private func count(_ harness: ClientHarness, _ path: String) -> Int {
        harness.http.receivedRequests.count { $0.url.path().hasSuffix(path) }
    }

    @Test(arguments: Wire.allCases) func `a plan that has changed is renewed, and the question asked once more`(
        wire: Wire
    ) async throws {
        let harness = ClientHarness(
            wire, [Self.refused, .answer("yes")], others: [Self.usage("pro"), Self.tokens("pro")])
        let seen = await harness.ask()
        #expect(seen.text == "yes", "\(seen)")
        #expect(count(harness, "/usage") == 1 && count(harness, "/oauth/token") == 1)
        #expect(try await harness.client.accountInfo().plan == .pro)
    }

    @Test func `a plan that the refusal itself names is enough`() async throws {
        let refused = Reply.refused(429, #"{"error":{"type":"usage_limit_reached","plan_type":"pro"}}"#)
        let harness = ClientHarness(.serverSentEvents, [refused, .answer("yes")], others: [Self.tokens("pro")])
        #expect(await harness.ask().text == "yes")
        #expect(count(harness, "/usage") == 0)
    }

    @Test func `a limit that stays after the renewal is said with its plan`() async throws {
        let harness = ClientHarness(
            .serverSentEvents, [Self.refused, Self.refused], others: [Self.usage("pro"), Self.tokens("pro")])
        let error = try #require(await harness.ask().error)
        #expect(error.errorDescription == "Not included.")
        #expect(try harness.requests.count == 2)
    }

    @Test func `a renewal that brings the old plan is the only one within the hour`() async throws {
        let harness = ClientHarness(
            .serverSentEvents, [Self.refused, Self.refused, Self.refused],
            others: [Self.usage("pro"), Self.tokens("plus")])
        let error = try #require(await harness.ask().error)
        #expect(
            error.errorDescription == "Not included. Your sign-in says Plus, the service says Pro.", "\(error)")
        #expect(error.recoverySuggestion == "Sign in again.")
        #expect(await harness.ask().error != nil)
        #expect(count(harness, "/oauth/token") == 1 && count(harness, "/usage") == 1)
    }

    @Test(arguments: ["plus", "PLUS"]) func `a plan that has not changed renews nothing`(plan: String) async throws {
        let harness = ClientHarness(.serverSentEvents, [Self.refused], others: [Self.usage(plan)])
        #expect(await harness.ask().error?.errorDescription == "Not included.")
        #expect(try harness.requests.count == 1)
        #expect(count(harness, "/oauth/token") == 0)
    }
}
