@_spi(ChappieInternals) import ChappieCore
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

    private func message(_ text: String) -> ResponsesEvent {
        .outputItemDone(
            ChappieOutputItem([
                "type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]],
            ]), outputIndex: nil)
    }

    private static let completed = ResponsesEvent.completed(ChappieResponse(["id": "r"], .completed))

    /// The text that the host sees.
    private func shown(
        _ events: [ResponsesEvent], _ accumulator: inout TurnAccumulator
    ) throws(ReplayDivergence) -> [String] {
        var deltas: [String] = []
        _ = try accumulator.received(events) { if case .textDelta(let delta) = $0 { deltas.append(delta) } }
        return deltas
    }

    @Test func textThatCameInItemsAloneIsShown() throws {
        var accumulator = TurnAccumulator()
        #expect(try shown([message("one "), message("two"), Self.completed], &accumulator) == ["one two"])
        accumulator = TurnAccumulator()
        let early = ResponsesEvent.incomplete(ChappieResponse(["id": "r"], .incomplete))
        #expect(try shown([message("one"), early], &accumulator) == ["one"])
    }

    @Test func textThatCameInTheLastEventAloneIsShown() throws {
        var accumulator = TurnAccumulator()
        let response: ChappieJSON = [
            "id": "r",
            "output": [["type": "message", "content": [["type": "output_text", "text": "late"]]]],
        ]
        #expect(try shown([.completed(ChappieResponse(response, .completed))], &accumulator) == ["late"])
    }

    @Test func whatTheDeltasLeftOutIsShownAtTheEnd() throws {
        var accumulator = TurnAccumulator()
        let events: [ResponsesEvent] = [
            .outputTextDelta("one", itemID: "a"), message("one"), message(" twö"), Self.completed,
        ]
        #expect(try shown(events, &accumulator) == ["one", " twö"])
    }

    @Test(arguments: ["whole", "who", "other"]) func whatTheDeltasSaidIsNotShownAgain(text: String) throws {
        var accumulator = TurnAccumulator()
        let events: [ResponsesEvent] = [.outputTextDelta("whole", itemID: nil), message(text), Self.completed]
        #expect(try shown(events, &accumulator) == ["whole"])
    }

    @Test func aReplayInItemsAloneShowsTheRest() throws {
        var accumulator = TurnAccumulator()
        #expect(try shown([.outputTextDelta("one t", itemID: nil)], &accumulator) == ["one t"])
        accumulator.attemptBegan()
        #expect(try shown([message("one "), message("two"), Self.completed], &accumulator) == ["wo"])
    }

    @Test func aReplayInItemsAloneThatDiffersIsFoundOut() throws {
        var accumulator = TurnAccumulator()
        _ = try shown([.outputTextDelta("one t", itemID: nil)], &accumulator)
        accumulator.attemptBegan()
        #expect(throws: ReplayDivergence(deliveredText: "one t")) {
            try shown([message("one"), Self.completed], &accumulator)
        }
    }

    @Test func creationAloneShowsNothing() throws {
        var accumulator = TurnAccumulator()
        _ = try accumulator.received([.created(ChappieResponse(["id": "r"], .inProgress))]) { _ in }
        #expect(!accumulator.hasDelivered)
    }
}
