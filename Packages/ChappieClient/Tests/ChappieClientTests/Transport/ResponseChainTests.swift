import ChappieCore
import Testing

@testable import ChappieClient

@Suite struct ResponseChainTests {
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
        let (request, isIncremental) = answered().request(body(["h", "one", "ONE", "two"]))
        #expect(isIncremental)
        #expect(request.names == ["model", "stream", "previous_response_id", "input"])
        #expect(request["previous_response_id"] == "resp_1")
        #expect(request["input"] == [item("two")])
    }

    @Test(arguments: [
        ["h", "one", "two"], ["h", "one", "ONE"], ["x", "one", "ONE", "two"], ["h", "one", "other", "two"], [],
    ])
    func anythingElseIsSaidWhole(input: [String]) {
        let whole = body(input)
        let (request, isIncremental) = answered().request(whole)
        #expect(!isIncremental)
        #expect(request == whole)
    }

    @Test func anotherModelBreaksTheChain() {
        #expect(!answered().request(body(["h", "one", "ONE", "two"], model: "n")).isIncremental)
    }

    @Test func clientMetadataDoesNot() {
        let next = body(["h", "one", "ONE", "two"], extra: ("client_metadata", ["a": "b"]))
        #expect(answered().request(next).isIncremental)
    }

    @Test func aPrewarmIsContinued() {
        var chain = ResponseChain()
        chain.completed(body(["h"], extra: ("generate", false)), id: "warm", items: [])
        let (request, isIncremental) = chain.request(body(["h", "one"]))
        #expect(isIncremental)
        #expect(request["previous_response_id"] == "warm")
        #expect(request["input"] == [item("one")])
    }

    @Test func withoutAnIDNothingIsContinued() {
        var chain = ResponseChain()
        chain.completed(body(["h"]), id: "", items: [])
        #expect(!chain.request(body(["h", "one"])).isIncremental)
        chain = answered()
        chain.broke()
        #expect(!chain.request(body(["h", "one", "ONE", "two"])).isIncremental)
    }
}
