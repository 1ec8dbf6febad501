import ChappieCore
import Testing

@testable import ChappieClient

@Suite struct ReplayFilterTests {
    private func call(_ id: String, _ arguments: String, name: String = "weather") -> ChappieOutputItem {
        ChappieOutputItem([
            "type": "function_call", "id": .string("fc_" + id), "call_id": .string(id), "name": .string(name),
            "arguments": .string(arguments),
        ])
    }

    private func message(_ text: String) -> ChappieOutputItem {
        ChappieOutputItem([
            "type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]],
        ])
    }

    @Test func aCallThatComesAgainIsHeldBackUnderItsFirstID() throws {
        var filter = ReplayFilter()
        #expect(try filter.completed(call("call_1", #"{"city":"Bern"}"#)).isNew)
        filter.attemptBegan()
        let (item, isNew) = try filter.completed(call("call_9", #"{ "city": "Bern" }"#))
        #expect(!isNew)
        #expect(item.callID == "call_1")
        #expect(item.id == "fc_call_9")
        #expect(try filter.completed(call("call_10", "{}")).isNew)
        try filter.attemptCompleted()
    }

    @Test(arguments: [(#"{"city":"Rome"}"#, "weather"), (#"{"city":"Bern"}"#, "time")])
    func anotherCallInItsPlaceDiverges(arguments: String, name: String) throws {
        var filter = ReplayFilter()
        _ = try filter.said("Let me look. ")
        _ = try filter.completed(call("call_1", #"{"city":"Bern"}"#))
        filter.attemptBegan()
        _ = try filter.said("Let me ")
        #expect(throws: ReplayDivergence(deliveredText: "Let me look. ")) {
            try filter.completed(call("call_2", arguments, name: name))
        }
    }

    @Test func aCallThatDoesNotComeAgainDiverges() throws {
        var filter = ReplayFilter()
        _ = try filter.completed(call("call_1", "{}"))
        filter.attemptBegan()
        #expect(throws: ReplayDivergence(deliveredText: "")) { try filter.attemptCompleted() }
    }

    @Test func twoEqualCallsAreTwoCalls() throws {
        var filter = ReplayFilter()
        #expect(try filter.completed(call("call_1", "{}")).isNew)
        filter.attemptBegan()
        #expect(try !filter.completed(call("call_3", "{}")).isNew)
        #expect(try filter.completed(call("call_4", "{}")).isNew)
    }

    @Test func aMessageThatCameWholeMustComeTheSame() throws {
        var filter = ReplayFilter()
        _ = try filter.completed(message("one"))
        filter.attemptBegan()
        #expect(throws: ReplayDivergence.self) { try filter.completed(message("two")) }
    }

    @Test func reasoningThatDiffersIsHeldBackAndNoError() throws {
        var filter = ReplayFilter()
        #expect(filter.reasoned("First I ") == "First I ")
        filter.attemptBegan()
        #expect(filter.reasoned("First ") == "")
        #expect(filter.reasoned("we ") == "")
        #expect(filter.reasoned("I ") == "")
        try filter.attemptCompleted()
        filter.attemptBegan()
        #expect(filter.reasoned("First I think") == "think")
    }

    @Test func anAnswerThatEndsShortOfWhatWasShownDiverges() throws {
        var filter = ReplayFilter()
        _ = try filter.said("Hello")
        filter.attemptBegan()
        _ = try filter.said("Hell")
        #expect(throws: ReplayDivergence(deliveredText: "Hello")) { try filter.attemptCompleted() }
    }
}
