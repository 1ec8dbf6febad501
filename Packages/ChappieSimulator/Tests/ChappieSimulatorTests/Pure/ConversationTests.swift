import ChappieCore
import Testing

@testable import ChappieSimulator

struct ConversationTests {
    private func item(_ text: String) -> ChappieJSON { ["role": "user", "content": .string(text)] }

    @Test func remembersWhatTheLastResponseAnsweredAndSaid() {
        var conversation = WebSocketConversation()
        #expect(conversation.lastResponseID == nil)
        conversation.remember(
            response: "resp_1", input: [item("a")], output: [item("b")], byteCount: 10, continues: false)
        #expect(conversation.lastResponseID == "resp_1")
        #expect(conversation.items == [item("a"), item("b")])
    }

    @Test func forgetsWhatIsOverItsMemory() {
        var conversation = WebSocketConversation()
        let half = WebSocketConversation.memoryLimit / 2
        conversation.remember(response: "resp_1", input: [item("a")], output: [], byteCount: half, continues: false)
        conversation.remember(response: "resp_2", input: [item("a")], output: [], byteCount: half, continues: false)
        #expect(conversation.lastResponseID == "resp_2")
        conversation.remember(response: "resp_3", input: [item("a")], output: [], byteCount: half, continues: true)
        #expect(conversation.lastResponseID == "resp_3")
        conversation.remember(response: "resp_4", input: [item("a")], output: [], byteCount: 1, continues: true)
        #expect(conversation.lastResponseID == nil)
        #expect(conversation.items.isEmpty)
    }
}
