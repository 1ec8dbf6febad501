import ChappieAuth
import ChappieClient
import ChappieCore
import HTTPTypes
import Synchronization

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The client's own work for a tool call, between two requests over a kept WebSocket that is in memory: no network, and a
/// tool that answers at once.
enum ToolRounds {
    private static let turns = 200

    /// Prints the time from the end of an answer that calls a tool to the next request, early in a conversation and late, and
    /// what such turns cost beside as many requests without a tool.
    static func measure() async throws {
        _ = try await conversation(withTools: true)
        // The least of some, so that a neighbour's noise counts least.
        var (rounds, toolCPU, plainCPU) = ([[Interval]](), [Double](), [Double]())
        for _ in 0..<3 {
            let begin = Interval.now
            rounds.append(try await conversation(withTools: true))
            let middle = Interval.now
            _ = try await conversation(withTools: false)
            toolCPU.append((middle - begin).cpu / Double(turns))
            plainCPU.append((Interval.now - middle).cpu / Double(turns))
        }
        for (name, range) in [("turns 10 to 30", 10..<30), ("turns 180 to 200", 180..<200)] {
            let wall = rounds.map { median($0[range].map(\.wall)) }.min() ?? 0
            let cpu = rounds.map { median($0[range].map(\.cpu)) }.min() ?? 0
            print(#"{"measure": "tool round, \#(name)", "wall_ms": \#(rounded(wall)), "cpu_ms": \#(rounded(cpu))}"#)
        }
        let (tool, plain) = (toolCPU.min() ?? 0, plainCPU.min() ?? 0)
        print(
            #"{"measure": "turn with a tool call", "cpu_ms": \#(rounded(tool)), "plain_cpu_ms": \#(rounded(plain)), "#
                + #""ratio": \#(rounded(tool / plain))}"#)
    }

    /// A conversation of 200 turns with a tool call each, or of twice as many without: the same number of requests.
    ///
    /// - Returns: for each round of tools, what passed from the end of the answer to the next request.
    private static func conversation(withTools: Bool) async throws -> [Interval] {
        let backend = MemoryBackend()
        let client = ChappieClient(
            transport: backend, webSocket: backend,
            credentials: CredentialManager(
                slot: CredentialSlot(), store: LocalCredentialStore(backend, lock: NoCredentialLock()),
                transport: backend),
            tools: (0..<8).map(tool))
        for _ in 0..<turns {
            if withTools {
                backend.script(.call, .message)
                _ = try await client.send("What is the weather in Graz?")
            } else {
                for _ in 0..<2 {
                    backend.script(.message)
                    _ = try await client.send("What is the weather in Graz?")
                }
            }
        }
        return backend.rounds
    }

    /// As large as tools usually are; the model calls the last one.
    private static func tool(_ number: Int) -> ChappieHostTool {
        ChappieHostTool(
            name: "weather\(number)", description: "The weather in a town, now or on one of the next days.",
            inputSchema: [
                "type": "object",
                "properties": [
                    "town": ["type": "string", "minLength": 1, "description": "The town's name."],
                    "day": ["type": "integer", "minimum": 0, "maximum": 7, "description": "Days from today."],
                    "unit": ["type": "string", "enum": ["celsius", "fahrenheit"]],
                    "place": [
                        "type": "object",
                        "properties": [
                            "latitude": ["type": "number", "minimum": -90, "maximum": 90],
                            "longitude": ["type": "number", "minimum": -180, "maximum": 180],
                        ],
                        "required": ["latitude", "longitude"], "additionalProperties": false,
                    ],
                    "fields": [
                        "type": "array", "items": ["type": "string", "pattern": "^[a-z_]{1,32}$"], "maxItems": 16,
                    ],
                ],
                "required": ["town", "unit"], "additionalProperties": false,
            ]
        ) { _ in "Sunny, 24 °C." }
    }
}

/// A backend with one user, whose answers are there as soon as they are asked for.
private final class MemoryBackend: HTTPTransport, WebSocketTransport, WebSocketConnection, CredentialStore {
    enum Answer: Sendable { case call, message }

    private struct State {
        var script: [Answer] = []
        var number = 0
        var waiting: [WebSocketMessage] = []
        var isCall = false
        /// When the last answer was taken, if it was a call.
        var calledAt: Interval?
        var rounds: [Interval] = []
    }

    private let state = Mutex(State())

    /// What comes next.
    func script(_ answers: Answer...) { state.withLock { $0.script = answers } }

    var rounds: [Interval] { state.withLock(\.rounds) }

    // MARK: WebSocket

    var isOpen: Bool { true }

    func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        .opened(self, headerFields: [:])
    }

    func send(_ message: WebSocketMessage) async throws {
        let now = Interval.now
        state.withLock { state in
            if let calledAt = state.calledAt { state.rounds.append(now - calledAt) }
            state.calledAt = nil
            state.number += 1
            guard !state.script.isEmpty else { preconditionFailure("a request that was not expected") }
            let answer = state.script.removeFirst()
            state.isCall = answer == .call
            state.waiting = Self.events(answer, state.number).map { .text($0.serialized()) }
        }
    }

    func receive(within deadline: Duration?) async throws -> WebSocketInbound {
        try state.withLock { state in
            guard !state.waiting.isEmpty else {
                throw ChappieTransportError(.timedOut, stage: .message, host: "memory", reason: "nothing was asked")
            }
            defer { state.waiting = [] }
            if state.isCall { state.calledAt = .now }
            return .messages(state.waiting)
        }
    }

    func ping(within allowance: Duration) {}
    func pong() async throws {}
    func close(_ closure: WebSocketCloseReason) async {}
    func cancel() {}

    private static func events(_ answer: Answer, _ number: Int) -> [ChappieJSON] {
        let id: ChappieJSON = .string("resp_\(number)")
        let call: ChappieJSON = [
            "id": .string("fc_\(number)"), "type": "function_call", "status": "completed", "name": "weather7",
            "call_id": .string("call_\(number)"),
            "arguments":
                #"{"town":"Graz","unit":"celsius","place":{"latitude":47.07,"longitude":15.44},"fields":["wind"]}"#,
        ]
        let text: ChappieJSON = "It is sunny in Graz, with 24 °C and no wind to speak of."
        let message: ChappieJSON = [
            "id": .string("msg_\(number)"), "type": "message", "role": "assistant", "status": "completed",
            "content": [["type": "output_text", "text": text]],
        ]
        let words: [ChappieJSON] = answer == .call ? [] : [["type": "response.output_text.delta", "delta": text]]
        return [["type": "response.created", "response": ["id": id]]] + words + [
            ["type": "response.output_item.done", "output_index": 0, "item": answer == .call ? call : message],
            [
                "type": "response.completed",
                "response": [
                    "id": id, "status": "completed",
                    "usage": ["input_tokens": 100, "output_tokens": 20, "total_tokens": 120],
                ],
            ],
        ]
    }

    // MARK: What a client needs beside

    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        HTTPExchangeResponse(status: .notFound)
    }

    private static let document = """
        {"version":1,"tokens":{"access_token":"opaque","refresh_token":"rt","account_id":"account"},\
        "last_refresh":"\(Date().ISO8601Format())"}
        """

    func load(_ slot: CredentialSlot) -> Secret? { Secret(Self.document) }
    func save(_ secret: Secret, in slot: CredentialSlot) {}
    func delete(_ slot: CredentialSlot) {}
}
