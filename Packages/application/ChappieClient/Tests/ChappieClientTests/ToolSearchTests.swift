import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieTesting
import FoundationEssentials
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// The tools of a server, which is asked for them at the beginning of every turn.
private final class ToolServer: ChappieToolProvider {
    private let list: Mutex<[ChappieHostTool]>
    init(_ tools: [ChappieHostTool]) { list = Mutex(tools) }
    func tools() async throws -> [ChappieHostTool] { list.withLock { $0 } }
    func goAway() { list.withLock { $0 = [] } }
}

private enum Many {
    static let schema: ChappieJSONValue = [
        "type": "object", "properties": ["text": ["type": "string"]], "required": ["text"],
    ]

    /// Tools with numbers, of which every eighth is about mail.
    static func tools(_ count: Int, policy: ChappieToolPolicy? = nil, namespace: String? = "many") -> [ChappieHostTool]
    {
        (0..<count).map { number in
            let what = number % 8 == 0 ? "mail" : "file"
            return ChappieHostTool(
                name: "tool_\(number)_\(what)", description: "Does the \(what) thing number \(number).",
                inputSchema: schema, policy: policy, namespace: namespace
            ) { call in .init(output: "ran \(call.name)") }
        }
    }

    /// 300 tools: 15 kinds of things, and 20 actions for each.
    static let all: [ChappieHostTool] = {
        let things = [
            ("gmail", "email", "in the mailbox"), ("calendar", "event", "in the calendar"),
            ("drive", "file", "in the cloud folder"), ("github", "issue", "of a repository"),
            ("slack", "message", "in a channel"), ("linear", "ticket", "of a team"), ("notion", "page", "of a wiki"),
            ("stripe", "invoice", "of a customer"), ("shop", "order", "of the store"),
            ("music", "playlist", "of songs"),
            ("maps", "route", "between two places"), ("weather", "forecast", "for a town"),
            ("zoom", "meeting", "with video"), ("crm", "contact", "of the address book"),
            ("photos", "album", "of pictures"),
        ]
        let actions = [
            "create", "read", "update", "delete", "list", "search", "share", "copy", "move", "archive", "restore",
            "rename", "export", "import", "tag", "comment", "assign", "watch", "lock", "merge",
        ]
        return things.flatMap { space, thing, place in
            actions.map { action in
                ChappieHostTool(
                    name: "\(action)_\(thing)", description: "\(action.capitalized)s one \(thing) \(place).",
                    inputSchema: [
                        "type": "object",
                        "properties": [
                            "\(thing)_id": ["type": "string", "description": "The \(thing)."],
                            "options": ["type": "object", "description": "More settings of the action."],
                        ], "required": [.string("\(thing)_id")],
                    ], namespace: space
                ) { .init(output: "ran \($0.name)") }
            }
        }
    }()

    static func search(_ tools: [ChappieHostTool] = all) -> ToolSearch {
        ToolSearch(
            tools.map { tool in
                ToolSearch.Tool(
                    key: ToolSet.Key(tool), about: "",
                    declaration: ChappieHarnessTool(
                        name: tool.name, description: tool.description, inputSchema: tool.inputSchema))
            })
    }

    static func searching(_ arguments: ChappieJSON = ["query": "mail", "limit": 2]) -> ChappieJSON {
        [
            "type": "tool_search_call", "id": "tsc_1", "call_id": "call_s", "status": "completed",
            "execution": "client", "arguments": arguments,
        ]
    }

    static func call(_ name: String, id: String = "call_1", namespace: String = "many") -> ChappieJSON {
        [
            "type": "function_call", "id": .string("fc_\(id)"), "call_id": .string(id), "status": "completed",
            "namespace": .string(namespace), "name": .string(name), "arguments": #"{"text":"x"}"#,
        ]
    }

    static func reply(_ all: [ChappieJSON], id: String) -> Reply { Reply(steps: [.events(items(all, id: id))]) }

    /// A tool about mail as a search returns it.
    static func found(_ number: Int) -> ChappieJSON {
        [
            "type": "function", "name": .string("tool_\(number)_mail"),
            "description": .string("Does the mail thing number \(number)."), "strict": false, "defer_loading": true,
            "parameters": schema,
        ]
    }

    static func names(in output: ChappieJSON?) -> [String] {
        (output?["tools"]?.array ?? []).flatMap { space in
            (space["tools"]?.array ?? []).map { "\(space["name"]?.string ?? "")/\($0["name"]?.string ?? "")" }
        }
    }

    /// The names of the tools and namespaces that a request declares, or the types of nameless ones.
    static func declared(in body: ChappieJSON?) -> [String] {
        (body?["tools"]?.array ?? []).map { $0["name"]?.string ?? $0["type"]?.string ?? "" }
    }
}

@Suite struct ToolIndexTests {
    @Test(arguments: [
        ("archive an email", "gmail/archive_email"), ("create calendar event", "calendar/create_event"),
        ("share a file from my drive", "drive/share_file"), ("comment on a GitHub issue", "github/comment_issue"),
        ("search messages in Slack", "slack/search_message"), ("assign a ticket to the team", "linear/assign_ticket"),
        ("export an invoice of a customer", "stripe/export_invoice"), ("list my playlists", "music/list_playlist"),
        ("weather forecast for a town, read", "weather/read_forecast"), ("merge two contacts", "crm/merge_contact"),
    ])
    func `among 300 tools a question finds the right one first`(question: String, tool: String) throws {
        let item = ChappieOutputItem(Many.searching(["query": .string(question)]))
        let search = Many.search()
        let output = try #require(search.outputs(for: [item]).first)
        #expect(Many.names(in: output).first == tool)
        #expect(Many.names(in: output).count == 8)
        #expect(search.outputs(for: [item]) == Many.search().outputs(for: [item]))
    }

    @Test func `names are split into words`() {
        #expect(
            ToolIndex.words(of: "mcp__many getURLs send-Mails 007 class Bäume") == [
                "mcp", "many", "get", "url", "send", "mail", "007", "class", "bäume",
            ])
        #expect(ToolIndex.words(of: "__ -- ").isEmpty)
    }

    @Test func `a rare word counts more than a common one, and a short text more than a long one`() {
        let index = ToolIndex(["send mail", "send file", "send fax", "read mail and more and more and more mail"])
        #expect(index.best(9, for: "send mail") == [0, 3, 1, 2])
        #expect(index.best(1, for: "fax send") == [2])
        #expect(index.best(9, for: "nothing fits").isEmpty && ToolIndex([]).best(9, for: "mail").isEmpty)
    }
}

/// Turns with more tools than a request declares.
@Suite struct ToolSearchTests {
    @Test(arguments: Wire.allCases)
    func `a model finds a tool and calls it, and every request of the turn continues the one before`(
        wire: Wire
    ) async throws {
        let server = ToolServer(Many.tools(120, policy: .automatic))
        let harness = ClientHarness(
            wire,
            [
                Many.reply([Many.searching()], id: "resp_1"),
                // No search has returned the second tool.
                Many.reply([Many.call("tool_0_mail"), Many.call("tool_7_file", id: "call_2")], id: "resp_2"),
                .answer("done", id: "resp_3"), .answer("more", id: "resp_4"),
            ], tools: [ChappieHostTool(name: "own") { _ in "ran" }], providers: [server],
            configure: { $0.model = "lite" })
        #expect(await harness.ask().text == "done")
        #expect(await harness.ask().text == "more")
        let requests = try harness.requests
        let first = try #require(requests.first)
        #expect(Many.declared(in: first) == ["own", "tool_search"])
        #expect(first["reasoning"]?["context"] == nil)
        #expect(first["tools"]?[1]?["execution"] == "client")
        #expect(first["tools"]?[1]?["description"]?.string?.contains("- many") == true)
        let conversation = await harness.client.context().items
        let found = [0, 8].map(Many.found)
        let space: ChappieJSON = [
            "type": "namespace", "name": "many", "description": "Tools of many.", "tools": .array(found),
        ]
        let output: ChappieJSON = [
            "type": "tool_search_output", "call_id": "call_s", "status": "completed", "execution": "client",
            "tools": [space],
        ]
        #expect(conversation[1] == Many.searching() && conversation[2] == output)
        #expect(conversation[5]["output"] == "ran tool_0_mail" && conversation[6]["output"] == "ran tool_7_file")
        let last = requests.map { $0["input"]?.array ?? [] }
        if wire == .webSocket {
            #expect(requests.map { $0["previous_response_id"]?.string } == [nil, "resp_1", "resp_2", "resp_3"])
            #expect(last[1] == [output])
            #expect(last[2].compactMap { $0["output"]?.string } == ["ran tool_0_mail", "ran tool_7_file"])
        } else {
            #expect(last[1].suffix(2) == [Many.searching(), output])
            // The replayed calls keep their namespace.
            let calls = last[3].filter { $0["type"]?.string == "function_call" }
            #expect(calls.compactMap { $0["namespace"]?.string } == ["many", "many"])
            #expect(Array(last[3].prefix(last[2].count)) == last[2])
        }
    }

    @Test(arguments: [(63, false), (64, true)])
    func `tools are deferred from 64 on`(count: Int, isDeferred: Bool) async throws {
        let harness = ClientHarness(
            .serverSentEvents, [.answer("done")], providers: [ToolServer(Many.tools(count))])
        #expect(await harness.ask().text == "done")
        #expect(Many.declared(in: try harness.requests.first) == [isDeferred ? "tool_search" : "many"])
    }

    @Test func `large tools are deferred earlier, and tools of the host and the harness never`() async throws {
        let long = String(repeating: "long ", count: 7000)
        let large = ChappieHostTool(name: "large", description: long, namespace: "many") { _ in "ran" }
        let harness = ClientHarness(
            .serverSentEvents, [.answer("done")],
            harness: ChappieHarness(name: "Test", tools: [ChappieHarnessTool(name: "given")]),
            tools: Many.tools(70, namespace: nil), providers: [ToolServer([large])])
        #expect(await harness.ask().text == "done")
        let declared = Many.declared(in: try harness.requests.first)
        #expect(declared.count == 72 && declared.first == "given" && declared.last == "tool_search")
        let small = ClientHarness(.serverSentEvents, [.answer("done")], providers: [ToolServer([large])])
        #expect(await small.ask().text == "done")
        #expect(Many.declared(in: try small.requests.first) == ["tool_search"])
    }

    @Test func `a tool that the model must call is declared`() async throws {
        let harness = ClientHarness(
            .serverSentEvents, [Many.reply([Many.call("tool_5_file")], id: "resp_1"), .answer("done", id: "resp_2")],
            providers: [ToolServer(Many.tools(100, policy: .automatic))])
        let request = ChappieResponseRequest(messages: [.user("Hi")], toolChoice: .function("tool_5_file"))
        #expect(await Seen(harness.client.streamResponse(request)).text == "done")
        let first = try #require(try harness.requests.first)
        #expect(Many.declared(in: first) == ["many", "tool_search"])
        #expect(first["tools"]?[0]?["tools"]?.array?.compactMap { $0["name"]?.string } == ["tool_5_file"])
        #expect(first["tool_choice"]?["name"] == "tool_5_file")
    }

    @Test(
        arguments: [
            ["query": ""], ["query": "  __ "], [:], ["query": ["mail"]], "mail", .null,
            ["query": .string(String(repeating: "mail ", count: 2000))],
        ] as [ChappieJSON])
    func `a bad query finds nothing, and the turn continues`(arguments: ChappieJSON) async throws {
        let harness = ClientHarness(
            .serverSentEvents,
            [Many.reply([Many.searching(arguments)], id: "resp_1"), .answer("done", id: "resp_2")],
            providers: [ToolServer(Many.tools(100))])
        #expect(await harness.ask().text == "done")
        let input = try #require(try harness.requests.last?["input"]?.array)
        let end = Array(input.suffix(2))
        #expect(end[0]["type"] == "tool_search_output" && end[0]["tools"] == [])
        #expect(end[1]["role"] == "developer")
        #expect(end[1]["content"]?[0]?["text"]?.string?.contains("found nothing. The query") == true)
    }

    @Test(arguments: [(0, 1), (-3, 1), (3, 3), (500, 32)])
    func `a search returns between 1 and 32 tools`(limit: Int, count: Int) {
        let item = ChappieOutputItem(Many.searching(["query": "thing", "limit": .integer(limit)]))
        #expect(Many.names(in: Many.search(Many.tools(100)).outputs(for: [item]).first).count == count)
    }

    @Test(arguments: Wire.allCases)
    func `a search next to a call that waits for the user is kept with the turn`(wire: Wire) async throws {
        let server = ToolServer(Many.tools(100))
        let first = ClientHarness(
            wire, [Many.reply([Many.searching(), Many.call("tool_3_file")], id: "resp_1")], providers: [server],
            approval: { request in
                #expect(request.toolDescription == "Does the file thing number 3.")
                return .deferred
            })
        guard case .approvalPending(let pending)? = await first.ask().error else {
            Issue.record("the turn did not wait")
            return
        }
        let restored = try JSONDecoder().decode(ChappiePendingTurn.self, from: JSONEncoder().encode(pending))
        let second = ClientHarness(wire, [.answer("done", id: "resp_2")], providers: [server])
        let response = try await second.client.resume(restored, decisions: ["call_1": .approved()])
        #expect(response.outputText == "done")
        let input = try #require(try second.requests.last?["input"]?.array)
        #expect(
            input.suffix(4).compactMap { $0["type"]?.string } == [
                "tool_search_call", "function_call", "tool_search_output", "function_call_output",
            ])
        #expect(input.last?["output"] == "ran tool_3_file" && input[input.count - 3]["namespace"] == "many")
    }

    @Test func `a conversation that has searched keeps its form when the server is gone`() async throws {
        let server = ToolServer(Many.tools(100, policy: .automatic))
        let harness = ClientHarness(
            .serverSentEvents,
            [
                Many.reply([Many.searching()], id: "resp_1"),
                Many.reply([Many.call("tool_0_mail")], id: "resp_2"), .answer("done", id: "resp_3"),
                Many.reply([Many.searching()], id: "resp_4"), .answer("gone", id: "resp_5"),
            ], providers: [server], configure: { $0.model = "lite" })
        #expect(await harness.ask().text == "done")
        server.goAway()
        #expect(await harness.ask().text == "gone")
        let last = try #require(try harness.requests.last)
        #expect(Many.declared(in: last) == ["tool_search"])
        let input = last["input"]?.array ?? []
        #expect(input.first { $0["type"] == "function_call" }?["namespace"] == "many")
        #expect(input.last?["type"] == "tool_search_output" && input.last?["tools"] == [])
    }

    @Test func `a search that the user interrupts is left out`() async throws {
        let response = ChappieResponse(status: .incomplete, items: [ChappieOutputItem(Many.searching())])
        #expect(Transcript.kept(of: response).isEmpty && Transcript.kept(ofInterrupted: response).isEmpty)
    }

    @Test func `the plan's route declares 128 tools and names the others`() async throws {
        let endpoints = ChappieEndpoints.continueWithChatGPT(appName: "Test")
        let harness = ClientHarness(
            .serverSentEvents, [.answer("done")], endpoints: endpoints, providers: [ToolServer(Many.tools(140))])
        let seen = await harness.ask()
        #expect(seen.text == "done")
        let tools = try #require(try harness.requests.first?["tools"]?.array)
        #expect(tools.compactMap { $0["name"]?.string } == ["many"])
        #expect(tools[0]["tools"]?.array?.count == 128)
        let notice = seen.notices.first { $0.kind == .toolsUnavailable }
        #expect(
            notice?.message
                == "This sign-in takes 128 tools at most. Left out: tool_128_mail, tool_129_file, tool_130_file, "
                + "tool_131_file, tool_132_file and 7 more.")
        let plan = RequestInput(isLite: false, namespaces: nil)
        #expect(plan.written([Many.searching(), ["type": "tool_search_output", "call_id": "call_s"]]).isEmpty)
    }

    @Test func `a request with 300 tools is small when they are deferred`() async throws {
        func size(_ providers: [ToolServer], _ tools: [ChappieHostTool]) async throws -> Int {
            let harness = ClientHarness(.serverSentEvents, [.answer("done")], tools: tools, providers: providers)
            #expect(await harness.ask().text == "done")
            return try #require(try harness.requests.first).serializedBytes().count
        }
        let deferred = try await size([ToolServer(Many.all)], [])
        let declared = try await size([], Many.all)
        #expect(deferred < 2500 && declared > 90_000, "\(deferred) and \(declared) bytes")
    }

    @Test func `the index is made once for a list of tools`() throws {
        let tools = Many.tools(100).map { tool in
            var tool = tool
            tool.isDeferrable = true
            return tool
        }
        var first = try ToolSet(harness: "", tools: tools, checked: [:])
        first.deferTools(except: nil, always: false, known: nil)
        var second = try ToolSet(harness: "", tools: tools, checked: first.declarations)
        let known = try #require(first.search)
        second.deferTools(except: nil, always: false, known: known)
        #expect(second.search?.tools == known.tools && known.tools.count == 100)
        var third = try ToolSet(harness: "", tools: Array(tools.dropLast()), checked: second.declarations)
        third.deferTools(except: nil, always: false, known: known)
        #expect(third.search?.tools.count == 99)
    }
}
