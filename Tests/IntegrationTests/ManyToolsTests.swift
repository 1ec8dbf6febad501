import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import Synchronization
import Testing

/// A client with more tools than a request declares, and the simulator.
@Suite(.timeLimit(.minutes(2))) struct ManyToolsTests {
    private struct Server: ChappieToolProvider {
        func tools() async throws -> [ChappieHostTool] {
            (0..<120).map { number in
                ChappieHostTool(
                    name: "task_\(number)",
                    description: "Does task \(number) of \(number % 2 == 0 ? "mail" : "files").",
                    inputSchema: ["type": "object", "properties": ["text": ["type": "string"]]], policy: .automatic,
                    namespace: "office"
                ) { call in "ran \(call.name)" }
            }
        }
    }

    @Test(arguments: [false, true])
    func `the model finds a tool, calls it, and calls one that no search has found`(usesWebSocket: Bool) async throws {
        let simulator = try InMemorySimulator(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
        let client = try await simulator.client(
            usesWebSocket ? .default : .httpSSEOnly, toolProviders: [Server()])
        #expect(try await client.send("find: task 42 of mail").hasPrefix("I found: `office.task_42`"))
        #expect(try await client.send("find: task 7\ncall task_7 {}").contains("ran task_7"))
        #expect(try await client.send("force call office.task_99 {}").contains("ran task_99"))
        #expect(try await client.send(#"find: {"query": []}"#) == "I found no tool.")
        #expect(try await client.send("reply: the end") == "the end")
        // Every request after the first one, which a prewarm may precede, continues the connection's conversation.
        let chained = simulator.webSocket.peers.flatMap(\.sentMessages).count { message in
            if case .text(let text) = message { text.contains("previous_response_id") } else { false }
        }
        #expect(chained >= (usesWebSocket ? 9 : 0))
        #expect(simulator.webSocket.peers.count == (usesWebSocket ? 1 : 0))
    }
}
