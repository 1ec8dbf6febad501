import ChappieCore
import ChappieTesting
import Testing

@testable import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// The connections of several sessions.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct LaneTests {
    @Test func `sessions side by side have their own connections`() async throws {
        let user = try await SignedInModel(deltasPerSecond: 300)
        let sessions = ["a", "b"].map { LanguageModelSession(model: user.model, instructions: $0) }
        for round in 0..<2 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, session) in sessions.enumerated() {
                    group.addTask {
                        let text = "session \(index) round \(round) with some words to stream"
                        let answer = try await session.respond(to: "reply: \(text)")
                        #expect(answer.content == text)
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(user.frames.count == 2)
        for frames in user.frames {
            #expect(frames.map { $0["previous_response_id"] != nil } == [false, true])
        }
        let texts = user.frames.map { $0[0].inputItems[0]["content"]?[0]?["text"] }
        #expect(Set(texts) == ["a", "b"])
    }

    @Test func `a fork that answers at the same time has its own connection`() async throws {
        let user = try await SignedInModel(deltasPerSecond: 300)
        let session = LanguageModelSession(model: user.model)
        _ = try await session.respond(to: "reply: start")
        let fork = LanguageModelSession(model: user.model, transcript: session.transcript)
        async let one = session.respond(to: "reply: this one has some words").content
        async let two = fork.respond(to: "reply: that one has some words").content
        #expect(try await [one, two] == ["this one has some words", "that one has some words"])
        #expect(user.frames.count == 2)
        #expect(try user.lastFrame(1).inputTypes == ["user", "reasoning", "assistant", "user"])
    }

    @Test func `at most eight idle connections are kept`() async throws {
        let user = try await SignedInModel()
        let executor = ChatGPTLanguageModel.Executor(configuration: user.model.executorConfiguration)
        #expect(executor.lanes.idleCount == 0)
        var lanes = (0..<20).map { executor.lanes.take(for: ["\($0)"]) }
        for (index, lane) in lanes.enumerated() { executor.lanes.release(lane, after: ["\(index)"]) }
        lanes = []
        #expect(executor.lanes.idleCount == Lanes.idleLimit)
        for number in 0..<20 {
            let session = LanguageModelSession(model: user.model, instructions: "\(number)")
            _ = try await session.respond(to: "reply: \(number)")
        }
        #expect(user.frames.count == 20)
        #expect(user.simulator.webSocket.peers.count { !$0.isDropped && $0.isOpen } <= Lanes.idleLimit)
    }

    @Test func `the items of old rounds are dropped when they need too much memory`() async throws {
        let lanes = Lanes { fatalError("no client is needed") }
        func round(_ name: String) -> SentRound {
            SentRound(entries: [.init(id: name, content: .text(name))], items: [], byteCount: 6 << 20)
        }
        for name in ["a", "b", "c"] { lanes.keep(round(name)) }
        #expect(lanes.round(of: "a") == nil && lanes.round(of: "b") != nil && lanes.round(of: "c") != nil)
    }

    @Test func `a session that was prewarmed sends only its question`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model, tools: [Weather()], instructions: "Be short.")
        session.prewarm()
        // A question during the prewarm would end it.
        await user.waitForPrewarm()
        #expect(try await session.respond(to: "reply: one").content == "one")
        let frames = user.frames[0]
        #expect(user.frames.count == 1)
        #expect(frames.map { $0["generate"] } == [false, nil])
        #expect(frames[1]["previous_response_id"] != nil && frames[1].inputTypes == ["user"])
    }
}
