@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieClient

/// What the host is shown of a turn's attempts.
@Suite struct TurnAccumulatorTests {
    /// An accumulator, and what it has told.
    private final class Turn {
        private(set) var told: [ChappieStreamEvent] = []
        var accumulator = TurnAccumulator { _ in }

        init() { accumulator = TurnAccumulator { [unowned self] in told.append($0) } }

        /// The text that these events show, and how they end.
        func shown(_ events: ResponsesEvent...) throws -> [String] {
            let before = told.count
            outcome = try accumulator.received(events)
            return told[before...].compactMap { if case .textDelta(let delta) = $0 { delta } else { nil } }
        }

        var outcome: TurnAccumulator.Outcome?

        var response: ChappieResponse? { if case .completed(let response)? = outcome { response } else { nil } }
    }

    private static func delta(_ text: String) -> ResponsesEvent { .outputTextDelta(text, itemID: "m") }

    private static func message(_ text: String) -> ResponsesEvent {
        .outputItemDone(
            ChappieOutputItem([
                "type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]],
            ]), outputIndex: nil)
    }

    private static let completed = ResponsesEvent.completed(ChappieResponse(["id": "r"], .completed))
    private static let early = ResponsesEvent.incomplete(ChappieResponse(["id": "r"], .incomplete))
    private static let late = ResponsesEvent.completed(
        ChappieResponse(
            ["output": [["type": "message", "content": [["type": "output_text", "text": "late"]]]]], .completed))

    @Test func textThatArrivesTogetherIsOneDelta() throws {
        let turn = Turn()
        _ = try turn.shown(
            Self.delta("a"), Self.delta("b"), .reasoningSummaryTextDelta("r", itemID: nil, summaryIndex: 0),
            Self.delta("c"))
        #expect(turn.outcome == nil)
        #expect(turn.told == [.textDelta("ab"), .reasoningSummaryDelta("r"), .textDelta("c")])
        #expect(turn.accumulator.hasDelivered)
    }

    @Test func creationAloneShowsNothing() throws {
        let turn = Turn()
        _ = try turn.shown(.created(ChappieResponse(["id": "r"], .inProgress)))
        #expect(!turn.accumulator.hasDelivered)
    }

    /// Events, the deltas that are shown, and the text of the response.
    static let answers: [([ResponsesEvent], shown: [String], text: String)] = [
        ([delta("a"), completed], ["a"], "a"),
        ([delta("who"), message("whole"), completed], ["who", "le"], "whole"),
        ([message("one "), message("two"), completed], ["one two"], "one two"),
        ([message("one"), early], ["one"], "one"),
        ([late], ["late"], "late"),
        ([delta("one"), message("one"), message(" twö"), completed], ["one", " twö"], "one twö"),
        ([delta("whole"), message("whole"), completed], ["whole"], "whole"),
        ([delta("whole"), message("who"), completed], ["whole"], "who"),
        ([delta("whole"), message("other"), completed], ["whole"], "other"),
    ]

    @Test func theTextIsShownOnceHoweverItComes() throws {
        for (events, shown, text) in Self.answers {
            let turn = Turn()
            #expect(try events.flatMap { try turn.shown($0) } == shown)
            #expect(turn.response?.outputText == text)
        }
    }

    @Test func aReplayInItemsAloneShowsTheRestOrIsFoundOut() throws {
        for items in [["one ", "two"], ["one"]] {
            let turn = Turn()
            #expect(try turn.shown(Self.delta("one t")) == ["one t"])
            turn.accumulator.attemptBegan()
            for item in items { _ = try turn.shown(Self.message(item)) }
            if items.count == 2 {
                #expect(try turn.shown(Self.completed) == ["wo"])
            } else {
                #expect(throws: ReplayDivergence(deliveredText: "one t")) { try turn.shown(Self.completed) }
            }
        }
    }
}

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

@Suite struct DeliveredTextTests {
    private static let answer = "Größe: 10 €, 👩‍👩‍👧 e\u{301}nd"

    @Test func everyCutAndEveryCuttingOfTheReplayGivesTheSameText() {
        let scalars = Array(Self.answer.unicodeScalars)
        func text(_ range: Range<Int>) -> String {
            var view = String.UnicodeScalarView()
            view.append(contentsOf: scalars[range])
            return String(view)
        }
        for cut in 0...scalars.count {
            for size in 1...scalars.count {
                var delivered = DeliveredText()
                var shown = delivered.said(text(0..<cut)) ?? "?"
                delivered.attemptBegan()
                var position = 0
                while position < scalars.count {
                    let end = min(position + size, scalars.count)
                    shown += delivered.said(text(position..<end)) ?? "?"
                    position = end
                }
                #expect(Array(shown.utf8) == Array(Self.answer.utf8), "cut at \(cut), pieces of \(size)")
                #expect(delivered.isCaughtUp)
            }
        }
    }

    @Test func anotherTextIsFoundOutAndNotTakenIn() {
        var delivered = DeliveredText()
        _ = delivered.said("Hello, world")
        delivered.attemptBegan()
        #expect(delivered.said("Hello") == "")
        #expect(delivered.said(", moon") == nil)
        #expect(delivered.text == "Hello, world")
    }

    @Test func aPieceThatDiffersOnlyBeyondTheOldTextIsNew() {
        var delivered = DeliveredText()
        _ = delivered.said("Hello")
        delivered.attemptBegan()
        #expect(delivered.said("Hello there") == " there")
        #expect(delivered.text == "Hello there")
    }

    @Test func aShorterReplayIsNotCaughtUp() {
        var delivered = DeliveredText()
        _ = delivered.said("Hello")
        delivered.attemptBegan()
        _ = delivered.said("Hell")
        #expect(!delivered.isCaughtUp)
    }

    @Test func canonicallyEqualIsNotTheSame() {
        var delivered = DeliveredText()
        _ = delivered.said("\u{e9}")
        delivered.attemptBegan()
        #expect(delivered.said("e\u{301}") == nil)
    }
}
