import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieSimulatorServer
import Testing

/// Long conversations with tools, compactions and answers of a given form, over real sockets against the simulator.
@Suite struct ConversationTests {
    private static let tool = ChappieHostTool(
        name: "weather", description: "The weather in a town.",
        inputSchema: [
            "type": "object", "properties": ["town": ["type": "string"]], "required": ["town"],
            "additionalProperties": false,
        ]
    ) { call in .init(output: "sun in \(call.argumentsJSON?["town"]?.string ?? "?")") }

    private static let policies = [ChappieStreamingTransportPolicy.httpSSEOnly, Tenant.webSocketOnly]

    /// The bytes between the brackets of `"input":[…]`, as they came.
    private static func input(_ body: [UInt8]) throws -> Substring {
        let text = String(decoding: body, as: UTF8.self)
        let start = try #require(text.firstRange(of: #""input":["#)?.upperBound)
        let end = try #require(text.firstRange(of: #"],"tool_choice":"#)?.lowerBound)
        return text[start..<end]
    }

    @Test func `fifty turns with tools keep their prefix byte for byte`() async throws {
        try await Loopback.run { loopback in
            let client = loopback.tenants[0].client(.httpSSEOnly, tools: [Self.tool])
            for turn in 1...50 {
                let answer = try await client.send("Turn \(turn)?\ncall weather {\"town\":\"Zürich \(turn)\"}")
                #expect(answer.contains("sun in Zürich \(turn)"))
            }
            let bodies = loopback.requests("/backend-api/codex/responses").compactMap(\.decodedBody)
            #expect(bodies.count == 100)
            var before: Substring = ""
            for body in bodies {
                let input = try Self.input(body)
                #expect(input.utf8.starts(with: before.utf8))
                #expect(input.utf8.count > before.utf8.count)
                before = input
            }
        }
    }

    @Test func `fifty turns with tools send only what is new over a WebSocket`() async throws {
        try await Loopback.run { loopback in
            let client = loopback.tenants[0].client(tools: [Self.tool])
            for turn in 10...59 {
                let answer = try await client.send("Turn \(turn)?\ncall weather {\"town\":\"Bern \(turn)\"}")
                #expect(answer.contains("sun in Bern \(turn)"))
            }
            let messages = loopback.simulator.receivedMessages
            #expect(messages.count == 100)
            let sizes = messages.dropFirst(2).map(\.body.count)
            // Every turn has a question and a result of the same length; ids count up.
            let (questions, results) = (
                stride(from: 0, to: 98, by: 2).map { sizes[$0] }, stride(from: 1, to: 98, by: 2).map { sizes[$0] }
            )
            #expect((questions.max() ?? 0) - (questions.min() ?? 0) < 20)
            #expect((results.max() ?? 0) - (results.min() ?? 0) < 20)
        }
    }

    @Test(arguments: policies) func aConversationThatIsCompactedGoesOn(
        policy: ChappieStreamingTransportPolicy
    ) async throws {
        try await Loopback.run { loopback in
            let client = loopback.tenants[0].client(policy, tools: [Self.tool])
            for round in 1...5 {
                #expect(try await client.send("reply: answer \(round)") == "answer \(round)")
                let context = try await client.compactContext()
                #expect(context.items.last?["type"]?.string == "compaction")
            }
            #expect(try await client.send("reply: the end") == "the end")
        }
    }

    private struct Town: Decodable, Sendable, ChappieJSONSchemaProviding {
        var name: String
        var people: Int
        var mayor: String?
    }

    @Test(arguments: policies) func anAnswerBecomesAValueOfTheCallersType(
        policy: ChappieStreamingTransportPolicy
    ) async throws {
        try await Loopback.run { loopback in
            let client = loopback.tenants[0].client(policy)
            let town = try await client.send("The capital of France?", as: Town.self)
            #expect(town.name == "example" && town.people == 1)
            do {
                _ = try await client.send(#"reply: {"name":"Paris","people":"many","mayor":null}"#, as: Town.self)
                Issue.record("a text was taken for a number")
            } catch ChappieClientError.invalidStructuredOutput(let violation, _) {
                #expect(violation.path == "/people")
            }
        }
    }
}
