@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieClient

/// The host sees one turn, however many attempts it took.
@Suite struct TurnAccumulatorTests {
    /// An accumulator, and what it has told.
    private final class Turn {
        var told: [ChappieStreamEvent] = []
        var accumulator = TurnAccumulator { _ in }
        var response: ChappieResponse?

        init(restarts: Bool = false) {
            accumulator = TurnAccumulator(restarts: restarts) { [unowned self] in told.append($0) }
        }

        /// Takes bursts of events; gives the deltas that they show.
        @discardableResult func shown(_ bursts: [ResponsesEvent]...) throws -> [String] {
            let before = told.count
            for burst in bursts {
                if case .completed(let response) = try accumulator.received(burst) { self.response = response }
            }
            return told[before...].compactMap { if case .textDelta(let delta) = $0 { delta } else { nil } }
        }
    }

    private static func delta(_ text: String) -> ResponsesEvent { .outputTextDelta(text, itemID: "m") }

    private static func reasoning(_ text: String) -> ResponsesEvent {
        .reasoningSummaryTextDelta(text, itemID: nil, summaryIndex: 0)
    }

    private static func message(_ text: String) -> ResponsesEvent {
        .outputItemDone(
            ChappieOutputItem([
                "type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(text)]],
            ]), outputIndex: nil)
    }

    private static func item(_ text: String, _ phase: String?, id: String?) -> ChappieOutputItem {
        var json: ChappieJSONObject = [
            "type": "message", "content": [["type": "output_text", "text": .string(text)]],
        ]
        json["id"] = id.map(ChappieJSON.string)
        json["phase"] = phase.map(ChappieJSON.string)
        return ChappieOutputItem(.object(json))
    }

    private static let refusal = ResponsesEvent.outputItemDone(
        ChappieOutputItem(["type": "message", "content": [["type": "refusal", "refusal": "No."]]]), outputIndex: nil)

    private static func began(_ phase: String?, id: String? = "c") -> ResponsesEvent {
        .outputItemAdded(item("", phase, id: id), outputIndex: nil)
    }

    private static func ended(_ text: String, _ phase: String?, id: String? = "c") -> ResponsesEvent {
        .outputItemDone(item(text, phase, id: id), outputIndex: nil)
    }

    private static func aside(_ text: String) -> ResponsesEvent { .outputTextDelta(text, itemID: "c") }

    private static func call(_ id: String, _ arguments: String, name: String = "weather") -> ResponsesEvent {
        .outputItemDone(
            ChappieOutputItem([
                "type": "function_call", "id": .string("fc_" + id), "call_id": .string(id), "name": .string(name),
                "arguments": .string(arguments),
            ]), outputIndex: nil)
    }

    private static let completed = ResponsesEvent.completed(ChappieResponse(["id": "r"], .completed))
    private static let goesOn = ResponsesEvent.completed(ChappieResponse(["id": "r", "end_turn": false], .completed))
    private static let early = ResponsesEvent.incomplete(ChappieResponse(["id": "r"], .incomplete))
    private static let late = ResponsesEvent.completed(
        ChappieResponse(
            ["output": [["type": "message", "content": [["type": "output_text", "text": "late"]]]]], .completed))

    @Test func textThatArrivesTogetherIsOneDelta() throws {
        let turn = Turn()
        try turn.shown([.created(ChappieResponse(["id": "r"], .inProgress))])
        #expect(!turn.accumulator.hasDelivered)
        try turn.shown([Self.delta("a"), Self.delta("b"), Self.reasoning("r"), Self.delta("c")])
        #expect(turn.told == [.created("r"), .textDelta("ab"), .reasoningSummaryDelta("r"), .textDelta("c")])
        #expect(turn.accumulator.hasDelivered)
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
            #expect(try events.flatMap { try turn.shown([$0]) } == shown)
            #expect(turn.response?.outputText == text)
        }
    }

    /// Events, and what they show: commentary in brackets, then the text of the response.
    static let phases: [([ResponsesEvent], shown: String, text: String)] = [
        (
            [began("commentary"), aside("Well. "), ended("Well. ", "commentary"), delta("4"), message("4"), completed],
            "[Well. ]4", "4"
        ),
        // Commentary that comes without deltas, or without all of them.
        ([ended("Well. ", "commentary"), message("4"), completed], "[Well. ]4", "4"),
        (
            [began("commentary"), aside("We"), ended("Well. ", "commentary"), message("4"), completed],
            "[We][ll. ]4", "4"
        ),
        // A delta that names no message belongs to the one that is open.
        (
            [
                began("commentary"), .outputTextDelta("Well. ", itemID: nil), ended("Well. ", "commentary"),
                .outputTextDelta("4", itemID: nil), message("4"), completed,
            ], "[Well. ]4", "4"
        ),
        // Two messages at once.
        (
            [
                began("commentary"), began("final_answer", id: "m"), aside("Well. "), delta("4"), aside("So. "),
                ended("Well. So. ", "commentary"), ended("4", "final_answer", id: "m"), completed,
            ], "[Well. ]4[So. ]", "4"
        ),
        // A message that says that it is the answer is all of it.
        (
            [delta("Hm. "), message("Hm. "), delta("4"), ended("4", "final_answer", id: "m"), completed], "Hm. 4", "4"
        ),
        ([ended("4", "partial_answer"), ended("2", "final_answer", id: "m"), completed], "42", "42"),
        ([ended("4", "something_new"), completed], "4", "4"),
        // A refusal is no answer, and commentary before it is none either.
        ([ended("Well.", "commentary"), refusal, completed], "[Well.]", ""),
        // A phase that is only known at the end does not say anything twice.
        ([aside("Well."), ended("Well.", "commentary"), completed], "Well.", "Well."),
        ([began("commentary"), aside("Well."), early], "[Well.]", ""),
        // An empty message says nothing.
        ([ended("Pong.", "commentary"), ended("", "final_answer", id: "m"), completed], "[Pong.]Pong.", "Pong."),
        ([ended("Pong.", "commentary"), message(""), completed], "[Pong.]Pong.", "Pong."),
        ([began("commentary"), aside("Well."), ended("Well.", "commentary"), completed], "[Well.]Well.", "Well."),
        ([began("commentary"), aside("Well."), ended("Well.", "commentary"), goesOn], "[Well.]", ""),
        (
            [began("commentary"), aside("Well."), ended("Well.", "commentary"), call("call_1", "{}"), completed],
            "[Well.]", ""
        ),
    ]

    @Test func commentaryIsNoPartOfTheAnswer() throws {
        for (events, shown, text) in Self.phases {
            let turn = Turn()
            for event in events { try turn.shown([event]) }
            let told = turn.told.reduce(into: "") { told, event in
                switch event {
                case .textDelta(let text): told += text
                case .commentaryDelta(let text): told += "[\(text)]"
                default: break
                }
            }
            #expect(told == shown)
            #expect(turn.response?.outputText == text, "\(shown)")
            #expect(turn.response?.refusals.isEmpty != events.contains(Self.refusal) || turn.response == nil)
        }
    }

    @Test func aBurstIsOneDeltaOfEachKind() throws {
        let turn = Turn()
        try turn.shown([
            Self.began("commentary"), Self.aside("We"), Self.aside("ll."), Self.delta("4"), Self.delta("2"),
        ])
        #expect(turn.told == [.commentaryDelta("Well."), .textDelta("42")])
    }

    @Test func headersInEventsAreReadWhateverTheirShape() throws {
        let turn = Turn()
        turn.accumulator.received(modelsETag: "\"0\"")
        for headers in [[:], .null, 7, ["X-Models-ETag": []], ["x-models-etag": 7]] as [ChappieJSON] {
            try turn.shown([.metadata(headers: headers, metadata: .null)])
        }
        #expect(turn.accumulator.modelsETag == "\"0\"" && turn.accumulator.turnState == nil)
        let headers: ChappieJSON = ["X-Codex-Turn-State": "a", "x-models-etag": ["\"1\""]]
        try turn.shown([.metadata(headers: headers, metadata: .null)])
        try turn.shown([.metadata(headers: ["x-codex-turn-state": "b"], metadata: .null)])
        #expect(turn.accumulator.modelsETag == "\"1\"" && turn.accumulator.turnState == "a")
    }

    // MARK: Replays

    @Test func `commentary never diverges and is muted once it differs`() throws {
        let turn = Turn()
        try turn.shown([Self.began("commentary"), Self.aside("I look. "), Self.ended("I look. ", "commentary")])
        #expect(turn.accumulator.hasDelivered)
        turn.accumulator.attemptBegan()
        try turn.shown([
            Self.began("commentary"), Self.aside("I "), Self.aside("see."), Self.ended("I see.", "commentary"),
        ])
        try turn.shown([Self.delta("4"), Self.message("4"), Self.completed])
        #expect(
            turn.told.filter { if case .item = $0 { false } else { true } } == [
                .commentaryDelta("I look. "), .textDelta("4"),
            ])
        #expect(turn.response?.commentary == "I see." && turn.response?.outputText == "4")
        // The replay may leave it out, or say more of it.
        turn.accumulator.attemptBegan()
        try turn.shown([Self.delta("4"), Self.message("4"), Self.completed])
        turn.accumulator.attemptBegan()
        let more = [Self.ended("I look. ", "commentary"), Self.ended("And on.", "commentary", id: "d")]
        try turn.shown(more + [Self.delta("4"), Self.message("4"), Self.completed])
        #expect(turn.told.contains(.commentaryDelta("And on.")))
        #expect(turn.told.count { if case .item = $0 { true } else { false } } == 3)
    }

    @Test func `a call that comes again is withheld and keeps its first ID`() throws {
        let turn = Turn()
        try turn.shown([Self.call("call_1", #"{"city":"Bern"}"#)])
        turn.accumulator.attemptBegan()
        try turn.shown([Self.call("call_9", #"{ "city": "Bern" }"#), Self.call("call_10", "{}"), Self.completed])
        #expect(turn.told.count == 2)
        #expect(turn.response?.items.map(\.callID) == ["call_1", "call_10"])
        #expect(turn.response?.items.first?.id == "fc_call_9")
        #expect(turn.accumulator.rawItems.map(\.callID) == ["call_9", "call_10"])
    }

    @Test func twoEqualCallsAreTwoCalls() throws {
        let turn = Turn()
        try turn.shown([Self.call("call_1", "{}")])
        turn.accumulator.attemptBegan()
        try turn.shown([Self.call("call_3", "{}"), Self.call("call_4", "{}"), Self.completed])
        #expect(turn.response?.items.map(\.callID) == ["call_1", "call_4"])
    }

    /// Each row has the events of the first attempt, those of the second, and the text that the error then names.
    static let divergences: [([ResponsesEvent], [ResponsesEvent], named: String)] = [
        ([delta("Hello")], [delta("Hell"), completed], "Hello"),
        ([delta("Hello, world")], [delta("Hello"), delta(", moon")], "Hello, world"),
        ([delta("one t")], [message("one"), completed], "one t"),
        ([message("one")], [message("two")], ""),
        ([call("call_1", "{}")], [completed], ""),
        (
            [delta("Look. "), call("call_1", #"{"city":"Bern"}"#)], [delta("Lo"), call("2", #"{"city":"Rome"}"#)],
            "Look. "
        ),
        ([call("call_1", "{}")], [call("call_2", "{}", name: "time")], ""),
    ]

    @Test func `a different answer is detected, and the error names what was shown`() throws {
        for (first, second, named) in Self.divergences {
            let turn = Turn()
            try turn.shown(first)
            turn.accumulator.attemptBegan()
            #expect(throws: ChappieClientError.streamingTransportReplayDiverged(named)) { try turn.shown(second) }
        }
    }

    @Test func `another answer starts again if that is allowed, and is told like a first answer`() throws {
        for (first, second, named) in Self.divergences {
            let (turn, alone) = (Turn(restarts: true), Turn())
            try turn.shown(first)
            turn.accumulator.attemptBegan()
            let before = turn.told.count
            // One event after the other: a part of the second answer may be held back before it differs.
            for event in second { try turn.shown([event]) }
            try alone.shown(second)
            let told = turn.told[before...].drop { $0 != .restarted(discarded: $0.discarded ?? "") }
            #expect(told.first?.discarded?.hasPrefix(named) == true)
            #expect(Array(told.dropFirst()) == alone.told)
            #expect(turn.response == alone.response)
            #expect(turn.accumulator.interrupted == alone.accumulator.interrupted)
        }
    }

    @Test func `an answer may start again more than once`() throws {
        let turn = Turn(restarts: true)
        try turn.shown([Self.delta("one t")])
        turn.accumulator.attemptBegan()
        try turn.shown([Self.delta("one, "), Self.call("call_1", "{}")])
        turn.accumulator.attemptBegan()
        // The call that was handed out may not come again.
        try turn.shown([Self.delta("one, "), Self.delta("two"), Self.message("one, two"), Self.completed])
        #expect(turn.told.compactMap(\.discarded) == ["one t", "one, "])
        #expect(turn.response?.outputText == "one, two" && turn.response?.items.map(\.type) == ["message"])
    }

    @Test func aReplayInItemsAloneShowsTheRest() throws {
        let turn = Turn()
        #expect(try turn.shown([Self.delta("one t")]) == ["one t"])
        turn.accumulator.attemptBegan()
        #expect(try turn.shown([Self.message("one "), Self.message("two")], [Self.completed]) == ["wo"])
        turn.accumulator.attemptBegan()
        #expect(try turn.shown([Self.message("one "), Self.message("two")], [Self.completed]) == [])
    }

    @Test func reasoningThatDiffersIsHeldBackAndNoError() throws {
        let turn = Turn()
        try turn.shown([Self.reasoning("First I ")])
        turn.accumulator.attemptBegan()
        try turn.shown(["First ", "we ", "I "].map(Self.reasoning) + [Self.completed])
        turn.accumulator.attemptBegan()
        try turn.shown([Self.reasoning("First I think")])
        #expect(turn.told == ["First I ", "think"].map { .reasoningSummaryDelta($0) })
    }

    // MARK: Events that are missing

    private static func begun(_ type: String, _ name: String = "weather") -> ResponsesEvent {
        .outputItemAdded(
            ChappieOutputItem([
                "type": .string(type), "id": "fc_1", "call_id": "call_1", "name": .string(name), "arguments": "",
            ]), outputIndex: 0)
    }

    private static func argumentsEnded(_ kind: String, _ member: String, _ text: String) -> ResponsesEvent {
        let type = "response.\(kind).done"
        return .other(
            type: type, ["type": .string(type), "item_id": "fc_1", "output_index": 0, member: .string(text)])
    }

    /// Events without the call's own end, and its arguments; `nil` if it is lost.
    static let unendedCalls: [([ResponsesEvent], arguments: String?)] = [
        ([begun("function_call"), argumentsEnded("function_call_arguments", "arguments", "{}"), completed], "{}"),
        ([begun("custom_tool_call"), argumentsEnded("custom_tool_call_input", "input", "ls"), completed], "ls"),
        (
            [
                begun("function_call"), argumentsEnded("function_call_arguments", "arguments", "{}"),
                call("call_1", "{}"), completed,
            ],
            "{}"
        ),
        // The response itself has it.
        (
            [
                begun("function_call"), message("Look."),
                .completed(
                    ChappieResponse(
                        [
                            "output": [
                                ["type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"]
                            ]
                        ],
                        .completed)),
            ], "{}"
        ),
        // Its arguments may be incomplete.
        ([begun("function_call"), .toolArgumentsDelta("{", itemID: "fc_1", callID: nil), completed], nil),
        // An answer that ended early makes no call.
        ([begun("function_call"), argumentsEnded("function_call_arguments", "arguments", "{}"), early], nil),
    ]

    @Test(arguments: unendedCalls.indices) func `a call needs its arguments, and no end of its own`(index: Int) throws {
        let (events, arguments) = Self.unendedCalls[index]
        let turn = Turn()
        try turn.shown(events)
        let calls = (turn.response?.items ?? []).filter(\.isToolCall)
        #expect(
            calls.map { $0.json["arguments"]?.string ?? "" }
                == (arguments == "ls" ? [""] : arguments.map { [$0] } ?? []))
        #expect(arguments != "ls" || calls.first?.json["input"] == "ls")
        #expect(calls.allSatisfy { $0.callID == "call_1" && $0.name == "weather" })
        #expect(turn.told.count { if case .item(let item) = $0 { item.isToolCall } else { false } } == calls.count)
        #expect(turn.accumulator.rawItems.filter(\.isToolCall) == calls)
    }

    @Test func `a call that only the response has is not lost next to a complete one`() throws {
        let output: ChappieJSON = [
            ["type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"],
            ["type": "function_call", "call_id": "call_2", "name": "weather", "arguments": "{}"],
        ]
        let turn = Turn()
        try turn.shown([Self.call("call_1", "{}"), .completed(ChappieResponse(["output": output], .completed))])
        #expect(turn.response?.items.compactMap(\.callID) == ["call_1", "call_2"])
    }

    /// Events without a terminal one, whether the model could call tools, and whether they are a complete answer.
    static let unended: [([ResponsesEvent], offersTools: Bool, isComplete: Bool)] = [
        ([delta("4"), ended("4", "final_answer")], true, true),
        ([began("final_answer"), aside("4"), ended("4", "final_answer")], true, true),
        ([delta("4"), message("4")], false, true),
        // A call may follow.
        ([delta("4"), message("4")], true, false),
        ([delta("4"), message("4"), call("call_1", "{}")], false, false),
        ([ended("I look.", "commentary")], false, false),
        ([delta("4")], false, false),
        ([delta("4"), message("4"), began(nil, id: "n")], false, false),
        ([message("")], false, false),
        ([], false, false),
    ]

    @Test(arguments: unended.indices) func `an answer without its last event is complete if nothing can follow`(
        index: Int
    )
        throws
    {
        let (events, offersTools, isComplete) = Self.unended[index]
        let turn = Turn()
        try turn.shown([.created(ChappieResponse(["id": "r"], .inProgress))] + events)
        let response = turn.accumulator.endedEarly(offersTools: offersTools)
        #expect((response != nil) == isComplete)
        if let response {
            #expect(response.outputText == "4")
            #expect(response.id == "r")
            #expect(response.status == .completed)
        }
    }

    // MARK: Marks of sources

    @Test func `marks of sources are neither shown nor counted, and the items keep them`() throws {
        let mark = "\u{E200}cite\u{E202}turn1view0\u{E201}"
        let written = "Salt.\(mark) Wide."
        let turn = Turn()
        try turn.shown([Self.began("commentary"), Self.aside("I look:"), Self.ended("I look:", "commentary")])
        #expect(try turn.shown([Self.delta("Salt.\u{E200}cite\u{E202}tu")]) == ["Salt."])
        #expect(try turn.shown([Self.delta("rn1view0")]) == [])
        #expect(try turn.shown([Self.delta("\u{E201} Wide."), Self.message(written)], [Self.completed]) == [" Wide."])
        #expect(turn.told.contains(.commentaryDelta("I look")) && turn.told.contains(.commentaryDelta(":")))
        #expect(turn.response?.outputText == "Salt. Wide." && turn.response?.commentary == "I look:")
        let items = turn.accumulator.rawItems
        #expect(items.last?.json["content"]?[0]?["text"]?.string == written)
    }

    @Test func `what is held back for a mark comes at the end of the message`() throws {
        for end in [[Self.completed], [Self.early], [Self.message("As follows:"), Self.completed]] {
            let turn = Turn()
            #expect(try turn.shown([Self.delta("As follows:")], end) == ["As follows", ":"])
            #expect(turn.response?.outputText == "As follows:")
        }
    }

    @Test func `a mark that breaks off is repeated with its answer`() throws {
        let turn = Turn()
        try turn.shown([Self.delta("Salt.\u{E200}cite\u{E202}tu")])
        turn.accumulator.attemptBegan()
        let written = "Salt.\u{E200}cite\u{E202}turn1view0\u{E201} Wide."
        #expect(try turn.shown([Self.delta(written), Self.message(written), Self.completed]) == [" Wide."])
    }

    // MARK: Text

    @Test func `every cut and every split of the replay gives the same text`() {
        let answer = "Größe: 10 €, 👩‍👩‍👧 e\u{301}nd"
        let scalars = Array(answer.unicodeScalars)
        func text(_ range: Range<Int>) -> String { String(String.UnicodeScalarView(scalars[range])) }
        for cut in 0...scalars.count {
            for size in 1...scalars.count {
                var delivered = DeliveredText()
                var shown = delivered.said(text(0..<cut)) ?? "?"
                delivered.attemptBegan()
                for start in stride(from: 0, to: scalars.count, by: size) {
                    shown += delivered.said(text(start..<min(start + size, scalars.count))) ?? "?"
                }
                #expect(Array(shown.utf8) == Array(answer.utf8), "cut at \(cut), pieces of \(size)")
                #expect(delivered.isCaughtUp)
            }
        }
    }

    /// The text moves in memory only when it outgrows its room: a copy for each piece would cost the square of its length.
    @Test(arguments: [1, 2]) func whatWasSaidIsNotCopiedForEachPiece(attempts: Int) {
        var delivered = DeliveredText()
        var addresses: [UnsafePointer<UInt8>?] = []
        for attempt in 1...attempts {
            delivered.attemptBegan()
            for _ in 0..<(10_000 * attempt) {
                #expect(delivered.said("word ") != nil)
                let address = delivered.bytes.withUnsafeBufferPointer(\.baseAddress)
                if addresses.last != address { addresses.append(address) }
            }
        }
        #expect(delivered.bytes.count == 50_000 * attempts)
        #expect(addresses.count < 40)
    }

    @Test func `text that differs is not accepted, even if it is canonically equal`() {
        for (first, second) in [("Hello, world", "Hello, moon"), ("\u{e9}", "e\u{301}")] {
            var delivered = DeliveredText()
            _ = delivered.said(first)
            delivered.attemptBegan()
            #expect(delivered.said(second) == nil)
            #expect(Array(delivered.text.utf8) == Array(first.utf8))
        }
    }
}

extension ChappieStreamEvent {
    /// The text of the answer that starts again.
    fileprivate var discarded: String? { if case .restarted(let text) = self { text } else { nil } }
}
