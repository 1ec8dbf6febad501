// An agent with its own loop. The program keeps the conversation, runs the tools and decides when to stop. The client declares
// the tools and never runs one. Over a WebSocket, each request after the first one carries only what is new.
import ChappieSDK
import Playground

actor Agent {
    struct TooManyRounds: Error {}

    private let client: ChappieClient
    private var tasks: [String] = []
    /// The instructions, the tools, and the conversation so far.
    private var exchange = ChappieExchange(
        instructions: "You keep the user's list of tasks.", input: [],
        tools: [
            ChappieHarnessTool(
                name: "add_task", description: "Adds a task.",
                inputSchema: ["type": "object", "properties": ["title": ["type": "string"]], "required": ["title"]]),
            ChappieHarnessTool(name: "list_tasks", description: "Lists all tasks."),
        ])

    init(_ client: ChappieClient) { self.client = client }

    /// Opens the connection and sends what is known already, while the user types.
    func prewarm() async { await client.prewarm(exchange) }

    /// Answers a question. If that fails, the conversation is as it was before.
    func answer(_ question: String) async throws -> String {
        var next = exchange
        next.append(.user(question))
        for _ in 1...10 {
            // A program with a screen also shows `.textDelta`.
            for try await case .completed(let response) in client.stream(next) {
                next.append(response)
                for call in response.toolCalls { next.append(run(call), of: call) }
                guard response.toolCalls.isEmpty else { continue }
                exchange = next
                return response.outputText
            }
        }
        throw TooManyRounds()
    }

    /// Runs a call. The model reads what went wrong, and may try again.
    private func run(_ call: ChappieToolCall) -> ChappieToolResult {
        print("[\(call.name) \(call.arguments)]")
        switch (call.name, call.argumentsJSON?["title"]?.string) {
        case ("add_task", let title?):
            tasks.append(title)
            return "Added."
        case ("list_tasks", _): return "\(tasks.joined(separator: ", "))"
        default: return ChappieToolResult(output: "There is no such tool, or the title is missing.", isError: true)
        }
    }
}

let configuration = ChappieConfiguration(keychainService: "com.example.agent", endpoints: endpoints)
let session = await Chappie.loadedAuthSession(configuration: configuration, store: store)
if !session.state.isSignedIn {
    _ = try await session.signIn { code in print("Enter \(code.userCode) at \(code.verificationURL)") }
}
let agent = Agent(Chappie.client(configuration: configuration, store: store))
await agent.prewarm()
while let line = readLine() { print(try await agent.answer(line)) }
