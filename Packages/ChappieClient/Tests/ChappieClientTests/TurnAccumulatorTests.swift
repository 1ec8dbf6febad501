import ChappieCore
import Testing

@testable import ChappieClient

@Suite struct TurnAccumulatorTests {
    @Test func textThatArrivesTogetherIsOneDelta() throws {
        var accumulator = TurnAccumulator()
        var seen: [ChappieStreamEvent] = []
        let outcome = try accumulator.received([
            .outputTextDelta("a", itemID: "m"), .outputTextDelta("b", itemID: "m"),
            .reasoningSummaryTextDelta("r", itemID: nil, summaryIndex: 0), .outputTextDelta("c", itemID: "m"),
        ]) { seen.append($0) }
        #expect(outcome == nil)
        #expect(seen == [.textDelta("ab"), .reasoningSummaryDelta("r"), .textDelta("c")])
        #expect(accumulator.hasDelivered)
    }

    @Test func textBeforeTheTerminalEventIsNotLost() throws {
        var accumulator = TurnAccumulator()
        var seen: [ChappieStreamEvent] = []
        let completed = ChappieResponse(["id": "resp_1"], .completed)
        let outcome = try accumulator.received([.outputTextDelta("a", itemID: nil), .completed(completed)]) {
            seen.append($0)
        }
        #expect(seen == [.textDelta("a")])
        guard case .completed(let response) = outcome else {
            Issue.record("not completed")
            return
        }
        #expect(response.outputText == "a")
    }

    @Test func itemsWinOverDeltas() throws {
        var accumulator = TurnAccumulator()
        let item = ChappieOutputItem([
            "type": "message", "role": "assistant", "content": [["type": "output_text", "text": "whole"]],
        ])
        let outcome = try accumulator.received([
            .outputTextDelta("who", itemID: nil), .outputItemDone(item, outputIndex: 0),
            .completed(ChappieResponse(["id": "r"], .completed)),
        ]) { _ in }
        guard case .completed(let response) = outcome else {
            Issue.record("not completed")
            return
        }
        #expect(response.outputText == "whole")
        #expect(response.items == [item])
    }

    @Test func creationAloneShowsNothing() throws {
        var accumulator = TurnAccumulator()
        _ = try accumulator.received([.created(ChappieResponse(["id": "r"], .inProgress))]) { _ in }
        #expect(!accumulator.hasDelivered)
    }
}
