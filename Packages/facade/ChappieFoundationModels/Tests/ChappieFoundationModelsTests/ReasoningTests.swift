import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import Testing

@testable import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// Reasoning that is kept as a signature, and transcripts that another process continues.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct ReasoningTests {
    /// Returns a session with a turn that has reasoning, a tool and commentary.
    private func session(of user: SignedInModel) async throws -> LanguageModelSession {
        let session = LanguageModelSession(model: user.model, tools: [Weather()], instructions: "Be short.")
        _ = try await session.respond(
            to: "comment: Looking.\ncall weather {\"town\":\"Oslo\"}",
            contextOptions: ContextOptions(reasoningLevel: .deep))
        return session
    }

    private func input(
        of transcript: Transcript, model: String? = nil
    ) throws -> [ChappieJSON] {
        try TranscriptInput(Array(transcript), model: model) { _ in nil }.items
    }

    @Test func `another process sends the same items as this one`() async throws {
        let user = try await SignedInModel(policy: .httpSSEOnly)
        let session = try await session(of: user)
        let transcript = session.transcript
        _ = try await session.respond(to: "reply: two")
        let other = try await SignedInModel(policy: .httpSSEOnly)
        let restored = LanguageModelSession(model: other.model, tools: [Weather()], transcript: transcript)
        _ = try await restored.respond(to: "reply: two")

        let kept = try #require(user.posts.last).inputItems
        let sent = try #require(other.posts.last).inputItems
        #expect(
            kept.compactMap { $0["type"]?.string } == [
                "message", "message", "reasoning", "message", "function_call", "function_call_output", "reasoning",
                "message", "message",
            ])
        func same(_ item: ChappieJSON) -> [ChappieJSON?] {
            ["type", "role", "id", "phase", "call_id", "name", "namespace", "arguments", "output", "encrypted_content"]
                .map { item[$0] } + [item["content"]?[0]?["text"]]
        }
        #expect(sent.map(same) == kept.map(same))
    }

    @Test func `reasoning that the service can't read is left out after its refusal`() async throws {
        let user = try await SignedInModel()
        var transcript = try await session(of: user).transcript
        for index in transcript.indices {
            guard case .reasoning(var entry) = transcript[index], let signature = entry.signature else { continue }
            var item = try ChappieJSON(parsing: Array(signature)).object ?? [:]
            item["encrypted_content"] = .string(Base64URL.encode("simulated:other:rs".utf8))
            entry.signature = Data(ChappieJSON.object(item).serializedBytes())
            transcript[index] = .reasoning(entry)
        }
        let other = try await SignedInModel()
        let edited = LanguageModelSession(model: other.model, tools: [Weather()], transcript: transcript)
        #expect(try await edited.respond(to: "reply: two").content == "two")
        let requests = other.frames.flatMap(\.self)
        #expect(requests.map { $0.inputItems.contains { $0["type"] == "reasoning" } } == [true, false])
    }

    @Test func `reasoning of another model or provider is left out`() async throws {
        let user = try await SignedInModel()
        let session = try await session(of: user)
        #expect(try input(of: session.transcript).contains { $0["type"] == "reasoning" })
        #expect(try !input(of: session.transcript, model: "another").contains { $0["type"] == "reasoning" })
        var foreign = session.transcript
        for index in foreign.indices {
            guard case .reasoning(var entry) = foreign[index], entry.signature != nil else { continue }
            entry.signature = Data("opaque".utf8)
            foreign[index] = .reasoning(entry)
        }
        #expect(try !input(of: foreign).contains { $0["type"] == "reasoning" })
    }

    @Test func `an answer that the app has edited is sent as edited`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model)
        _ = try await session.respond(to: "reply: one")
        var edited = session.transcript
        guard case .response(var response)? = edited.last else { return }
        response.segments = [.text(.init(content: "uno"))]
        edited[edited.endIndex - 1] = .response(response)
        let other = LanguageModelSession(model: user.model, transcript: edited)
        _ = try await other.respond(to: "reply: two")
        let frame = try user.lastFrame()
        #expect(frame["previous_response_id"] == nil)
        #expect(frame.inputItems[2]["content"]?[0]?["text"] == "uno")
    }

    @Test(arguments: [#"[{"length":-1},{"length":4}]"#, #"[{"length":9223372036854775807},{"length":1}]"#, "[]", "x"])
    func `a wrong note about the messages is ignored`(note: String) throws {
        let response = Transcript.Response(
            metadata: ["chappie.items": note], segments: [.text(.init(content: "one"))])
        let items = try input(of: Transcript(entries: [.response(response)]))
        #expect(items.count == 1 && items[0]["content"]?[0]?["text"] == "one")
    }

    @Test func `ids of another provider's calls are replaced by ids that the service takes`() throws {
        let id = String(repeating: "call:", count: 30)
        let transcript = Transcript(entries: [
            .prompt(.init(segments: [.text(.init(content: "Hi"))])),
            .toolCalls(.init([.init(id: id, toolName: "weather", arguments: GeneratedContent(properties: [:]))])),
            .toolOutput(.init(id: id, toolName: "weather", segments: [.text(.init(content: "rain"))])),
        ])
        let items = try input(of: transcript)
        let replaced = try #require(items[1]["call_id"]?.string)
        #expect(replaced.count <= 64 && !replaced.contains(":") && items[2]["call_id"]?.string == replaced)
    }
}
