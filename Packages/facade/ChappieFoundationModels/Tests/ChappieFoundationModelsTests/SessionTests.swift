import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// Sessions with text and tools.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct SessionTests {
    @Test func `an answer arrives in growing snapshots, and its tokens are counted`() async throws {
        let user = try await SignedInModel(deltasPerSecond: 200)
        let session = LanguageModelSession(model: user.model)
        var snapshots: [String] = []
        for try await snapshot in session.streamResponse(to: "reply: one two three four") {
            snapshots.append(snapshot.content)
        }
        #expect(snapshots.count >= 3 && snapshots.last == "one two three four")
        #expect(zip(snapshots, snapshots.dropFirst()).allSatisfy { $1.hasPrefix($0) })
        #expect(session.usage.input.totalTokenCount > 0 && session.usage.output.totalTokenCount > 0)
        #expect(session.usage.output.reasoningTokenCount > 0)
        #expect(session.transcript.kinds == ["prompt", "reasoning", "response"])
    }

    @Test func `each turn of a session sends only its new items`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model, instructions: "Be short.")
        #expect(try await session.respond(to: "reply: one").content == "one")
        #expect(try await session.respond(to: "reply: two").content == "two")
        #expect(try await session.respond(to: "reply: three").content == "three")
        let frames = try #require(user.frames.first)
        #expect(user.frames.count == 1)
        #expect(frames.map { $0["previous_response_id"] != nil } == [false, true, true])
        #expect(frames.map(\.inputTypes) == [["developer", "user"], ["user"], ["user"]])
        #expect(frames[0].inputItems[0]["content"]?[0]?["text"] == "Be short.")
    }

    @Test func `the framework runs a tool, and the second request has only its output`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model, tools: [Weather()], instructions: "Be short.")
        let answer = try await session.respond(
            to: #"call weather {"town":"Oslo","day":"today"}"#,
            contextOptions: ContextOptions(reasoningLevel: .moderate))
        #expect(answer.content.contains(#"rain, {"town":"Oslo","day":"today"}"#))
        #expect(
            session.transcript.kinds
                == ["instructions", "prompt", "reasoning", "calls", "output", "reasoning", "response"])
        let frames = user.frames[0]
        #expect(frames.map(\.inputTypes) == [["developer", "user"], ["function_call_output"]])
        #expect(frames[1]["previous_response_id"] != nil)
        let tool = frames[0]["input"]?[0]?["tools"]?[0]?["tools"]?[0] ?? frames[0]["input"]?[0]?["tools"]?[0]
        #expect(tool?["name"] == "weather" && tool?["parameters"]?["title"] == nil)
        #expect(tool?["parameters"]?["properties"]?.object?.names == ["town", "day"])
        #expect(frames[0]["reasoning"]?["effort"] == "medium")
    }

    @Test func `the metadata of a request names its model and verbosity`() async throws {
        let user = try await SignedInModel()
        let models = try await user.model.executorConfiguration.makeClient().models()
        let other = try #require(models.last { $0.isListed }?.slug)
        let session = LanguageModelSession(model: user.model(effort: .low))
        _ = try await session.respond(to: "reply: one", contextOptions: ContextOptions(reasoningLevel: .deep))
        _ = try await session.respond(
            to: "reply: two", metadata: ["chappie.model": other, "chappie.verbosity": "low"])
        let frames = user.frames.flatMap(\.self)
        #expect(frames.map { $0["reasoning"]?["effort"] } == ["low", "low"])
        #expect(frames[0]["model"] != .string(other) && frames[1]["model"] == .string(other))
        #expect(frames[1]["text"]?["verbosity"] == "low")
    }

    @Test func `two calls of a round, one without arguments, get their outputs`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model, tools: [Weather(), Weather(name: "tide")])
        let answer = try await session.respond(to: "call weather {\"town\":\"Oslo\"}\ncall tide {}")
        #expect(answer.content.contains(#"{"town":"Oslo"}"#) && answer.content.contains("rain, {}"))
        #expect(
            session.transcript.kinds
                == ["instructions", "prompt", "reasoning", "calls", "output", "output", "reasoning", "response"])
        let outputs = try user.lastFrame().inputItems
        #expect(outputs.map { $0["type"] } == ["function_call_output", "function_call_output"])
    }

    @Test func `a transcript that was cut is sent in full, without outputs that lack their call`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model, tools: [Weather()], instructions: "Be short.")
        _ = try await session.respond(to: #"call weather {"town":"Oslo"}"#)
        let output = try #require(session.transcript.kinds.firstIndex(of: "output"))
        let cut = Transcript(entries: session.transcript.dropFirst(output))
        let other = LanguageModelSession(model: user.model, tools: [Weather()], transcript: cut)
        #expect(try await other.respond(to: "reply: two").content == "two")
        #expect(user.frames.count == 2)
        #expect(try user.lastFrame(1).inputTypes == ["reasoning", "assistant", "user"])

        let withoutOutput = Transcript(entries: session.transcript.prefix(output))
        let third = LanguageModelSession(model: user.model, tools: [Weather()], transcript: withoutOutput)
        #expect(try await third.respond(to: "reply: three").content == "three")
        // It has the connection of the session that begins with the same entry.
        let items = try user.lastFrame(0).inputItems
        let types = ["message", "message", "reasoning", "function_call", "function_call_output", "message"]
        #expect(items.compactMap { $0["type"]?.string } == types)
        #expect(items[4]["output"] == "The tool was not run.")
    }

    @Test func `commentary is an entry before the answer`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model)
        #expect(try await session.respond(to: "comment: Looking.\nreply: found").content == "found")
        #expect(session.transcript.kinds == ["prompt", "reasoning", "reasoning", "response"])
        guard case .reasoning(let commentary) = session.transcript[2] else { return }
        #expect(commentary.segments.count == 1 && commentary.signature == nil)
        _ = try await session.respond(to: "reply: next")
        #expect(user.frames[0].map { $0["previous_response_id"] != nil } == [false, true])
    }

    @Test func `images of prompts and of tools are sent, and one at an address is refused`() async throws {
        let user = try await SignedInModel()
        let png = Base64URL.decode(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk-M9QDwADhgGAWjR9awAAAABJRU5ErkJggg")
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).png")
        try Data(try #require(png)).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        func answer(about url: URL) async throws -> String {
            let segments: [Transcript.Segment] = [
                .text(.init(content: "See this.")),
                .attachment(.init(content: .image(.init(imageURL: url)), label: "figure")),
            ]
            let call = Transcript.ToolCall(id: "call_1", toolName: "weather", arguments: GeneratedContent("x"))
            let transcript = Transcript(entries: [
                .prompt(.init(segments: segments)), .toolCalls(.init([call])),
                .toolOutput(.init(id: "call_1", toolName: "weather", segments: segments)),
            ])
            let session = LanguageModelSession(model: user.model, tools: [Weather()], transcript: transcript)
            return try await session.respond(to: "reply: seen").content
        }
        #expect(try await answer(about: file) == "seen")
        let items = try user.lastFrame().inputItems
        for parts in [items[0]["content"]?.array ?? [], items[2]["output"]?.array ?? []] {
            #expect(parts.map { $0["type"] } == ["input_text", "input_text", "input_image"])
            #expect(parts[1]["text"] == "[figure]")
            #expect(parts[2]["image_url"]?.string?.hasPrefix("data:image/png;base64,") == true)
        }

        let address = try #require(URL(string: "https://example.com/figure.png"))
        let refused = await Result { try await answer(about: address) }.error
        guard case .unsupportedTranscriptContent(let content)? = refused as? LanguageModelError else {
            Issue.record("\(String(describing: refused))")
            return
        }
        #expect(content.unsupportedContent.count == 1)
    }
}
