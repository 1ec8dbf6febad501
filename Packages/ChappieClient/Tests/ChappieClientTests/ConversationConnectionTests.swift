@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieClient

/// What a kept connection continues, and when another is tried; sans-IO.
@Suite struct ConversationConnectionTests {
    private func item(_ text: String) -> ChappieJSON { ["type": "message", "text": .string(text)] }

    private func body(_ input: [String], model: String = "m", extra: (String, ChappieJSON)? = nil) -> ChappieJSONObject
    {
        ChappieJSONObject(
            [("model", .string(model)), ("stream", true), ("input", .array(input.map(item)))]
                + (extra.map { [$0] } ?? []))
    }

    private func answered() -> ResponseChain {
        var chain = ResponseChain()
        chain.completed(body(["h", "one"]), id: "resp_1", items: [ChappieOutputItem(item("ONE"))])
        return chain
    }

    @Test func onlyWhatIsNewIsSaid() {
        let request = answered().request(body(["h", "one", "ONE", "two"]))
        #expect(request.names == ["model", "stream", "previous_response_id", "input"])
        #expect(request["previous_response_id"] == "resp_1")
        #expect(request["input"] == [item("two")])
    }

    @Test(arguments: [
        ["h", "one", "two"], ["h", "one", "ONE"], ["x", "one", "ONE", "two"], ["h", "one", "other", "two"], [],
    ])
    func anythingElseIsSaidWhole(input: [String]) {
        let whole = body(input)
        #expect(answered().request(whole) == whole)
    }

    @Test func anotherModelBreaksTheChain() {
        #expect(answered().request(body(["h", "one", "ONE", "two"], model: "n"))["previous_response_id"] == nil)
    }

    @Test func clientMetadataDoesNot() {
        let next = body(["h", "one", "ONE", "two"], extra: ("client_metadata", ["a": "b"]))
        #expect(answered().request(next)["previous_response_id"] == "resp_1")
    }

    @Test func aPrewarmIsContinued() {
        var chain = ResponseChain()
        chain.completed(body(["h"], extra: ("generate", false)), id: "warm", items: [])
        let request = chain.request(body(["h", "one"]))
        #expect(request["previous_response_id"] == "warm")
        #expect(request["input"] == [item("one")])
    }

    @Test func withoutAnIDNothingIsContinued() {
        var chain = ResponseChain()
        chain.completed(body(["h"]), id: "", items: [])
        #expect(chain.request(body(["h", "one"])) == body(["h", "one"]))
        chain = answered()
        chain.broke()
        #expect(chain.request(body(["h", "one", "ONE", "two"]))["previous_response_id"] == nil)
    }

    @Test func pausesGrowAndEnd() {
        var availability = WebSocketAvailability()
        var now = Duration.seconds(1000)
        #expect(availability.mayTry(at: now))
        for pause in [30, 60, 120, 240, 480, 900, 900] {
            availability.failed(at: now)
            #expect(!availability.mayTry(at: now + .seconds(pause - 1)))
            now += .seconds(pause)
            #expect(availability.mayTry(at: now))
        }
        availability = WebSocketAvailability()
        availability.failed(at: now)
        #expect(availability.mayTry(at: now + .seconds(30)))
    }
}
