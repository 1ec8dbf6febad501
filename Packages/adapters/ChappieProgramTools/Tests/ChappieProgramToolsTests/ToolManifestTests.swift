import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieProgramTools
import Glibc
import TestFixtures
import Testing

struct ToolManifestTests {
    private static func read(_ text: String, _ variables: [String: String] = [:]) throws -> ChappieToolManifest {
        let all = ["PATH": "/usr/bin:/bin", "HOME": "/home/someone"].merging(variables) { _, given in given }
        return try ChappieToolManifest(Array(text.utf8), file: "/usr/tools.json") { all[$0] }
    }

    @Test func aToolNeedsNoMoreThanItsNameAndItsCommand() throws {
        let tool = try #require(try Self.read("\u{FEFF}" + #"{"tools":[{"name":"t","command":"sh"}]}"#).tools.first)
        #expect(tool.path == "/usr/bin/sh" && tool.arguments.isEmpty)
        #expect(tool.environment == ["PATH": "/usr/bin:/bin", "HOME": "/home/someone"])
        #expect(tool.workingDirectory == nil)
        #expect(tool.policy == .ask)
        #expect(tool.timeout == .seconds(60))
        #expect(!tool.runsAlone)
        #expect(tool.description == "")
        #expect(tool.inputSchema == ["type": "object", "properties": [:]])
    }

    @Test func everyMemberOfAToolCounts() throws {
        let manifest = try Self.read(
            #"""
            {"tools":[{"name":"t-1_a","description":"d","command":"bin/sh","args":["-c","echo $X"],"cwd":"lib",
              "env":{"X":"1"},"passEnv":["KEY","MISSING"],"policy":"automatic","timeout":0.5,"runsAlone":true,
              "inputSchema":{"type":"object","required":["a"]}}]}
            """#, ["KEY": "k", "OTHER": "o"])
        let tool = try #require(manifest.tools.first)
        #expect(tool.name == "t-1_a" && tool.description == "d")
        #expect(tool.path == "/usr/bin/sh" && tool.arguments == ["-c", "echo $X"])
        #expect(
            tool.environment == ["PATH": "/usr/bin:/bin", "HOME": "/home/someone", "X": "1", "KEY": "k"])
        #expect(tool.workingDirectory == "/usr/lib")
        #expect(tool.policy == .automatic)
        #expect(tool.timeout == .seconds(0.5))
        #expect(tool.runsAlone)
        #expect(tool.hostTool.inputSchema == ["type": "object", "required": ["a"]] && tool.hostTool.runsAlone)
    }

    @Test func aToolMayTakeFreeText() throws {
        let manifest = try Self.read(
            #"""
            {"tools":[{"name":"a","command":"sh","format":{"type":"text"}},
              {"name":"b","command":"sh","format":{"type":"grammar","syntax":"regex","definition":"a+"}},
              {"name":"c","command":"sh"}]}
            """#)
        #expect(manifest.tools.map(\.textFormat) == [.text, .regex("a+"), nil])
        #expect(manifest.tools.map(\.hostTool.textFormat) == [.text, .regex("a+"), nil])
    }

    @Test func aSchemaKeepsTheOrderOfItsMembers() throws {
        let schema = #"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"},"m":{}}}"#
        let manifest = try Self.read(#"{"tools":[{"name":"t","command":"sh","inputSchema":\#(schema)}]}"#)
        #expect(manifest.tools.first?.inputSchema.serialized() == schema)
    }

    @Test func `servers are written in the form that other programs use`() throws {
        let manifest = try Self.read(
            #"{"mcpServers":{"files":{"type":"stdio","command":"sh","args":["-x"],"env":{"A":"b"},"timeout":9}}}"#)
        #expect(
            manifest.servers == [
                ChappieToolManifest.Server(
                    name: "files", command: ["/usr/bin/sh", "-x"],
                    environment: ["PATH": "/usr/bin:/bin", "HOME": "/home/someone", "A": "b"], workingDirectory: nil,
                    policy: .ask, timeout: .seconds(9))
            ])
    }

    @Test func `variables are replaced in every value of a program and of an address`() throws {
        let variables = ["TOOL": "sh", "A": "1", "EMPTY": "", "TOKEN": "secret", "HOST": "d.example", "UNUSED": "u"]
        let manifest = try Self.read(
            #"""
            {"mcpServers":{
              "p":{"command":"${TOOL}","args":["-${A}-${env:A}","${EMPTY:-x}${NONE:-y:-z}","$A ${ ${1} ${A"],
                "env":{"V":"${A}"},"cwd":"/${FOLDER:-usr}"},
              "r":{"url":"https://${HOST}/mcp","headers":{"Authorization":"Bearer ${TOKEN}"}},
              "off":{"command":"none","args":["${NONE}"],"disabled":true}}}
            """#, variables)
        #expect(manifest.servers.map(\.name) == ["p", "r"])
        #expect(manifest.servers[0].command == ["/usr/bin/sh", "-1-1", "xy:-z", "$A ${ ${1} ${A"])
        #expect(manifest.servers[0].environment["V"] == "1")
        #expect(manifest.servers[1].url?.absoluteString == "https://d.example/mcp")
        #expect(manifest.servers[1].headers == ["Authorization": "Bearer secret"])
        #expect(manifest.variables == ["A", "EMPTY", "FOLDER", "HOST", "NONE", "TOKEN", "TOOL"])
        #expect(manifest.notes.isEmpty)
    }

    @Test func `members of other programs are ignored, and never approve a call`() throws {
        let manifest = try Self.read(
            #"""
            {"inputs":[],"servers":{"my server":{"command":"sh","autoApprove":["x"],"alwaysAllow":["y"],"description":"d",
              "disabled":false,"allowTools":["report.daily"]}}}
            """#)
        let server = try #require(manifest.servers.first)
        #expect(server.name == "my_server" && server.policy == .ask && server.allowedTools == ["report.daily"])
        #expect(manifest.notes == ["servers.my server: alwaysAllow, autoApprove ignored."])
    }

    @Test func `a path may begin at the home directory`() throws {
        let home = try TemporaryDirectory()
        #expect(chmod(try home.write("#!/bin/sh\n", to: "tool"), 0o700) == 0)
        let manifest = try ChappieToolManifest(
            Array(#"{"tools":[{"name":"t","command":"~/tool","cwd":"~/"}]}"#.utf8), file: "tools.json"
        ) { $0 == "HOME" ? home.path : nil }
        #expect(manifest.tools.first?.path == home.path + "/tool")
        #expect(manifest.tools.first?.workingDirectory == home.path + "/")
    }

    @Test func aServerElsewhereHasAnAddressAndItsToken() throws {
        let manifest = try Self.read(
            #"{"mcpServers":{"d":{"type":"http","url":"https://d.example/mcp","headers":{"X-A":"b"},"bearerTokenEnv":"T","policy":"deny"}}}"#,
            ["T": "secret"])
        let url = try #require(URL(string: "https://d.example/mcp"))
        #expect(
            manifest.servers == [
                ChappieToolManifest.Server(
                    name: "d", url: url, headers: ["X-A": "b", "Authorization": "Bearer secret"], policy: .deny)
            ])
    }

    @Test func aServersToolsAndItsStartAreLimited() throws {
        let manifest = try Self.read(
            #"""
            {"mcpServers":{"a":{"command":"sh","startTimeout":0.5,"allowTools":["x","y"],"denyTools":["y"]},
              "b":{"url":"https://b.example","startTimeout":90,"allowTools":[]}}}
            """#)
        #expect(manifest.servers.map(\.startTimeout) == [.seconds(0.5), .seconds(90)])
        #expect(manifest.servers.map(\.allowedTools) == [["x", "y"], []])
        #expect(manifest.servers.map(\.deniedTools) == [["y"], []])
    }

    @Test func `a remote server may name a client and permissions for a sign-in`() throws {
        let manifest = try Self.read(
            #"{"mcpServers":{"d":{"url":"https://d.example/mcp","oauth":{"clientId":"c-1","scopes":["read","a:b"]}}}}"#)
        let url = try #require(URL(string: "https://d.example/mcp"))
        #expect(
            manifest.servers == [
                ChappieToolManifest.Server(name: "d", url: url, clientID: "c-1", scopes: ["read", "a:b"])
            ])
    }

    @Test(
        arguments: [
            (
                #"{"mcpServers":{"a":{"command":"sh","startTimeout":86401}}}"#,
                "mcpServers.a.startTimeout must be seconds, more than 0 and at most 86400."
            ),
            (
                #"{"mcpServers":{"a":{"command":"sh","denyTools":["x",""]}}}"#,
                "mcpServers.a.denyTools[1] must be the name of a tool."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://a","allowTools":"x"}}}"#,
                "mcpServers.a.allowTools must be an array."
            ),
            ("[]", "the manifest must be an object."),
            (#"{"tool":[]}"#, "tool is not known; known are inputs, mcpServers, servers, tools."),
            (#"{"tools":{}}"#, "tools must be an array."), (#"{"tools":["x"]}"#, "tools[0] must be an object."),
            (#"{"tools":[{"command":"sh"}]}"#, "tools[0].name is missing."),
            (#"{"tools":[{"name":3,"command":"sh"}]}"#, "tools[0].name must be a string."),
            (
                #"{"tools":[{"name":"a b","command":"sh"}]}"#,
                "tools[0].name must be named with 1 to 64 letters, digits, _ and -."
            ),
            (
                #"{"tools":[{"name":"a","command":"sh"},{"name":"a","command":"sh"}]}"#,
                "tools[1].name is the name of an earlier tool."
            ),
            (#"{"tools":[{"name":"a"}]}"#, "tools[0].command is missing."),
            (
                #"{"tools":[{"name":"a","command":"no-such-program"}]}"#,
                "tools[0].command can't be started: there is no program no-such-program in PATH that may be run."
            ),
            (
                #"{"tools":[{"name":"a","command":"./x"}]}"#,
                "tools[0].command can't be started: there is no program /usr/./x that may be run."
            ),
            (
                #"{"tools":[{"name":"a","command":"sh","cwd":"nowhere"}]}"#,
                "tools[0].command can't be started: there is no folder /usr/nowhere."
            ),
            (#"{"tools":[{"name":"a","command":"sh","args":["x",1]}]}"#, "tools[0].args[1] must be a string."),
            (#"{"tools":[{"name":"a","command":"sh","args":["x\u0000"]}]}"#, "tools[0].args[0] holds a NUL character."),
            (#"{"tools":[{"name":"a","command":"sh","env":{"A":1}}]}"#, "tools[0].env.A must be a string."),
            (
                #"{"tools":[{"name":"a","command":"sh","env":{"A=B":"1"}}]}"#,
                "tools[0].env.A=B is not the name of a variable."
            ),
            (#"{"tools":[{"name":"a","command":"sh","passEnv":"A"}]}"#, "tools[0].passEnv must be an array."),
            (
                #"{"tools":[{"name":"a","command":"sh","policy":"yes"}]}"#,
                #"tools[0].policy must be "ask", "automatic" or "deny"."#
            ),
            (
                #"{"tools":[{"name":"a","command":"sh","timeout":0}]}"#,
                "tools[0].timeout must be seconds, more than 0 and at most 86400."
            ),
            (#"{"tools":[{"name":"a","command":"sh","runsAlone":1}]}"#, "tools[0].runsAlone must be true or false."),
            (
                #"{"tools":[{"name":"a","command":"sh","inputSchema":{"type":"array"}}]}"#,
                "tools[0].inputSchema must be a JSON Schema of an object."
            ),
            (
                #"{"tools":[{"name":"a","command":"sh","format":{"type":"text"},"inputSchema":{"type":"object"}}]}"#,
                "tools[0].format is for a tool that takes free text, and this one has an inputSchema."
            ),
            (
                #"{"tools":[{"name":"a","command":"sh","format":{"type":"xml"}}]}"#,
                #"tools[0].format must be {"type": "text"}, or have the type "grammar", the syntax "lark" or "regex", and a definition."#
            ),
            (
                #"{"tools":[{"name":"a","command":"sh","format":{"type":"grammar","syntax":"lark","definition":""}}]}"#,
                "tools[0].format.definition must not be empty."
            ),
            (
                #"{"tools":[{"name":"a","command":"sh","format":{"type":"text","more":1}}]}"#,
                "tools[0].format.more is not known; known are definition, syntax, type."
            ),
            (#"{"mcpServers":[]}"#, "mcpServers must be an object."),
            (#"{"mcpServers":{"a":{"command":"sh"},"a":{"command":"sh"}}}"#, "mcpServers has a twice."),
            (
                #"{"tools":[{"name":"a","command":"sh","env":{"A":"1","A":"2"}}]}"#,
                "tools[0].env has A twice."
            ),
            (#"{"tools":[{"name":"a","command":null}]}"#, "tools[0].command must be a string."),
            (#"{"tools":[{"name":"a","command":"sh","args":null}]}"#, "tools[0].args must be an array."),
            (#"{"tools":[null]}"#, "tools[0] must be an object."),
            (#"{"mcpServers":{"a":null}}"#, "mcpServers.a must be an object."),
            (#"{"tools":[{"name":"a","command":"sh","env":[]}]}"#, "tools[0].env must be an object."),
            (
                #"{"tools":[{"name":"a","command":"sh","timeout":"long"}]}"#,
                "tools[0].timeout must be seconds, more than 0 and at most 86400."
            ),
            (
                #"{"mcpServers":{"a b":{"command":"sh"},"a_b":{"command":"sh"}}}"#,
                "mcpServers.a_b must have another name: an earlier server is also called a_b."
            ),
            (
                #"{"mcpServers":{},"servers":{}}"#,
                "servers is another name of mcpServers, which is there as well."
            ),
            (
                #"{"mcpServers":{"a":{"command":"sh","args":["${NONE}"]}}}"#,
                "mcpServers.a.args[0] names the variable NONE, which is not set. Set it, or write ${NONE:-default}."
            ),
            (
                #"{"servers":{"a":{"url":"https://x/${input:key}"}}}"#,
                "servers.a.url asks for an input. Set a variable, and write ${NAME}."
            ),
            (
                #"{"mcpServers":{"a":{"command":"sh -x"}}}"#,
                #"mcpServers.a.command can't be started: there is no program sh -x in PATH that may be run. Its arguments belong into "args"."#
            ),
            (
                #"{"mcpServers":{"a":{"url":"ftp://x"}}}"#,
                "mcpServers.a.url must be an address that begins with https:// (or http:// on this machine)."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x","command":"sh"}}}"#,
                "mcpServers.a.command is for a server that is a program, and this one has a url."
            ),
            (
                #"{"mcpServers":{"a":{"headers":{},"command":"sh"}}}"#,
                "mcpServers.a.headers is for a server with a url."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x","bearerTokenEnv":"NONE"}}}"#,
                "mcpServers.a.bearerTokenEnv names NONE, which is not set."
            ),
            (#"{"mcpServers":{"a":{"url":7}}}"#, "mcpServers.a.url must be a string."),
            (
                #"{"mcpServers":{"a":{"command":"sh","oauth":{}}}}"#, "mcpServers.a.oauth is for a server with a url."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x","headers":{"AUTHORIZATION":"b"},"oauth":{}}}}"#,
                "mcpServers.a.oauth is for a server without its own authorization, and this one has a token."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x","oauth":{"clientId":"a b"}}}}"#,
                "mcpServers.a.oauth.clientId must be visible ASCII characters, at most 2048."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x","oauth":{"scopes":["a b"]}}}}"#,
                "mcpServers.a.oauth.scopes must be words without spaces, each of at most 200 ASCII characters."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x","oauth":{"secret":"s"}}}}"#,
                "mcpServers.a.oauth.secret is not known; known are clientId, scopes."
            ),
            (
                #"{"mcpServers":{"a":{"type":"http","command":"sh"}}}"#,
                #"mcpServers.a.type must be "stdio" with a command, or "http" with a url: a server that is reached otherwise can't be used."#
            ),
        ])
    func aMistakeIsNamedByItsPath(text: String, message: String) throws {
        do {
            _ = try Self.read(text)
            Issue.record("nothing was thrown")
        } catch let error as ChappieToolManifestError {
            #expect(error.errorDescription == "/usr/tools.json: " + message)
            #expect(message.hasPrefix(error.keyPath))
        }
    }

    @Test func aSchemaThatCantBeUsedIsNamedByItsPath() throws {
        do {
            _ = try Self.read(
                #"{"tools":[{"name":"a","command":"sh","inputSchema":{"type":"object","properties":{"x":{"type":"thing"}}}}]}"#
            )
            Issue.record("nothing was thrown")
        } catch let error as ChappieToolManifestError {
            #expect(
                error.reason.hasPrefix(#"tools[0].inputSchema can't be used, at "/properties/x"#),
                "\(error.reason)")
        }
    }

    @Test func pathsBeginWhereTheManifestIs() throws {
        let folder = try TemporaryDirectory()
        try PrivateFile.create(folder.path + "/tool", with: Array("#!/bin/sh\n".utf8))
        #expect(chmod(folder.path + "/tool", 0o700) == 0)
        let path = folder.path + "/tools.json"
        let text = #"{"tools":[{"name":"t","command":"./tool","cwd":"."}]}"#
        let tool = try #require(try ChappieToolManifest(Array(text.utf8), file: path).tools.first)
        #expect(tool.path == folder.path + "/./tool")
        #expect(tool.workingDirectory == folder.path + "/.")

        let error = #expect(throws: ChappieToolManifestError.self) {
            try ChappieToolManifest(Array("{".utf8), file: path)
        }
        #expect(error?.errorDescription?.hasPrefix(path + ": The text is not valid JSON") == true)
    }
}
