import ChappieClient
import ChappieCore
import ChappieTesting
import HTTPTypes
import Testing

@Suite struct AccountTests {
    private let list =
        #"{"models":[{"slug":"b","priority":2},{"slug":"a","priority":1},{"slug":"h","visibility":"hide"}]}"#

    @Test func modelsComeBestFirstAndAreCachedByTheirTag() async throws {
        let stage = Stage([
            .response(headerFields: [.eTag: "\"v1\""], body: list), .response(status: .notModified),
            .response(headerFields: [.eTag: "\"v2\""], body: #"{"models":[{"slug":"c"}]}"#),
        ])
        #expect(try await stage.client.models().map(\.slug) == ["a", "b"])
        #expect(try await stage.client.models(filter: ChappieModelFilter(includesHidden: true)).count == 3)
        #expect(try await stage.client.bestAvailableModel()?.slug == "c")
        #expect(stage.transport.receivedRequests.map { $0.headerFields[.ifNoneMatch] } == [nil, "\"v1\"", "\"v1\""])
        #expect(
            stage.transport.receivedRequests[0].url.absoluteString
                == "https://chatgpt.com/backend-api/codex/models?client_version=0.163.0")
    }

    @Test func aFallbackIsTheBestOfTheOthers() async throws {
        let stage = Stage([.response(body: list)])
        #expect(try await stage.client.fallbackModel(excluding: "a")?.slug == "b")
    }

    @Test func aChosenModelIsUsedFromTheNextTurnOn() async throws {
        let stage = Stage([stream(events(answering: "1"))])
        await stage.client.selectModel("gpt-next")
        _ = try await stage.client.send("Hi")
        let body = try ChappieJSON(parsing: stage.transport.receivedRequests[0].body?.bytes ?? [])
        #expect(body["model"]?.string == "gpt-next")
    }

    @Test func usageIsRead() async throws {
        let stage = Stage([
            .response(
                body:
                    #"{"plan_type":"plus","rate_limit":{"primary_window":{"used_percent":12,"limit_window_seconds":18000}}}"#
            )
        ])
        let usage = try await stage.client.usageLimits()
        #expect(usage.plan == .plus)
        #expect(usage.primary?.windowMinutes == 300)
    }

    @Test(arguments: ["", "<html>", "[]", #"{"object":1}"#])
    func nonsenseIsAnInvalidResponse(body: String) async throws {
        let stage = Stage([.response(body: body), .response(body: body)])
        await #expect(throws: ChappieClientError.invalidResponse) { try await stage.client.models() }
        await #expect(throws: ChappieClientError.invalidResponse) { try await stage.client.usageLimits() }
    }

    @Test func accountInfoComesFromTheCredential() async throws {
        #expect(try await Stage([]).client.accountInfo().email == "person@example.com")
        await #expect(throws: ChappieClientError.missingCredential) {
            try await Stage([], signedIn: false).client.accountInfo()
        }
    }
}
