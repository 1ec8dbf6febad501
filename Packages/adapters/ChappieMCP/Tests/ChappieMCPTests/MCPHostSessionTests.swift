@_spi(ChappieInternals) import ChappieCore
import Testing

@testable @_spi(ChappieInternals) import ChappieMCP

/// The server's side, line by line.
struct MCPHostSessionTests {
    private let tool: ChappieJSON = ["name": "ask", "inputSchema": ["type": "object"]]
    private let stated: ChappieJSON = ["io.modelcontextprotocol/protocolVersion": "2026-07-28"]

    private func session() -> MCPHostSession { MCPHostSession(name: "s", instructions: "For tests.", tools: [tool]) }

    private func line(_ method: String, _ id: ChappieJSON? = nil, _ parameters: ChappieJSON? = nil) -> [UInt8] {
        var message: ChappieJSONObject = ["jsonrpc": "2.0", "method": .string(method)]
        message["id"] = id
        message["params"] = parameters
        return ChappieJSON.object(message).serializedBytes()
    }

    private func call(_ number: Int, _ id: ChappieJSON, _ arguments: ChappieJSON = [:]) -> MCPHostSession.Call {
        .init(number: number, id: id, tool: "ask", arguments: arguments)
    }

    private func started(_ actions: [MCPHostSession.Action]) throws -> MCPHostSession.Call {
        try #require(actions.lazy.compactMap { if case .call(let call) = $0 { call } else { nil } }.first)
    }

    private func answer(_ actions: [MCPHostSession.Action]) throws -> ChappieJSON {
        guard actions.count == 1, case .send(let message) = actions[0] else {
            Issue.record("\(actions)")
            return .null
        }
        return message
    }

    @Test(arguments: [("2025-11-25", "2025-11-25"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")])
    func `a handshake uses the client's version if it is known`(_ asked: String, _ expected: String) throws {
        var session = session()
        let welcome = try answer(session.received(line("initialize", 1, ["protocolVersion": .string(asked)])))
        #expect(welcome["result"]?["protocolVersion"]?.string == expected && welcome["id"] == 1)
        #expect(session.received(line("notifications/initialized")).isEmpty)
        let list = try answer(session.received(line("tools/list", "two")))
        #expect(list == ["jsonrpc": "2.0", "id": "two", "result": ["tools": [tool]]])
    }

    @Test func aStatedRequestGetsAStatedResult() throws {
        var session = session()
        let found = try answer(session.received(line("server/discover", 1, ["_meta": stated])))
        #expect(found["result"]?["supportedVersions"] == ["2026-07-28"] && found["result"]?["resultType"] == "complete")
        let list = try answer(session.received(line("tools/list", 2, ["_meta": stated])))
        #expect(list["result"]?["ttlMs"] == 0 && list["result"]?["tools"] == [tool])
        // There is no handshake in that revision.
        let refused = try answer(session.received(line("initialize", 3, ["_meta": stated])))
        #expect(refused["error"]?["code"] == -32601)
    }

    @Test func `a call runs once and is answered in its own form`() throws {
        var session = session()
        let parameters: ChappieJSON = ["name": "ask", "arguments": ["question": "q"]]
        #expect(
            session.received(line("tools/call", 1, parameters)) == [
                .call(call(1, 1, ["question": "q"]))
            ])
        #expect(try answer(session.received(line("tools/call", 1, parameters)))["error"]?["code"] == -32600)
        #expect(
            session.finish(call(1, 1), with: .success([.text("a")])) == [
                "jsonrpc": "2.0", "id": 1,
                "result": ["content": [["type": "text", "text": "a"]], "isError": false],
            ])
        #expect(session.finish(call(1, 1), with: .success([.text("a")])) == nil)
        _ = session.received(line("tools/call", 2, ["name": "ask", "_meta": stated]))
        let failed = session.finish(call(2, 2), with: .failure(MCPCallFailure("It is late.")))
        #expect(failed?["result"]?["isError"] == true && failed?["result"]?["resultType"] == "complete")
        #expect(try answer(session.received(line("tools/call", 3, ["name": "rm"])))["error"]?["code"] == -32602)
    }

    @Test func aCallThatIsCancelledHasNoAnswer() {
        var session = session()
        _ = session.received(line("tools/call", 1, ["name": "ask"]))
        #expect(session.received(line("notifications/cancelled", nil, ["requestId": 1])) == [.cancel(1)])
        #expect(session.received(line("notifications/cancelled", nil, ["requestId": 1])).isEmpty)
        #expect(session.finish(call(1, 1), with: .success([.text("late")])) == nil)
    }

    @Test func `an id that is used again after a cancellation belongs to the new call`() {
        var session = session()
        _ = session.received(line("tools/call", 1, ["name": "ask"]))
        #expect(session.received(line("notifications/cancelled", nil, ["requestId": 1])) == [.cancel(1)])
        #expect(session.received(line("tools/call", 1, ["name": "ask"])) == [.call(call(2, 1))])
        #expect(session.finish(call(1, 1), with: .failure(MCPCallFailure("Interrupted."))) == nil)
        #expect(session.finish(call(2, 1), with: .success([.text("a")])) != nil)
    }

    @Test(arguments: [nil, 1.5, true, ["a"]] as [ChappieJSON])
    func `a request with an id that is neither text nor a number is refused`(id: ChappieJSON) throws {
        var session = session()
        let refused = try answer(session.received(line("tools/call", id, ["name": "ask"])))
        #expect(refused["error"]?["code"] == -32600 && refused["id"]?.isNull == true)
    }

    @Test func `progress is reported under the client's token while the call is under way`() throws {
        var session = session()
        let parameters: ChappieJSON = ["name": "ask", "_meta": ["progressToken": "p"]]
        let call = try started(session.received(line("tools/call", 1, parameters)))
        let report = session.report(3, "Drawing…", of: call)
        #expect(report?["method"] == "notifications/progress" && report?["id"] == nil)
        #expect(report?["params"] == ["progressToken": "p", "progress": 3, "message": "Drawing…"])
        let done = session.finish(call, with: .success([.image(bytes: [1, 2, 3], mediaType: "image/png")]))
        let content: ChappieJSON = [["type": "image", "data": "AQID", "mimeType": "image/png"]]
        #expect(done?["result"]?["content"] == content)
        #expect(session.report(4, "Drawing…", of: call) == nil)
        let silent = try started(session.received(line("tools/call", 2, ["name": "ask"])))
        #expect(session.report(1, "Drawing…", of: silent) == nil)
    }

    @Test func callsAreBounded() throws {
        var session = session()
        for number in 0..<MCPHostSession.callLimit {
            _ = session.received(line("tools/call", .integer(number), ["name": "ask"]))
        }
        #expect(try answer(session.received(line("tools/call", 99, ["name": "ask"])))["error"]?["code"] == -32603)
        #expect(session.finish(call(1, 0), with: .success([])) != nil)
        #expect(session.received(line("tools/call", 99, ["name": "ask"])).count == 1)
    }

    @Test(arguments: ["nonsense", "{}", "[]", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"])
    func whatIsNoMessageIsAnsweredWithAnError(text: String) throws {
        var session = session()
        #expect(try answer(session.received(Array(text.utf8)))["error"]?["code"] == -32700)
        #expect(session.received(Array(" \r".utf8)).isEmpty)
    }
}
