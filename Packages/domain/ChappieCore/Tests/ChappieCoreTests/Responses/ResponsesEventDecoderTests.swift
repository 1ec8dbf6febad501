@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ResponsesEventDecoderTests {
    @Test func decodesTheReferenceAnswerInAnyChunking() {
        Chunking.forEach(Array(ReferenceAnswer.stream.utf8)) { chunks, label in
            var decoder = ResponsesEventDecoder()
            let result = decode(chunks, with: &decoder)
            #expect(result == .success(ReferenceAnswer.events), "\(label)")
            #expect(decoder.skippedPayloads == ReferenceAnswer.skippedPayloads, "\(label)")
        }
    }

    @Test func theReferenceAnswerReadsAsItShould() throws {
        var decoder = ResponsesEventDecoder()
        let events = try decoder.receivedBytes(Array(ReferenceAnswer.stream.utf8))
        let text = events.reduce(into: "") { if case .outputTextDelta(let delta, _) = $1 { $0 += delta } }
        #expect(text == ReferenceAnswer.text)
        guard case .completed(let response) = events.last else {
            Issue.record("the last event is not the end")
            return
        }
        let items = events.compactMap { if case .outputItemDone(let item, _) = $0 { item } else { nil } }
        #expect(items.map(\.isToolCall) == [false, true, true, false, false])
        #expect(response.with(items: items, text: text).outputText == ReferenceAnswer.text)
        #expect(response.usage?.totalTokens == 12)
    }

    @Test func everyEarlyEndOfTheReferenceAnswerIsTold() throws {
        // One line end less is still the whole event: a last event without its blank line counts.
        let ends = ReferenceAnswer.lengthToTheEnd - 2
        var decoder = ResponsesEventDecoder()
        var events: [ResponsesEvent] = []
        for (end, byte) in Array(ReferenceAnswer.stream.utf8).prefix(ends).enumerated() {
            var cut = decoder
            do throws(ResponsesStreamError) {
                _ = try cut.connectionClosed()
                Issue.record("ended at \(end) without an error")
            } catch {
                // What the last, unfinished line completed is counted, but not delivered.
                let told = [events.count, events.count + 1].map { ResponsesStreamError.endedEarly(eventsReceived: $0) }
                #expect(told.contains(error), "ended at \(end)")
            }
            events += try decoder.receivedBytes([byte])
        }
        #expect(events == ReferenceAnswer.events.dropLast())
    }

    @Test func theTerminalEventEndsAtOnce() throws {
        let bytes = Array(ReferenceAnswer.stream.utf8)[..<ReferenceAnswer.lengthToTheEnd]
        var decoder = ResponsesEventDecoder()
        #expect(try decoder.receivedBytes(Array(bytes.dropLast())).count == ReferenceAnswer.events.count - 1)
        #expect(!decoder.isFinished)
        #expect(try decoder.receivedBytes(Array(bytes.suffix(1))) == ReferenceAnswer.events.suffix(1))
        #expect(decoder.isFinished)
    }

    @Test(
        "after any terminal event the rest is ignored",
        arguments: [
            #"{"type":"response.completed","response":{"id":"r"}}"#, #"{"type":"response.completed"}"#,
            #"{"type":"response.failed","response":{"error":{"code":"x"}}}"#, #"{"type":"response.incomplete"}"#,
            #"{"type":"error","status":500}"#,
        ])
    func ignoresWhatFollowsTheEnd(_ payload: String) throws {
        let rest =
            "data: \(payload)\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\ndata: broken\n\n"
        // The payload decides, not the field.
        Chunking.forEach(Array("event: x\ndata: \(payload)\n\n\(rest)".utf8)) { chunks, label in
            var decoder = ResponsesEventDecoder(maximumEventBytes: 100)
            let result = decode(chunks + [[UInt8](repeating: 0x78, count: 1000)], with: &decoder)
            let events = try? result.get()
            #expect(events?.count == 1 && events?.first?.isTerminal == true, "\(label)")
            #expect(decoder.isFinished && decoder.skippedPayloads == 0, "\(label)")
        }
    }

    @Test func aTerminalEventWithoutItsBlankLineCounts() throws {
        for ending in ["", "\n", "\r", "\r\n"] {
            var decoder = ResponsesEventDecoder()
            #expect(try decoder.receivedBytes(Array(("data: {\"type\":\"response.completed\"}" + ending).utf8)) == [])
            let events = try decoder.connectionClosed()
            #expect(events.count == 1 && decoder.isFinished)
            #expect(try decoder.connectionClosed() == [])
        }
    }

    @Test func anEndBeforeTheTerminalEventIsAnError() {
        for (stream, count) in [
            ("", 0), (": only a comment\n\n", 0), ("data: [DONE]\n\n", 0),
            ("data: {\"type\":\"a\"}\n\n", 1), ("data: {\"type\":\"a\"}\n\ndata: {\"type\":\"b\"}\n\ndata: {\"ty", 2),
        ] {
            var decoder = ResponsesEventDecoder()
            #expect(
                decode([Array(stream.utf8)], with: &decoder) == .failure(.endedEarly(eventsReceived: count)),
                "\(stream)")
            #expect(throws: ResponsesStreamError.endedEarly(eventsReceived: count)) { try decoder.connectionClosed() }
        }
    }

    @Test func malformedPayloadsAreSkippedAndCounted() {
        let skipped = ["{", "x", "[]", "{}", "null", #"{"type":1}"#, "{\"type\":\"a\u{01}\"}", " [DONE]", "[done]"]
        let stream =
            skipped.map { "data:\($0)\n\n" }.joined() + "data: [DONE]\n\ndata: {\"type\":\"response.completed\"}\n\n"
        Chunking.forEach(Array(stream.utf8)) { chunks, label in
            var decoder = ResponsesEventDecoder()
            #expect((try? decode(chunks, with: &decoder).get())?.count == 1, "\(label)")
            #expect(decoder.skippedPayloads == skipped.count - 1, "\(label)")
        }
    }

    @Test(arguments: ["data: {\"ty", "data: {\"type\":\n", "data: {\"type\":\ndata: \"re"])
    func aPayloadThatTheEndCutOffIsNotCounted(rest: String) {
        Chunking.forEach(Array("data: x\n\n\(rest)".utf8)) { chunks, label in
            var decoder = ResponsesEventDecoder()
            #expect(decode(chunks, with: &decoder) == .failure(.endedEarly(eventsReceived: 0)), "\(label)")
            #expect(decoder.skippedPayloads == 1, "\(label)")
        }
    }

    @Test func `an event over the limit is an error after the complete events`() throws {
        let limit = 64
        let good = "data: {\"type\":\"a\"}\n\n"
        let exact = "data: {\"type\":\"" + String(repeating: "b", count: limit - 11) + "\"}\n\n"
        let over = "data: {\"type\":\"" + String(repeating: "b", count: limit - 10) + "\"}\n\n"
        Chunking.forEach(Array((good + exact + over).utf8)) { chunks, label in
            var decoder = ResponsesEventDecoder(maximumEventBytes: limit)
            var events: [ResponsesEvent] = []
            var failure: ResponsesStreamError?
            do throws(ResponsesStreamError) {
                for chunk in chunks { events += try decoder.receivedBytes(chunk) }
                events += try decoder.connectionClosed()
            } catch {
                failure = error
            }
            #expect(events.count == 2 && failure == .eventTooLarge(limitBytes: limit), "\(label)")
            #expect(throws: ResponsesStreamError.eventTooLarge(limitBytes: limit)) { try decoder.receivedBytes([]) }
            #expect(throws: ResponsesStreamError.eventTooLarge(limitBytes: limit)) { try decoder.connectionClosed() }
        }
    }

    @Test func `the cost grows linearly with the number of events and their size`() {
        let delta = Array("data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n".utf8)
        let events = Growth.factor("Responses events", size: 256) { size in
            var decoder = ResponsesEventDecoder()
            var count = 0
            for _ in 0..<size { count += (try? decoder.receivedBytes(delta).count) ?? 0 }
            #expect(count == size)
        }
        #expect(events < Growth.limit)
        let bytes = Growth.factor("one Responses event", size: 1 << 15) { size in
            let text = String(repeating: "é", count: size / 2)
            var decoder = ResponsesEventDecoder()
            let event = Array("data: {\"type\":\"response.output_text.delta\",\"delta\":\"\(text)\\n\"}\n\n".utf8)
            let events = Chunking.chunks(of: event, size: 1000).flatMap { (try? decoder.receivedBytes($0)) ?? [] }
            #expect(events == [.outputTextDelta(text + "\n", itemID: nil)])
        }
        #expect(bytes < Growth.limit)
    }

    @Test(
        arguments: [
            (.endedEarly(eventsReceived: 0), "before it sent anything"),
            (.endedEarly(eventsReceived: 3), "before the answer was complete"),
            (.eventTooLarge(limitBytes: 5), "5 bytes"),
        ] as [(ResponsesStreamError, String)])
    func anErrorSaysWhatHappened(_ error: ResponsesStreamError, _ part: String) {
        #expect(error.errorDescription?.contains(part) == true)
    }

    private func decode(
        _ chunks: [[UInt8]], with decoder: inout ResponsesEventDecoder
    ) -> Result<[ResponsesEvent], ResponsesStreamError> {
        var events: [ResponsesEvent] = []
        do throws(ResponsesStreamError) {
            for chunk in chunks { events += try decoder.receivedBytes(chunk) }
            return .success(events + (try decoder.connectionClosed()))
        } catch {
            return .failure(error)
        }
    }
}
