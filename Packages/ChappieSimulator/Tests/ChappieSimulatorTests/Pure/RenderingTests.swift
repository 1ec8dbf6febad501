import ChappieCore
import Testing

@testable import ChappieSimulator

struct RenderingTests {
    private let response = BackendResponse(
        status: 200, headers: [("a", "b")],
        body: .events([
            StreamedEvent(name: "x", data: Array("{\"a\":1,\"b\":2}".utf8), isPaced: true),
            StreamedEvent(name: "y", data: Array("{}".utf8), isPaced: true),
        ]))

    private func effect(_ json: String) throws -> ScenarioEffect {
        try ScenarioDecoder(try ChappieJSON(parsing: json)).decode(ScenarioEffect.self)
    }

    private func sent(_ answer: ScriptedAnswer) -> String {
        let bytes = answer.steps.flatMap { step -> [UInt8] in if case .send(let bytes) = step { bytes } else { [] } }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func aWholeAnswerLeavesInOneWrite() {
        let answer = AnswerRenderer().render(response)
        #expect(answer.steps.count == 1)
        let body = "event: x\ndata: {\"a\":1,\"b\":2}\n\nevent: y\ndata: {}\n\n"
        #expect(
            sent(answer)
                == "HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n31\r\n\(body)\r\n0\r\n\r\n")
    }

    @Test func aRateHoldsBackEveryPieceOfText() {
        let answer = AnswerRenderer(deltasPerSecond: 10).render(response)
        let waits = answer.steps.filter { $0 == .wait(.milliseconds(100)) }
        #expect(waits.count == 2)
        #expect(
            AnswerRenderer(deltasPerSecond: 1000).render(response).steps.count { $0 == .wait(.milliseconds(10)) } == 1)
    }

    @Test func aCutLeavesExactlyThatManyBytesOfTheBody() throws {
        for length in 0..<49 {
            let cut = try effect("{\"framing\":\"close\",\"cut\":{\"afterBytes\":\(length),\"with\":\"rst\"}}")
            let answer = AnswerRenderer(effect: cut).render(response)
            #expect(answer.steps.last == .reset)
            let body = sent(answer).split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)[1]
            #expect(body.utf8.count == length)
        }
    }

    @Test func aCutAfterEventsKeepsThemWhole() throws {
        let answer = AnswerRenderer(effect: try effect("{\"cut\":{\"afterEvents\":1}}")).render(response)
        #expect(sent(answer).hasSuffix("\r\n\r\n1e\r\nevent: x\ndata: {\"a\":1,\"b\":2}\n\n\r\n"))
        #expect(answer.steps.last == .finish)
    }

    @Test func aCutBodyOfKnownLengthStillPromisesAllOfIt() throws {
        let whole = BackendResponse.json(["a": "bcdef"])
        let answer = AnswerRenderer(effect: try effect("{\"cut\":{\"afterBytes\":3}}")).render(whole)
        #expect(sent(answer).hasSuffix("content-length: 13\r\n\r\n{\"a"))
    }

    @Test func dripsOneByteAtATime() throws {
        let drip = try effect("{\"framing\":\"length\",\"drip\":{\"bytes\":1,\"pause\":0.001}}")
        let answer = AnswerRenderer(effect: drip).render(response)
        #expect(answer.steps.count { $0 == .wait(.milliseconds(1)) } == 49)
        #expect(answer.steps.count { if case .send(let bytes) = $0 { bytes.count == 1 } else { false } } == 49)
    }

    @Test func stallsInsteadOfEnding() throws {
        #expect(
            AnswerRenderer(effect: try effect("{\"stall\":{\"beforeHead\":true}}")).render(response).steps == [.stall])
        let answer = AnswerRenderer(effect: try effect("{\"stall\":{\"afterBytes\":0}}")).render(response)
        #expect(sent(answer).hasSuffix("chunked\r\n\r\n"))
        #expect(answer.steps.last == .stall)
    }

    @Test func emptyStatusesHaveNoBodyAndNoLength() {
        #expect(sent(AnswerRenderer().render(.empty(status: 304))) == "HTTP/1.1 304 Not Modified\r\n\r\n")
        #expect(sent(AnswerRenderer().render(.empty(status: 500))).hasSuffix("content-length: 0\r\n\r\n"))
    }

    @Test(arguments: [
        ("{\"crlf\":true}", "event: y\r\ndata: {}\r\n\r\n"), ("{\"bom\":true}", "\u{FEFF}event: y\ndata: {}\n\n"),
        ("{\"comments\":true}", ": keep-alive\nevent: y\ndata: {}\n\n"), ("{\"names\":false}", "data: {}\n\n"),
        ("{\"omitFinalBlankLine\":true}", "event: y\ndata: {}\n"),
        ("{\"ids\":true}", "event: y\nid: 1\nretry: 3000\ndata: {}\n\n"),
    ])
    func writesEventsInEveryAllowedWay(json: String, expected: String) throws {
        let format = try ScenarioDecoder(try ChappieJSON(parsing: json)).decode(EventEdits.self)
        let bytes = format.write(StreamedEvent(name: "y", data: Array("{}".utf8)), isFirst: true, isLast: true)
        #expect(bytes == Array(expected.utf8))
    }

    @Test func editsTheStreamAsTold() throws {
        var identifiers = CountedIdentifiers()
        let body = Simulator.turn("Hi")
        let prompt = Prompt(body)
        let events = ReplyWriter.write(
            EchoModel.reply(to: prompt), body: body, prompt: prompt, now: 0, identifiers: &identifiers
        ).events
        func edited(_ json: String) throws -> [StreamedEvent] {
            try ScenarioDecoder(try ChappieJSON(parsing: json)).decode(EventEdits.self).applied(to: events)
        }
        #expect(try edited("{}") == events)
        #expect(try edited("{\"ending\":\"none\"}") == events.dropLast())
        #expect(try edited("{\"omitCreated\":true}") == Array(events.dropFirst(2)))
        #expect(try edited("{\"repeatLast\":true}").suffix(2) == [events[events.count - 1], events[events.count - 1]])
        #expect(try edited("{\"addDone\":true}").last?.data == Array("[DONE]".utf8))
        #expect(try edited("{\"giantBytes\":100000}")[2].data.count == 100_000)
        #expect(try ChappieJSON(parsing: edited("{\"giantBytes\":100}")[2].data)["type"] == "response.giant")
        #expect(try edited("{\"addUnknown\":true}").count == events.count + 2)
        #expect(throws: ChappieJSONError.self) {
            try ChappieJSON(parsing: try edited("{\"addMalformed\":true}")[2].data)
        }
        let failed = try ChappieJSON(
            parsing: try #require(try edited("{\"ending\":\"failed\",\"failure\":{\"code\":\"x\"}}").last).data)
        #expect(failed["type"] == "response.failed")
        #expect(failed["response"]?["error"]?["code"] == "x")
        let incomplete = try ChappieJSON(
            parsing: try #require(try edited("{\"ending\":\"incomplete\",\"incompleteReason\":\"y\"}").last).data)
        #expect(incomplete["response"]?["incomplete_details"]?["reason"] == "y")
        let extra = try edited("{\"extra\":[{\"type\":\"response.metadata\",\"headers\":{}}]}")
        #expect(extra[2] == StreamedEvent("response.metadata", ["type": "response.metadata", "headers": [:]]))
    }
}
