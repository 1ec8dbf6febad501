import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Testing

/// A picture is stored once in a thread, and every reader gets the complete items.
@Suite(.timeLimit(.minutes(1))) struct StoredPictureTests {
    private let store = ChappieInMemoryThreadStore()
    private static let digits = String(repeating: "QUJD", count: 100)
    private static let url = "data:image/png;base64,\(digits)"
    private static let picture: ChappieJSON = ["type": "input_image", "image_url": .string(url)]
    private static let tool = ChappieHostTool(name: "draw", description: "Draws.") { call in
        ChappieToolResult(output: call.arguments, parts: [picture, ["type": "input_text", "text": "Picture 1."]])
    }

    /// Returns the only thread, as another process reads it.
    private func kept() async throws -> ChappieThread {
        let id = try #require(store.summaries().first?.id)
        let thread = try ChappieThread(id: id, records: store.records(of: id, from: 0))
        #expect(try ChappieThread(json: thread.json) == thread)
        return thread
    }

    /// Returns the number of times that the stored records contain the picture.
    private func copies(in thread: ChappieThread) -> Int {
        thread.records.map { $0.body.serialized().ranges(of: Self.digits).count }.reduce(0, +)
    }

    private func pictures(in items: [ChappieJSON]) -> [ChappieJSON] {
        let parts = items.flatMap { item -> [ChappieJSON] in
            item["output"]?.array ?? item["content"]?.array ?? []
        }
        return parts.filter { $0["type"]?.string == "input_image" }
    }

    @Test(arguments: [1, 2]) func `a tool's picture is in the record of its result alone`(rounds: Int) async throws {
        let calls = (1...rounds).map { Model.Answer.calls([("draw", "{\"n\":\($0)}")]) }
        let model = Model(calls + [.text("done"), .text("next")])
        let client = model.client(tools: [Self.tool])
        let runtime = client.runtime(store: store)
        #expect(try await runtime.send("draw") == "done")
        let thread = try await kept()
        #expect(await runtime.currentThread == thread)
        #expect(copies(in: thread) == rounds)
        #expect(pictures(in: thread.turns[0].items) == Array(repeating: Self.picture, count: rounds))
        #expect(await client.context().items == thread.context.items)
        #expect(!thread.records.contains { $0.searchableText?.contains(Self.digits) == true })
        #expect(thread.records.contains { $0.searchableText?.contains("Picture 1.") == true })
        // The prompt has the same bytes in another process.
        let other = model.client(tools: [Self.tool]).runtime(store: store)
        try await other.openThread(thread.id)
        #expect(try await other.send("and?") == "next")
        let inputs = model.inputs
        #expect(inputs[rounds + 1].starts(with: inputs[rounds]))
        #expect(copies(in: try await kept()) == rounds)
    }

    @Test func `a picture of a turn that failed is stored once when the turn is included`() async throws {
        let model = Model(.calls([("draw", "{}")]), .failure(400), .text("two"))
        let runtime = model.client(tools: [Self.tool]).runtime(store: store)
        await #expect(throws: ChappieClientError.self) { try await runtime.send("draw") }
        #expect(try await runtime.send("second") == "two")
        let thread = try await kept()
        #expect(copies(in: thread) == 1)
        #expect(pictures(in: thread.context.items) == [Self.picture])
    }

    @Test func `a picture in a message to a running turn is stored once`() async throws {
        let gate = ScriptedGate()
        let model = Model(.waiting(gate, "first"), .text("second"))
        let runtime = model.client().runtime(store: store)
        let handle = runtime.startStream(.user("one"))
        await gate.reached()
        let image = ChappieImage(source: .url(Self.url))
        #expect(try await runtime.steer(.user("like this", images: [image])))
        gate.open()
        _ = try await handle.response()
        let thread = try await kept()
        #expect(copies(in: thread) == 1)
        #expect(thread.turns[0].steeringMessages.map(\.text) == ["like this"])
        #expect(pictures(in: thread.context.items).count == 1)
        #expect(thread.turns[0].exchanges.map(\.answer) == ["first", "second"])
    }

    @Test func `a turn has the pictures and pages of the service's tools`() throws {
        let digits =
            "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"
        let part: ChappieJSON = ["type": "input_image", "image_url": .string("data:image/png;base64,\(digits)")]
        let items: ChappieJSON = [
            ["type": "function_call", "name": "image_generation", "call_id": "a", "arguments": "{}"],
            ["type": "function_call_output", "call_id": "a", "output": [part]],
            ["type": "function_call", "name": "web_search", "call_id": "b", "arguments": "{}"],
            [
                "type": "function_call_output", "call_id": "b", "output": "found",
                "sources": [["url": "https://a.example/", "title": "A"], ["url": "file:///etc/passwd"]],
            ], ["type": "image_generation_call", "id": "ig_1", "result": .string(digits)],
            ["type": "image_generation_call", "id": "ig_2", "result": "PHNjcmlwdD4="],
        ]
        let bodies: [(ChappieThreadRecord.Kind, ChappieJSON)] = [
            (.turnStarted, ["turn": "t", "messages": []]), (.turnFinished, ["turn": "t", "from": 0, "items": items]),
        ]
        let records = bodies.enumerated().map { index, body in
            ChappieThreadRecord(position: index, kind: body.0, date: Date(timeIntervalSince1970: 0), body: body.1)
        }
        let turn = try #require(try ChappieThread(id: "t", records: records).turns.first)
        #expect(turn.images.map(\.width) == [10, 10])
        #expect(turn.sources == [ChappieSource(url: "https://a.example/", title: "A")])
    }

    @Test func `records of an earlier version and damaged ones are read`() throws {
        let call: ChappieJSON = ["name": "draw", "callID": "c", "arguments": "{}", "isCustom": false]
        func output(_ url: ChappieJSON) -> ChappieJSON {
            [
                "type": "function_call_output", "call_id": "c",
                "output": [["type": "input_image", "image_url": url, "detail": "high"]],
            ]
        }
        func items(_ item: ChappieJSON, hasResult: Bool = true) throws -> [ChappieJSON] {
            let result: ChappieJSON = ["output": "", "parts": [Self.picture], "isError": false]
            let bodies: [(ChappieThreadRecord.Kind, ChappieJSON)] = [
                (.turnStarted, ["turn": "t", "messages": []]),
                (.toolsCalled, ["turn": "t", "from": 0, "items": [], "calls": [call]]),
                (.toolFinished, ["turn": "t", "result": ["call": call, "outcome": "succeeded", "result": result]]),
                (.turnFinished, ["turn": "t", "from": 0, "items": [item]]),
            ]
            let records = bodies.filter { hasResult || $0.0 != .toolFinished }.enumerated().map { index, body in
                ChappieThreadRecord(position: index, kind: body.0, date: Date(timeIntervalSince1970: 0), body: body.1)
            }
            return try ChappieThread(id: "t", records: records).turns[0].items
        }
        let full = output(.string(Self.url))
        #expect(try items(full) == [full] && items(output(0)) == [full])
        let missing = "(A picture was here. Its record is missing.)"
        for found in [try items(output(7)), try items(output(0), hasResult: false)] {
            #expect(found[0]["output"]?[0]?["text"]?.string == missing)
        }
        #expect(try items(3)[0]["content"]?[0]?["text"]?.string == "(A message was here. Its record is missing.)")
    }
}
