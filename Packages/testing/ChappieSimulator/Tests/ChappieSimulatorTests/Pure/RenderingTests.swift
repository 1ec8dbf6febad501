import ChappieCore
import Foundation
import Testing

@testable import ChappieSimulator

struct RenderingTests {
    private let response = BackendResponse(
        headers: [("a", "b")],
        body: .events([
            StreamedEvent(name: "x", data: Array("{\"a\":1,\"b\":2}".utf8), isPaced: true),
            StreamedEvent(name: "y", data: Array("{}".utf8), isPaced: true),
        ]))

    private func effect(_ json: String) throws -> ScenarioEffect {
        try JSONDecoder().decode(ScenarioEffect.self, from: Data(json.utf8))
    }

    private func render(_ json: String, _ response: BackendResponse? = nil) throws -> ScriptedAnswer {
        AnswerRenderer(effect: try effect(json)).render(response ?? self.response)
    }

    private func sent(_ answer: ScriptedAnswer) -> String {
        let bytes = answer.steps.flatMap { step -> [UInt8] in if case .send(let bytes) = step { bytes } else { [] } }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func aWholeAnswerIsOneChunk() {
        let answer = AnswerRenderer().render(response)
        let body = "event: x\ndata: {\"a\":1,\"b\":2}\n\nevent: y\ndata: {}\n\n"
        #expect(
            sent(answer)
                == "HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n31\r\n\(body)\r\n0\r\n\r\n")
    }

    @Test(arguments: [(10.0, Duration.milliseconds(100), 2), (1000, .milliseconds(10), 1)])
    func aRateHoldsBackEveryPieceOfText(rate: Double, pause: Duration, count: Int) {
        let answer = AnswerRenderer(deltasPerSecond: rate).render(response)
        #expect(answer.steps.count { $0 == .wait(pause) } == count)
    }

    @Test func aCutLeavesExactlyThatManyBytesOfTheBody() throws {
        for length in 0..<49 {
            let answer = try render("{\"framing\":\"close\",\"cut\":{\"afterBytes\":\(length),\"with\":\"rst\"}}")
            #expect(answer.steps.last == .reset)
            let body = sent(answer).split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)[1]
            #expect(body.utf8.count == length)
        }
    }

    @Test func aCutKeepsEventsWholeAndAStallComesInsteadOfTheEnd() throws {
        let cut = try render("{\"cut\":{\"afterEvents\":1}}")
        #expect(sent(cut).hasSuffix("\r\n\r\n1e\r\nevent: x\ndata: {\"a\":1,\"b\":2}\n\n\r\n"))
        #expect(cut.steps.last == .finish)
        let promised = try render("{\"cut\":{\"afterBytes\":3}}", .json(["a": "bcdef"]))
        #expect(sent(promised).hasSuffix("content-length: 13\r\n\r\n{\"a"))
        #expect(try render("{\"stall\":{\"beforeHead\":true}}").steps == [.stall])
        let stalled = try render("{\"stall\":{\"afterBytes\":0}}")
        #expect(sent(stalled).hasSuffix("chunked\r\n\r\n"))
        #expect(stalled.steps.last == .stall)
    }

    @Test func dripsOneByteAtATime() throws {
        let answer = try render("{\"framing\":\"length\",\"drip\":{\"bytes\":1,\"pause\":0.001}}")
        #expect(answer.steps.count { $0 == .wait(.milliseconds(1)) } == 49)
        #expect(answer.steps.count { if case .send(let bytes) = $0 { bytes.count == 1 } else { false } } == 49)
    }

    @Test func emptyStatusesHaveNoBodyAndNoLength() {
        let renderer = AnswerRenderer()
        #expect(sent(renderer.render(BackendResponse(status: 304))) == "HTTP/1.1 304 Not Modified\r\n\r\n")
        #expect(sent(renderer.render(BackendResponse(status: 500))).hasSuffix("content-length: 0\r\n\r\n"))
    }

    @Test(arguments: [
        ("\"crlf\":true", "event: y\r\ndata: {}\r\n\r\n"), ("\"bom\":true", "\u{FEFF}event: y\ndata: {}\n\n"),
        ("\"comments\":true", ": keep-alive\nevent: y\ndata: {}\n\n"), ("\"names\":false", "data: {}\n\n"),
        ("\"omitFinalBlankLine\":true", "event: y\ndata: {}\n"),
    ])
    func writesEventsInEveryAllowedWay(json: String, expected: String) throws {
        let edits = try #require(try effect("{\"events\":{\(json)}}").events)
        let event = StreamedEvent(name: "y", data: Array("{}".utf8))
        #expect(edits.write(event, isFirst: true, isLast: true) == Array(expected.utf8))
    }

    @Test func editsTheStreamAsTold() throws {
        let names = ["response.created", "response.in_progress", "response.x", "response.completed"]
        let events = names.map { StreamedEvent($0, ["type": .string($0), "response": ["status": "completed"]]) }
        func edited(_ json: String) throws -> [StreamedEvent] {
            try #require(try effect("{\"events\":{\(json)}}").events).applied(to: events)
        }
        #expect(try edited("") == events)
        #expect(try edited("\"ending\":\"none\"") == events.dropLast())
        #expect(try edited("\"omitCreated\":true") == Array(events.dropFirst(2)))
        #expect(try edited("\"repeatLast\":true") == events + [events[3]])
        #expect(try edited("\"addDone\":true").last?.data == Array("[DONE]".utf8))
        #expect(try edited("\"giantBytes\":100000")[2].data.count == 100_000)
        #expect(try ChappieJSON(parsing: edited("\"giantBytes\":100")[2].data)["type"] == "response.giant")
        let extra = try edited(#""extra":[{"type":"response.metadata"},"{\"type\":"]"#)
        #expect(extra[2] == StreamedEvent("response.metadata", ["type": "response.metadata"]))
        #expect(extra[3].data == Array("{\"type\":".utf8))
        let failed = try edited("\"ending\":\"failed\",\"failure\":{\"code\":\"x\"}")
        #expect(
            failed.last
                == StreamedEvent(
                    "response.failed",
                    ["type": "response.failed", "response": ["status": "failed", "error": ["code": "x"]]]))
        let incomplete = try ChappieJSON(
            parsing: try edited("\"ending\":\"incomplete\",\"incompleteReason\":\"y\"")[3].data)
        #expect(incomplete["response"]?["incomplete_details"]?["reason"] == "y")
    }
}
