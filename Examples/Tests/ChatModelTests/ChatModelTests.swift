import ChappieSDK
import ChappieSDKRuntime
import ChappieSDKTesting
import ChatModel
import Testing

@MainActor
@Suite struct ChatModelTests {
    private func model(_ client: ChappieClient, _ store: ChappieInMemoryThreadStore = .init()) -> ChatModel {
        ChatModel(runtime: client.runtime(store: store))
    }

    private func client(_ answer: @escaping @Sendable () -> ScriptedHTTPAnswer) -> ChappieClient {
        let transport = ScriptedHTTPTransport { request in
            request.url.path().hasSuffix("/responses") ? answer() : .response(status: .notFound)
        }
        return ChappieClient(
            configuration: ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly), transport: transport,
            credentials: SeededAuth().manager(transport: transport))
    }

    private func ask(_ model: ChatModel, _ question: String) async {
        model.draft = question
        await model.send()?.value
    }

    private func texts(_ model: ChatModel) -> [String] { model.messages.map(\.text) }

    @Test func `an answer is shown and kept`() async {
        let store = ChappieInMemoryThreadStore()
        let model = model(.answering("Hello!", "Fine."), store)
        await ask(model, " Hi ")
        await ask(model, "How are you?")
        #expect(texts(model) == ["Hi", "Hello!", "How are you?", "Fine."])
        #expect(model.messages.map(\.isFromUser) == [true, false, true, false])
        #expect(model.draft.isEmpty && !model.isAnswering && model.problem == nil)

        let next = self.model(.answering("Later."), store)
        await next.load()
        #expect(texts(next) == texts(model) && next.chats.map(\.preview) == ["Hi"])
    }

    @Test func `chats are begun, opened and deleted`() async throws {
        let model = model(.answering("One", "Two"))
        await ask(model, "First")
        await model.begin()
        #expect(model.messages.isEmpty)
        await ask(model, "Second")
        #expect(model.chats.map(\.preview) == ["Second", "First"])
        let first = try #require(model.chats.last)
        await model.open(first.id)
        #expect(texts(model) == ["First", "One"])
        await model.delete(first.id)
        #expect(model.messages.isEmpty && model.chats.map(\.preview) == ["Second"])
    }

    @Test func `a reached limit is explained, and the question returns to the input field`() async {
        let body = #"{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_in_seconds":7200}}"#
        let model = model(client { .response(status: .tooManyRequests, body: body) })
        await ask(model, "Hi")
        #expect(model.problem?.contains("limit") == true && !model.isAnswering)
        #expect(model.messages.isEmpty && model.draft == "Hi")
    }

    @Test func `the part of an answer that arrived before the user stopped it is kept`() async {
        let gate = ScriptedGate()
        let delta = #"data: {"type":"response.output_text.delta","item_id":"m","delta":"Once upon"}"# + "\n\n"
        let model = model(
            client {
                ScriptedHTTPAnswer(
                    headerFields: [.contentType: "text/event-stream"],
                    body: [.chunk(Array(delta.utf8)), .wait(until: gate)])
            })
        model.draft = "Tell a story"
        model.send()
        while model.messages.count < 2 { await Task.yield() }
        #expect(model.isAnswering && model.send() == nil)
        await model.stop()
        #expect(texts(model) == ["Tell a story", "Once upon"])
        #expect(!model.isAnswering && model.problem == nil && model.draft.isEmpty)
    }

    @Test func `nothing of a user who signs out is shown`() async {
        let model = model(.answering("Hello!"))
        await ask(model, "Hi")
        model.draft = "And"
        await model.close()
        #expect(model.messages.isEmpty && model.chats.isEmpty && model.draft.isEmpty && model.problem == nil)
    }
}
