import ChappieCore
import Testing

@testable import ChappieMCP

/// An input of a session, in a short form.
private enum Input {
    case start, list
    case call(String)
    case lists(MCPList)
    case reads(String)
    case giveUp(Int)
    /// Lines of the server.
    case says(String)
}

struct MCPSessionTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        fileprivate let inputs: [Input]
        /// Each action as a line; see `describe`.
        let actions: [String]

        fileprivate init(_ name: String, _ inputs: [Input], _ actions: [String]) {
            testDescription = name
            self.inputs = inputs
            self.actions = actions
        }
    }

    private static let welcome =
        #"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}"#
    private static let opened = ["→ initialize 1", "→ notifications/initialized", "1 ✓ {…}"]

    private static func over(_ failures: String..., because reason: String) -> [String] {
        failures.map { "\($0) ✗ \(reason)" } + ["over: \(reason)"]
    }

    private static let refusal =
        #"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#
    private static let discovered =
        #"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}}"#
    private static let discovering = ["→ initialize 1", "⇒ server/discover 2"]
    private static let stateless =
        discovering + [
            #"1 ✓ {"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}"#
        ]

    static let cases: [Case] = [
        Case(
            "a server without a handshake",
            [
                .start, .says(refusal), .says(discovered), .list,
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"tools":[1],"nextCursor":"x"}}"#),
                .says(#"{"jsonrpc":"2.0","id":4,"result":{"tools":[2]}}"#), .call("a"),
                .says(#"{"jsonrpc":"2.0","id":5,"result":{"content":[],"resultType":"complete"}}"#),
            ],
            stateless + [
                "⇒ tools/list 3", #"⇒ tools/list 4 {"cursor":"x"}"#, "3 ✓ [1,2]",
                #"⇒ tools/call 5 {"name":"a","arguments":{"x":1}}"#, #"5 ✓ {"content":[],"resultType":"complete"}"#,
            ]),
        Case(
            "a server that does not know the version of the handshake, and tells of changes",
            [
                .start, .says(#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}"#),
                .says(
                    #"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}"#
                ), .says(#"{"jsonrpc":"2.0","id":3,"result":{}}"#),
            ],
            discovering + [
                #"⇒ subscriptions/listen 3 {"notifications":{"toolsListChanged":true}}"#,
                #"1 ✓ {"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#,
            ]),
        Case(
            "a server of a later version",
            [
                .start, .says(refusal),
                .says(#"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2027-01-01"],"capabilities":{}}}"#),
            ],
            discovering
                + over(
                    "1", because: "handshakeFailed it speaks version 2027-01-01 of the protocol, which is not supported"
                )),
        Case(
            "a server that knows no method",
            [.start, .says(refusal), .says(#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}"#)],
            discovering
                + over(
                    "1",
                    because:
                        "handshakeFailed it takes no handshake, and does not say what it is: it refused: no (-32601)")),
        Case(
            "a discovery that is given up", [.start, .says(refusal), .giveUp(1), .says(discovered)],
            discovering + ["1 ✗ timedOut enough"]),
        Case(
            "a call that is to be made again",
            [
                .start, .says(refusal), .says(discovered), .call("a"),
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","requestState":"s"}}"#),
                .says(#"{"jsonrpc":"2.0","id":4,"result":{"content":[]}}"#),
            ],
            stateless + [
                #"⇒ tools/call 3 {"name":"a","arguments":{"x":1}}"#,
                #"⇒ tools/call 4 {"name":"a","arguments":{"x":1},"requestState":"s"}"#, #"3 ✓ {"content":[]}"#,
            ]),
        Case(
            "a call that asks the user",
            [
                .start, .says(refusal), .says(discovered), .call("a"),
                .says(
                    #"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","inputRequests":{"a":{}},"requestState":"s"}}"#
                ),
            ],
            stateless + [
                #"⇒ tools/call 3 {"name":"a","arguments":{"x":1}}"#,
                "3 ✗ refused it asks the user for input, which is not supported",
            ]),
        Case(
            "a second attempt that is given up",
            [
                .start, .says(refusal), .says(discovered), .call("a"),
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","requestState":"s"}}"#),
                .giveUp(3),
            ],
            stateless + [
                #"⇒ tools/call 3 {"name":"a","arguments":{"x":1}}"#,
                #"⇒ tools/call 4 {"name":"a","arguments":{"x":1},"requestState":"s"}"#,
                #"→ notifications/cancelled {"requestId":4,"reason":"enough"}"#, "3 ✗ timedOut enough",
            ]),
        Case(
            "a call without an end",
            [.start, .says(refusal), .says(discovered), .call("a")]
                + (3...12).map {
                    .says(
                        #"{"jsonrpc":"2.0","id":\#($0),"result":{"resultType":"input_required","requestState":"s"}}"#)
                },
            stateless + [#"⇒ tools/call 3 {"name":"a","arguments":{"x":1}}"#]
                + (4...12).map { #"⇒ tools/call \#($0) {"name":"a","arguments":{"x":1},"requestState":"s"}"# }
                + ["3 ✗ protocolViolation it asked for one request more than 10 times"]),
        Case(
            "a resource whose reading is to be tried again",
            [
                .start, .says(refusal),
                .says(
                    #"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"listChanged":true},"prompts":{"listChanged":true}}}}"#
                ),
                .reads("a:b"),
                .says(#"{"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","requestState":"s"}}"#),
                .says(#"{"jsonrpc":"2.0","id":5,"result":{"contents":[]}}"#),
            ],
            discovering + [
                #"⇒ subscriptions/listen 3 {"notifications":{"resourcesListChanged":true,"promptsListChanged":true}}"#,
                #"1 ✓ {"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"listChanged":true},"prompts":{"listChanged":true}}}"#,
                #"⇒ resources/read 4 {"uri":"a:b"}"#, #"⇒ resources/read 5 {"uri":"a:b","requestState":"s"}"#,
                #"4 ✓ {"contents":[]}"#,
            ]),
        Case(
            "lists of other things than tools",
            [
                .start,
                .says(
                    #"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{}}}}"#
                ),
                .lists(.resources), .says(#"{"jsonrpc":"2.0","id":2,"result":{"resources":[1],"nextCursor":"x"}}"#),
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"resources":[2]}}"#), .lists(.resourceTemplates),
                .says(#"{"jsonrpc":"2.0","id":4,"result":{"resourceTemplates":[3,4,5,6,7]}}"#), .lists(.prompts), .list,
            ],
            opened + [
                "→ resources/list 2", #"→ resources/list 3 {"cursor":"x"}"#, "2 ✓ [1,2]",
                "→ resources/templates/list 4",
                "4 ✗ protocolViolation it lists more than 4 templates of resources", "5 ✓ []", "6 ✓ []",
            ]),
        Case("a handshake", [.start, .says(welcome)], opened),
        Case(
            "an older version is as good",
            [.start, .says(#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}"#)],
            opened),
        Case(
            "a version that is not known",
            [.start, .says(#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{}}}"#)],
            ["→ initialize 1"]
                + over(
                    "1", because: "handshakeFailed it speaks version 1999-01-01 of the protocol, which is not supported"
                )),
        Case(
            "no version",
            [.start, .says(#"{"jsonrpc":"2.0","id":1,"result":{}}"#)],
            ["→ initialize 1"]
                + over(
                    "1", because: "handshakeFailed it speaks version unknown of the protocol, which is not supported")),
        Case(
            "a handshake that is refused",
            [.start, .says(#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no\u001b[2J thanks"}}"#)],
            ["→ initialize 1"]
                + over("1", because: "handshakeFailed the handshake failed, it refused: no [2J thanks (-32602)")),
        Case(
            "a list of one page",
            [.start, .says(welcome), .list, .says(#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}]}}"#)],
            opened + ["→ tools/list 2", #"2 ✓ [{"name":"a"}]"#]),
        Case(
            "a list of three pages",
            [
                .start, .says(welcome), .list,
                .says(#"{"jsonrpc":"2.0","id":2,"result":{"tools":[1],"nextCursor":"x"}}"#),
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"tools":[2],"nextCursor":"y"}}"#),
                .says(#"{"jsonrpc":"2.0","id":4,"result":{"tools":[3],"nextCursor":null}}"#),
            ],
            opened + [
                "→ tools/list 2", #"→ tools/list 3 {"cursor":"x"}"#, #"→ tools/list 4 {"cursor":"y"}"#, "2 ✓ [1,2,3]",
            ]),
        Case(
            "a list whose pages go in a circle",
            [
                .start, .says(welcome), .list,
                .says(#"{"jsonrpc":"2.0","id":2,"result":{"tools":[],"nextCursor":"x"}}"#),
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"tools":[1],"nextCursor":"x"}}"#),
            ],
            opened + ["→ tools/list 2", #"→ tools/list 3 {"cursor":"x"}"#, "2 ✓ [1]"]),
        Case(
            "a list without an end",
            [
                .start, .says(welcome), .list,
                .says(#"{"jsonrpc":"2.0","id":2,"result":{"tools":[],"nextCursor":"x"}}"#),
                .says(#"{"jsonrpc":"2.0","id":3,"result":{"tools":[],"nextCursor":"y"}}"#),
                .says(#"{"jsonrpc":"2.0","id":4,"result":{"tools":[],"nextCursor":"z"}}"#),
            ],
            opened + [
                "→ tools/list 2", #"→ tools/list 3 {"cursor":"x"}"#, #"→ tools/list 4 {"cursor":"y"}"#,
                "2 ✗ protocolViolation its list of tools has more than 3 pages",
            ]),
        Case(
            "more tools than allowed",
            [.start, .says(welcome), .list, .says(#"{"jsonrpc":"2.0","id":2,"result":{"tools":[1,2,3,4,5]}}"#)],
            opened + ["→ tools/list 2", "2 ✗ protocolViolation it lists more than 4 tools"]),
        Case(
            "a server without tools is not asked",
            [
                .start,
                .says(
                    #"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}}}}"#
                ),
                .list,
            ],
            opened + ["2 ✓ []"]),
        Case(
            "a server that declares nothing is asked for its tools",
            [
                .start, .says(#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#),
                .list,
            ],
            opened + ["→ tools/list 2"]),
        Case(
            "an id as text, a byte order mark, and no version",
            [
                .start, .says("\u{FEFF}" + welcome), .call("a"), .says(#"{"id":"2","result":{"content":[]}}"#),
            ],
            opened + [#"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#, #"2 ✓ {"content":[]}"#]),
        Case(
            "an error without an id is about the only open request",
            [
                .start, .says(welcome), .call("a"),
                .says(#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no city"}}"#), .call("b"),
                .call("c"), .says(#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#),
            ],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#, "2 ✗ refused it refused: no city (-32700)",
                #"→ tools/call 3 {"name":"b","arguments":{"x":1}}"#,
                #"→ tools/call 4 {"name":"c","arguments":{"x":1}}"#,
            ]),
        Case(
            "an answer that can't be read fails its call at once",
            [.start, .says(welcome), .call("a"), .says(#"{"jsonrpc":"2.0","id":2,"result":{"n":NaN}}"#)],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#,
                #"2 ✗ protocolViolation its answer can't be read: {"jsonrpc":"2.0","id":2,"result":{"n":NaN}}"#,
            ]),
        Case(
            "progress of a call, and of none",
            [
                .start, .says(welcome), .call("a"),
                .says(
                    #"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":3,"total":8,"message":"Half\nway"}}"#
                ),
                .says(
                    #"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9,"progress":1}}"#),
            ],
            opened + [#"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#, "2 … 3 of 8, Half way"]),
        Case(
            "a page that the user must open first",
            [
                .start, .says(welcome), .call("a"),
                .says(
                    #"{"jsonrpc":"2.0","id":2,"error":{"code":-32042,"message":"Visit","data":{"elicitations":[{"url":"https://a.example/x?y=1"},{"url":"javascript:x"}]}}}"#
                ),
            ],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#,
                "2 ✗ refused it refused: Visit (-32042) [https://a.example/x?y=1]",
            ]),
        Case(
            "a call",
            [.start, .says(welcome), .call("a"), .says(#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#)],
            opened + [#"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#, #"2 ✓ {"content":[]}"#]),
        Case(
            "calls answered in another order, in one line",
            [
                .start, .says(welcome), .call("a"), .call("b"),
                .says(#"[{"jsonrpc":"2.0","id":3,"result":{"n":3}},{"jsonrpc":"2.0","id":2,"result":{"n":2}}]"#),
            ],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#,
                #"→ tools/call 3 {"name":"b","arguments":{"x":1}}"#, #"3 ✓ {"n":3}"#, #"2 ✓ {"n":2}"#,
            ]),
        Case(
            "a call that is refused",
            [.start, .says(welcome), .call("a"), .says(#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602}}"#)],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#,
                "2 ✗ refused it refused: without a reason (-32602)",
            ]),
        Case(
            "an answer without a result",
            [.start, .says(welcome), .call("a"), .says(#"{"jsonrpc":"2.0","id":2}"#)],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#,
                "2 ✗ protocolViolation its answer has neither a result nor an error",
            ]),
        Case(
            "a call that is given up, and answered later",
            [
                .start, .says(welcome), .call("a"), .giveUp(2),
                .says(#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#), .giveUp(2),
            ],
            opened + [
                #"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#,
                #"→ notifications/cancelled {"requestId":2,"reason":"enough"}"#, "2 ✗ timedOut enough",
            ]),
        Case(
            "a list that is given up at its second page",
            [
                .start, .says(welcome), .list,
                .says(#"{"jsonrpc":"2.0","id":2,"result":{"tools":[1],"nextCursor":"x"}}"#), .giveUp(2),
            ],
            opened + [
                "→ tools/list 2", #"→ tools/list 3 {"cursor":"x"}"#,
                #"→ notifications/cancelled {"requestId":3,"reason":"enough"}"#, "2 ✗ timedOut enough",
            ]),
        Case(
            "a handshake is given up without a word", [.start, .giveUp(1)], ["→ initialize 1", "1 ✗ timedOut enough"]),
        Case(
            "requests of the server",
            [
                .start, .says(welcome), .says(#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#),
                .says(#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{}}"#),
                .says(#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#),
            ],
            opened + [
                #"→ {"jsonrpc":"2.0","id":"p","result":{}}"#,
                #"→ {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"This client has no such method."}}"#,
            ]),
        Case(
            "lines that are no messages, and then one",
            [
                .start, .says("Listening on stdio…"), .says(""), .says(" \r"), .says("[]"), .says(welcome), .says("{}"),
                .says("null"), .says("{\u{1}"),
            ], opened),
        Case(
            "too many of them",
            [.start, .says("a b c"), .says("2"), .says("3"), .says("4"), .says(welcome)],
            ["→ initialize 1"]
                + over("1", because: "protocolViolation its standard output is not the protocol, but: a b c")),
        Case(
            "a line without an end",
            [
                .start, .says(welcome), .call("a"), .says(String(repeating: "x", count: 400)), .call("b"),
                .says(welcome),
            ],
            opened + [#"→ tools/call 2 {"name":"a","arguments":{"x":1}}"#]
                + over("2", because: "protocolViolation it sent a line of more than 300 bytes")
                + ["3 ✗ protocolViolation it sent a line of more than 300 bytes"]),
        Case(
            "more than anything has asked for",
            [.start, .says(welcome)]
                + Array(repeating: .says(#"{"jsonrpc":"2.0","method":"notifications/message"}"#), count: 30),
            opened + over(because: "protocolViolation it sent 0 MiB without a request")),
        Case(
            "the same in one piece, behind an answer",
            [.start, .says(welcome + String(repeating: "\n" + #"{"jsonrpc":"2.0","method":"x"}"#, count: 50))],
            opened + over(because: "protocolViolation it sent 0 MiB without a request")),
    ]

    @Test(arguments: cases)
    func saysAndHears(_ table: Case) {
        #expect(Self.run(table.inputs) { [$0] } == table.actions)
    }

    @Test(arguments: cases)
    func bytesMayBeCutAnywhere(_ table: Case) {
        #expect(Self.run(table.inputs) { $0.map { [$0] } } == table.actions, "byte by byte")
        let longest = table.inputs.map { if case .says(let line) = $0 { line.utf8.count } else { 0 } }.max() ?? 0
        for split in 1...max(longest, 1) {
            let actions = Self.run(table.inputs) { [Array($0.prefix(split)), Array($0.dropFirst(split))] }
            #expect(actions == table.actions, "cut after \(split) bytes")
        }
    }

    @Test func eachChangeOfAListCounts() {
        var session = MCPSession(server: "s", limits: MCPSession.Limits())
        _ = session.start()
        _ = session.receivedBytes(Array((Self.welcome + "\n").utf8))
        #expect(session.changes.isEmpty)
        #expect(session.offers(.tools))
        #expect(!session.offers(.prompts))
        for method in [
            "notifications/tools/list_changed", "notifications/prompts/list_changed",
            "notifications/tools/list_changed",
            "notifications/roots/list_changed", "notifications/tools/list_changed/", "tools/list_changed",
        ] {
            _ = session.receivedBytes(Array(#"{"jsonrpc":"2.0","method":"\#(method)"}"#.utf8) + [0x0A])
        }
        #expect(session.changes == [.tools: 2, .prompts: 1])
    }

    @Test func `calls before the handshake and after the end are refused`() {
        var session = MCPSession(server: "s", limits: MCPSession.Limits())
        #expect(session.call("a", [:]).actions.map(Self.describe) == ["1 ✗ ended it has just been started again"])
        _ = session.start()
        let cause = ChappieMCPError(.ended, server: "s", reason: "it has ended")
        #expect(
            session.end(because: cause).map(Self.describe) == ["2 ✗ ended it has ended", "over: ended it has ended"])
        #expect(session.end(because: cause).isEmpty)
        #expect(session.start().actions.map(Self.describe) == ["3 ✗ ended it has ended"])
        #expect(session.list(.tools).actions.map(Self.describe) == ["4 ✗ ended it has ended"])
        #expect(session.call("a", [:]).actions.map(Self.describe) == ["5 ✗ ended it has ended"])
    }

    /// The actions that come of the inputs, in lines, when each line of the server arrives in these pieces.
    private static func run(_ inputs: [Input], pieces: ([UInt8]) -> [[UInt8]]) -> [String] {
        var limits = MCPSession.Limits()
        limits.line = 300
        limits.garbage = 3
        limits.unasked = 1400
        limits.pages = 3
        limits.entries = 4
        var session = MCPSession(server: "s", limits: limits)
        var actions: [MCPSession.Action] = []
        for input in inputs {
            switch input {
            case .start: actions += session.start().actions
            case .list: actions += session.list(.tools).actions
            case .lists(let list): actions += session.list(list).actions
            case .reads(let uri): actions += session.ask("resources/read", ["uri": .string(uri)]).actions
            case .call(let tool): actions += session.call(tool, ["x": 1]).actions
            case .giveUp(let id):
                actions += session.giveUp(id, because: ChappieMCPError(.timedOut, server: "s", reason: "enough"))
            case .says(let line):
                for piece in pieces(Array((line + "\n").utf8)) { actions += session.receivedBytes(piece) }
            }
        }
        return actions.map(describe)
    }

    private static func describe(_ action: MCPSession.Action) -> String {
        switch action {
        case .send(let message):
            guard let method = message["method"]?.string else { return "→ \(message.serialized())" }
            let id = message["id"].map { " \($0.serialized())" } ?? ""
            // The name is enough for the handshake.
            guard method != "initialize", var parameters = message["params"]?.object else {
                return "→ \(method)\(id)"
            }
            // What every request without a handshake says.
            let isStateless = parameters["_meta"]?["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
            if isStateless || parameters["_meta"]?["progressToken"] == message["id"] { parameters["_meta"] = nil }
            let rest = parameters.isEmpty ? "" : " " + ChappieJSON.object(parameters).serialized()
            return "\(isStateless ? "⇒" : "→") \(method)\(id)\(rest)"
        case .finish(let id, .success(let value)):
            return "\(id) ✓ \(value["protocolVersion"] == nil ? value.serialized() : "{…}")"
        case .progress(let id, let progress): return "\(id) … \(progress.line)"
        case .finish(let id, .failure(let error)):
            let addresses = error.addresses.isEmpty ? "" : " [\(error.addresses.joined(separator: " "))]"
            return "\(id) ✗ \(error.code.rawValue) \(error.reason)\(addresses)"
        case .abandon(let error): return "over: \(error.code.rawValue) \(error.reason)"
        }
    }
}
