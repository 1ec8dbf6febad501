@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import Foundation
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieClient

/// Pictures that the client asks for itself: one row for each failure, and pictures in a conversation.
@Suite(.timeLimit(.minutes(2))) struct ImageTests {
    static let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

    private static func refused(_ status: Int, _ body: String = "{}", fields: HTTPFields = [:]) -> ScriptedHTTPAnswer {
        .response(status: .init(code: status), headerFields: fields + [.contentType: "application/json"], body: body)
    }

    private static let made = refused(
        200,
        #"{"created":1,"data":[{"b64_json":"\#(png)"}],"size":"1x1","usage":{"input_tokens":5,"output_tokens":7}}"#)

    private static func lost(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage
    ) -> ScriptedHTTPAnswer {
        .failure(ChappieTransportError(code, stage: stage, host: "chatgpt.com", reason: "gone"))
    }

    private func harness(
        _ replies: [Reply] = [], _ others: [ScriptedHTTPAnswer], wire: Wire = .serverSentEvents, model: String = "lite"
    ) -> ClientHarness {
        // In a turn, the function has a deadline, which must not pass at once.
        ClientHarness(
            wire, replies, others: others, clock: replies.isEmpty ? nil : SystemClock(),
            configure: { $0.model = model })
    }

    private func sent(_ harness: ClientHarness) throws -> [ChappieJSON] {
        try harness.http.receivedRequests.filter { $0.url.path().contains("/codex/images/") }
            .map { try ChappieJSON(parsing: $0.body?.bytes ?? []) }
    }

    private func failure(_ answers: ScriptedHTTPAnswer...) async throws -> (error: ChappieClientError?, count: Int) {
        let harness = harness([], answers)
        do {
            _ = try await harness.client.generateImage(ChappieImageRequest("a red fox"))
            return (nil, try sent(harness).count)
        } catch let error as ChappieClientError {
            return (error, try sent(harness).count)
        }
    }

    // MARK: Requests

    @Test func `requests have the form of the official client`() async throws {
        let harness = harness([], [Self.made, Self.made])
        let image = try await harness.client.generateImage(ChappieImageRequest("a red fox"))
        #expect(image.format == .png && image.width == 1 && image.height == 1)
        #expect(image.bytes == Array(try #require(Data(base64Encoded: Self.png))))
        #expect(image.usage?.totalTokens == 12 && image.mediaType == "image/png" && image.fileExtension == "png")
        let edited = ChappieImageRequest(
            "add a hat", model: "gpt-image-2.5-flare", size: "1024x1536", quality: .high, background: .transparent)
        _ = try await harness.client.editImage(edited, images: [try ChappieImage(bytes: image.bytes)])
        let requests = harness.http.receivedRequests
        #expect(requests.map { $0.url.path() }.map { $0.suffix(18) } == ["images/generations", "codex/images/edits"])
        let turn = try #require(HTTPField.Name("x-codex-image-turn-id"))
        #expect(requests.allSatisfy { $0.headerFields[turn]?.count == 36 && $0.body?.coding == .identity })
        #expect(requests.allSatisfy { $0.deadlines?.responseHead == .seconds(600) })
        #expect(
            try sent(harness) == [
                [
                    "prompt": "a red fox", "background": "opaque", "model": "gpt-image-2", "quality": "auto",
                    "size": "auto",
                ],
                [
                    "images": [["image_url": .string("data:image/png;base64,\(Self.png)")]], "prompt": "add a hat",
                    "background": "transparent", "model": "gpt-image-2.5-flare", "quality": "high",
                    "size": "1024x1536",
                ],
            ])
    }

    @Test func `nothing is sent for a request that can't be carried out`() async throws {
        let harness = harness([], [])
        let image = ChappieImage(source: .url("data:image/png;base64,\(Self.png)"))
        for images in [
            [], Array(repeating: image, count: 6), [ChappieImage(source: .url("https://example.com/a.png"))],
        ] {
            await #expect(throws: ChappieClientError.self) {
                try await harness.client.editImage(ChappieImageRequest("a"), images: images)
            }
        }
        await #expect(throws: ChappieClientError.self) {
            try await harness.client.generateImage(ChappieImageRequest(" \n"))
        }
        #expect(try sent(harness).isEmpty)
    }

    // MARK: Failures

    @Test func `a refusal of the safety check has its own sentence`() async throws {
        for body in [
            #"{"error":{"code":"moderation_blocked","message":"No.","moderation_stage":"input"}}"#,
            #"{"error":{"type":"image_generation_user_error","message":"No."}}"#,
        ] {
            let end = try await failure(Self.refused(400, body))
            #expect(end.error == .imageFailed(.refusedBySafetyCheck("No.")) && end.count == 1)
            #expect(end.error?.errorDescription == "The service's safety check refused this prompt or picture: No.")
        }
        let other = try await failure(Self.refused(400, #"{"error":{"message":"Bad size."}}"#))
        #expect(other.error?.errorDescription?.contains("Bad size.") == true)
    }

    @Test func `too many pictures are no limit of the plan unless the answer says so`() async throws {
        let plain = try await failure(Self.refused(429, #"{"error":{"message":"slow down"}}"#))
        #expect(plain.error == .imageFailed(.tooManyPictures(until: nil)) && plain.count == 1)
        let later = try await failure(Self.refused(429, "{}", fields: [.retryAfter: "120"]))
        guard case .imageFailed(.tooManyPictures(let until)) = later.error else {
            Issue.record("\(String(describing: later.error))")
            return
        }
        #expect(until != nil && later.count == 1)
        #expect(later.error?.errorDescription?.contains("the next one may be made at") == true)
        let limit = try await failure(
            Self.refused(429, #"{"error":{"type":"usage_limit_reached","resets_in_seconds":60}}"#))
        guard case .usageLimitReached(let limit) = limit.error else {
            Issue.record("no limit")
            return
        }
        #expect(limit.resetsAt != nil)
    }

    @Test func `a request that may have been carried out is not repeated`() async throws {
        for answer in [
            Self.refused(500), Self.lost(.connectionLost, .responseHead), Self.lost(.timedOut, .responseHead),
            Self.lost(.connectionLost, .request),
        ] {
            let end = try await failure(answer)
            guard case .imageFailed(.mayHaveBeenMade) = end.error else {
                Issue.record("\(String(describing: end.error))")
                continue
            }
            #expect(end.count == 1)
        }
        let late = ScriptedHTTPAnswer(
            beforeHead: [], status: .ok, headerFields: [:],
            body: [.chunk(Array(#"{"created":1,"data":[{"b64_"#.utf8)), .cut])
        let end = try await failure(late)
        guard case .imageFailed(.mayHaveBeenMade) = end.error else {
            Issue.record("\(String(describing: end.error))")
            return
        }
        #expect(end.count == 1)
    }

    @Test func `a request that was not carried out is repeated once`() async throws {
        for answer in [
            Self.lost(.connectFailed, .connect), Self.lost(.tlsFailed, .tls), Self.refused(502), Self.refused(503),
            Self.refused(504),
        ] {
            let end = try await failure(answer, Self.made)
            #expect(end.error == nil && end.count == 2)
            let twice = try await failure(answer, answer)
            #expect(twice.error != nil && twice.count == 2)
        }
    }

    @Test func `an answer without a picture is an error`() async throws {
        let empty = try await failure(Self.refused(200, #"{"created":1,"data":[]}"#))
        #expect(empty.error == .imageFailed(.noPicture))
        let gif = try await failure(
            Self.refused(200, #"{"data":[{"b64_json":"R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}]}"#))
        #expect(gif.error == .imageFailed(.notAPicture))
        #expect(try await failure(Self.refused(200, "<html>")).error == .invalidResponse)
    }

    @Test func `a picture is decoded from pieces of any size`() throws {
        let usage = #""usage":{"input_tokens":5}"#
        let escaped = Self.png.replacingOccurrences(of: "/", with: #"\/"#)
        for text in [
            #"{"data":[{"b64_json":"\#(Self.png)"}],\#(usage)}"#,
            #"{"note":"b64_json","a\"b64_json":"x","data":[{"b64_json" : "\#(escaped)"},{"b64_json":"AAAA"}],\#(usage)}"#,
        ] {
            for size in [1, 3, 7, 1000] {
                var decoder = ImageAnswerDecoder()
                var rest = Array(text.utf8)[...]
                while !rest.isEmpty {
                    try decoder.receive(Array(rest.prefix(size)))
                    rest = rest.dropFirst(size)
                }
                let image = try decoder.finish()
                #expect(image.bytes == Array(try #require(Data(base64Encoded: Self.png))))
                #expect(image.usage?.inputTokens == 5)
            }
        }
        var large = ImageAnswerDecoder()
        let chunk = [UInt8](repeating: UInt8(ascii: "A"), count: 1 << 20)
        #expect(throws: ChappieTransportError.self) { for _ in 0...64 { try large.receive(chunk) } }
    }

    // MARK: In a turn

    private static func drawn(_ arguments: String, id: String = "call_1") -> Reply {
        Reply(steps: [.events(items([call("image_generation", arguments, id: id)], id: "resp_\(id)"))])
    }

    @Test(arguments: Wire.allCases)
    func `a picture is made and changed in a conversation`(wire: Wire) async throws {
        let harness = harness(
            [
                Self.drawn(#"{"prompt":"a fox"}"#), .answer("Here."),
                Self.drawn(#"{"prompt":"red hat","images":[2],"transparent_background":true}"#, id: "call_2"),
                .answer("Changed.", id: "resp_4"),
            ], [Self.made, Self.made], wire: wire)
        let mine = ChappieImage(source: .url("data:image/png;base64,AAAA"))
        let first = try await harness.client.response(
            ChappieResponseRequest(
                messages: [.user("Draw one like this", images: [mine])], serviceTools: [.imageGeneration()]))
        #expect(first.images.count == 1 && first.outputText == "Here." && first.sources.isEmpty)
        let second = try await harness.client.response(
            ChappieResponseRequest(messages: [.user("With a hat")], serviceTools: [.imageGeneration()]))
        #expect(second.images.count == 1, "\(second)")
        let sent = try sent(harness)
        try #require(sent.count == 2)
        #expect(sent[0]["images"] == nil && sent[0]["prompt"] == "a fox" && sent[0]["background"] == "opaque")
        #expect(sent[1]["images"]?[0]?["image_url"] == .string("data:image/png;base64,\(Self.png)"))
        #expect(sent[1]["background"] == "transparent")
        let outputs = await harness.client.context().items.filter { $0["type"] == "function_call_output" }
        #expect(outputs.map { $0["output"]?[0]?["text"]?.string?.prefix(9) } == ["Picture 2", "Picture 3"])
        #expect(try harness.requests.allSatisfy { $0["reasoning"]?["context"] == "all_turns" })
        let parts = try harness.requests[1]["input"]?.array?.last?["output"]?.array
        #expect(parts?.last?["type"] == "input_image" && parts?.last?["detail"] == nil)
    }

    @Test func `a picture that does not exist is a mistake of the model`() async throws {
        let harness = harness(
            [Self.drawn(#"{"prompt":"a","images":[3]}"#), .answer("Sorry.")], [])
        let response = try await harness.client.response(
            ChappieResponseRequest(messages: [.user("Change it")], serviceTools: [.imageGeneration()]))
        #expect(response.images.isEmpty && response.outputText == "Sorry.")
        let output = try harness.requests[1]["input"]?.array?.last?["output"]?.string
        #expect(output == "There is no picture 3. The conversation has none.")
        #expect(try sent(harness).isEmpty)
    }

    @Test func `a failed picture is told to the user and the model`() async throws {
        let refusal = Self.refused(400, #"{"error":{"code":"moderation_blocked","message":"No."}}"#)
        let harness = harness([Self.drawn(#"{"prompt":"a"}"#), .answer("Sorry.")], [refusal])
        let seen = await Seen(
            harness.client.streamResponse(
                ChappieResponseRequest(messages: [.user("Draw")], serviceTools: [.imageGeneration()])))
        #expect(seen.text == "Sorry." && seen.notices.map(\.kind) == [.serviceToolFailed])
        #expect(seen.notices.first?.message.contains("safety check") == true)
    }

    @Test func `pictures that no longer fit are not sent again`() {
        func output(_ size: Int) -> ChappieJSON {
            let url = "data:image/png;base64," + String(repeating: "A", count: size)
            return [
                "type": "function_call_output", "call_id": "c",
                "output": [["type": "input_image", "image_url": .string(url)]],
            ]
        }
        let input = RequestInput(isLite: true, namespaces: nil)
        func sent(_ sizes: [Int]) -> [Bool] {
            input.written(sizes.map(output)).map { $0["output"]?[0]?["type"] == "input_image" }
        }
        #expect(sent([100, 100]) == [true, true])
        #expect(sent([100, 12_000_000, 100]) == [true, false, true])
        #expect(sent([10 << 20, 10 << 20, 10 << 20]) == [false, true, true])
    }
}
