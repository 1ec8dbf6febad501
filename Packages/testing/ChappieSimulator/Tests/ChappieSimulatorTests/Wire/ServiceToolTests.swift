import ChappieCore
import ChappieSimulatorServer
import FoundationEssentials
import Testing

@testable import ChappieSimulator

@Suite(.timeLimit(.minutes(3)))
struct ServiceToolTests {
    private static let searchPath = "codex/alpha/search"
    private static let json = "content-type: application/json"

    private static func search(_ commands: ChappieJSON, id: String = "thread-1") -> ChappieJSON {
        let content: ChappieJSON = [["type": "input_text", "text": "what is new?"]]
        return [
            "id": .string(id), "model": "gpt-6.1-sol",
            "input": [["type": "message", "role": "user", "content": content]], "commands": commands,
            "settings": ["allowed_callers": ["direct"], "external_web_access": true], "max_output_tokens": 10_000,
        ]
    }

    private static func image(_ more: [(String, ChappieJSON)] = []) -> ChappieJSON {
        let usual: ChappieJSONObject = [
            "prompt": "a red fox", "model": "gpt-image-2", "background": "opaque", "quality": "auto", "size": "auto",
        ]
        return .object(ChappieJSONObject(usual.members.map { ($0.name, $0.value) } + more))
    }

    /// The width and the height in the header of a PNG.
    private static func size(of picture: Data) -> [Int] {
        [16, 20].map { start in picture[start..<(start + 4)].reduce(0) { $0 << 8 | Int($1) } }
    }

    @Test func `a search finds pages, whose references are valid with the same id only`() async throws {
        try await Simulator.during { simulator in
            func ask(_ body: ChappieJSON) throws -> Curl {
                try simulator.authorized("POST", Self.searchPath, headers: [Self.json], json: body)
            }
            let query: ChappieJSON = ["q": "swift 6.4", "domains": ["swift.org"]]
            let found = try ask(Self.search(["search_query": [query], "response_length": "short"])).json
            let result: ChappieJSON = [
                "type": "text_result", "ref_id": "turn0search0", "title": "swift 6.4, page 1",
                "url": "https://swift.org/swift-6-4/1", "domain": "swift.org",
                "snippet": "What swift.org says about swift 6.4.",
            ]
            #expect(found["results"] == [result])
            #expect(found["output"]?.string?.contains("https://swift.org/swift-6-4/1") == true)
            let open: ChappieJSON = ["open": [["ref_id": "turn0search0", "lineno": 2]]]
            let page = try ask(Self.search(open)).json
            #expect(page["results"] == nil)
            #expect(page["output"]?.string?.hasPrefix("turn1view0: https://swift.org/swift-6-4/1\nL2: ") == true)
            let other = try ask(Self.search(open, id: "thread-2")).json
            #expect(other["output"] == "Found no tool response for turn0search0")
            let unknown = try ask(Self.search(["fly": [["to": "the moon"]]])).json
            #expect(unknown["output"] == "Error parsing function call: unknown command fly")
        }
    }

    @Test func `a wrong search is refused by its member`() async throws {
        try await Simulator.during { simulator in
            let query: ChappieJSON = ["q": "a"]
            let wrong: [(String, ChappieJSON?, String)] = [
                ("id", nil, "id"), ("model", "", "model"), ("input", [], "input"), ("commands", [:], "commands"),
                ("stream", true, "stream"), ("input", [["type": "function_call"]], "input[0]"),
                ("settings", ["external_web_access": "live"], "settings.external_web_access"),
                ("commands", ["search_query": [query, query, query, query, query]], "commands.search_query"),
                (
                    "commands", ["search_query": [query, query, query, query], "response_length": "short"],
                    "commands.response_length"
                ),
            ]
            for (name, value, parameter) in wrong {
                var body = try #require(Self.search(["search_query": [query]]).object)
                body[name] = value
                let answer = try simulator.authorized(
                    "POST", Self.searchPath, headers: [Self.json], json: .object(body))
                #expect(answer.status == 400)
                #expect(answer.json["error"]?["param"]?.string == parameter)
            }
        }
    }

    @Test func `a picture is a PNG, and an edit has another shape`() async throws {
        try await Simulator.during { simulator in
            func picture(_ path: String, _ body: ChappieJSON) throws -> Data {
                let answer = try simulator.authorized("POST", "codex/images/\(path)", headers: [Self.json], json: body)
                #expect(answer.status == 200)
                return try #require(
                    answer.json["data"]?[0]?["b64_json"]?.string.flatMap { Data(base64Encoded: $0) })
            }
            let made = try picture("generations", Self.image())
            #expect(Self.size(of: made) == [48, 32])
            #expect(try picture("generations", Self.image()) == made)
            #expect(try picture("generations", Self.image([("prompt", "a blue fox")])) != made)
            let source: ChappieJSON = ["image_url": .string("data:image/png;base64,\(made.base64EncodedString())")]
            #expect(try Self.size(of: picture("edits", Self.image([("images", [source])]))) == [32, 48])
            let wrong: [(String, [(String, ChappieJSON)], String)] = [
                ("generations", [("prompt", "")], "prompt"), ("generations", [("model", "gpt-5.5")], "model"),
                ("generations", [("size", "big")], "size"), ("generations", [("quality", "best")], "quality"),
                ("generations", [("images", [source])], "images"), ("edits", [], "images"),
                ("edits", [("images", .array(Array(repeating: source, count: 6)))], "images"),
                ("edits", [("images", [["image_url": "https://example.com/a.png"]])], "images[0].image_url"),
            ]
            for (path, more, parameter) in wrong {
                let answer = try simulator.authorized(
                    "POST", "codex/images/\(path)", headers: [Self.json], json: Self.image(more))
                #expect(answer.status == 400)
                #expect(answer.json["error"]?["param"]?.string == parameter)
            }
        }
    }

    @Test func `a large picture has the size that the scenario names`() async throws {
        try await Simulator.during(named: "image-large") { simulator in
            let answer = try simulator.authorized(
                "POST", "codex/images/generations", headers: [Self.json], json: Self.image(), options: ["--compressed"])
            #expect(answer.body.count > 26_214_400 / 3 * 4)
        }
    }

    @Test func `a credit is redeemed at most once for each request`() async throws {
        try await Simulator.during(named: "credits") { simulator in
            let path = "wham/rate-limit-reset-credits"
            func redeem(_ id: String, _ credit: String? = nil) throws -> ChappieJSON {
                var body: ChappieJSONObject = ["redeem_request_id": .string(id)]
                body["credit_id"] = credit.map(ChappieJSON.string)
                let answer = try simulator.authorized(
                    "POST", path + "/consume", headers: [Self.json], json: .object(body))
                return answer.json["code"] ?? .integer(answer.status)
            }
            let first = "00000000-0000-4000-8000-000000000001"
            let second = "00000000-0000-4000-8000-000000000002"
            #expect(try simulator.authorized("GET", path).json["available_count"] == 2)
            #expect(try redeem("not a UUID") == 400)
            #expect(try redeem(first, "credit_3") == "no_credit")
            #expect(try redeem(first, "credit_2") == "reset")
            #expect(try redeem(first, "credit_2") == "already_redeemed")
            #expect(try redeem(second, "credit_2") == "no_credit")
            #expect(try redeem(second) == "nothing_to_reset")
            let credits = try simulator.authorized("GET", path).json
            #expect(credits["available_count"] == 1)
            #expect(credits["credits"]?[1]?["status"] == "redeemed")
            let usage = try simulator.authorized("GET", "wham/usage").json
            #expect(usage["rate_limit"]?["primary_window"]?["used_percent"] == 0)
        }
    }

    @Test func `the model calls the tools by which a client searches and makes pictures`() throws {
        func tool(_ name: String) -> ChappieJSON {
            ["type": "function", "name": .string(name), "strict": false, "parameters": ["type": "object"]]
        }
        func calls(_ text: String, _ tools: [ChappieJSON], outputs: [ChappieJSON] = []) -> [ReplyOutput] {
            let message: ChappieJSON = ["role": "user", "content": .string(text)]
            return EchoModel.reply(
                to: Prompt([
                    "model": "gpt-5.5", "tools": .array(tools), "input": .array([message] + outputs),
                    "reasoning": ["effort": "none"],
                ]))
        }
        func call(_ name: String, _ namespace: String?, _ payload: String) -> ReplyOutput {
            .call(.init(kind: .function, name: name, namespace: namespace, payload: payload))
        }
        let query = #"{"search_query":[{"q":"swift"}]}"#
        let web: ChappieJSON = ["type": "namespace", "name": "web", "tools": [tool("run")]]
        #expect(calls("search: swift", [tool("web_search")]) == [call("web_search", nil, query)])
        #expect(calls("search: swift", [web]) == [call("run", "web", query)])
        #expect(calls("call web.run {}", [web]) == [call("run", "web", "{}")])
        #expect(
            calls("draw: a fox", [tool("image_generation")])
                == [call("image_generation", nil, #"{"prompt":"a fox"}"#)])
        let exec: ChappieJSON = ["type": "custom", "name": "exec"]
        let program = "const r = await tools.web__run(\(query)); text(r);\n"
        #expect(
            calls("search: swift", [exec])
                == [.call(.init(kind: .custom, name: "exec", namespace: nil, payload: program))])
        let output: ChappieJSON = ["type": "function_call_output", "call_id": "1", "output": "found"]
        #expect(
            calls("search: swift\nreply: it is new", [tool("web_search")], outputs: [output])
                == [.message(pieces: TextPieces.split("it is new"))])
    }
}
