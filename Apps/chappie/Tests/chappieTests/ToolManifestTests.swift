@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
import Glibc
import Testing

@testable import chappie

struct ToolManifestTests {
    private static func read(_ text: String, _ variables: [String: String] = [:]) throws -> ToolManifest {
        let all = ["PATH": "/usr/bin:/bin", "HOME": "/home/someone"].merging(variables) { _, given in given }
        return try ToolManifest(
            try ChappieJSON(parsing: text), file: "tools.json", folder: "/usr/",
            environment: ProgramEnvironment { all[$0] })
    }

    @Test func aToolNeedsNoMoreThanItsNameAndItsCommand() throws {
        let tool = try #require(try Self.read(#"{"tools":[{"name":"t","command":"sh"}]}"#).tools.first)
        #expect(tool.invocation.path == "/usr/bin/sh" && tool.invocation.arguments.isEmpty)
        #expect(tool.invocation.environment == ["PATH": "/usr/bin:/bin", "HOME": "/home/someone"])
        #expect(tool.invocation.workingDirectory == nil)
        #expect(tool.policy == .ask && tool.timeout == .seconds(60) && !tool.runsAlone && tool.description == "")
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
        #expect(tool.invocation.path == "/usr/bin/sh" && tool.invocation.arguments == ["-c", "echo $X"])
        #expect(
            tool.invocation.environment == ["PATH": "/usr/bin:/bin", "HOME": "/home/someone", "X": "1", "KEY": "k"])
        #expect(tool.invocation.workingDirectory == "/usr/lib")
        #expect(tool.policy == .automatic && tool.timeout == .seconds(0.5) && tool.runsAlone)
        #expect(tool.hostTool.inputSchema == ["type": "object", "required": ["a"]] && tool.hostTool.runsAlone)
    }

    @Test func serversAreWrittenAsOtherProgramsWriteThem() throws {
        let manifest = try Self.read(
            #"{"mcpServers":{"files":{"type":"stdio","command":"sh","args":["-x"],"env":{"A":"b"},"timeout":9}}}"#)
        #expect(
            manifest.servers == [
                ToolManifest.Server(
                    name: "files", command: ["/usr/bin/sh", "-x"],
                    environment: ["PATH": "/usr/bin:/bin", "HOME": "/home/someone", "A": "b"], workingDirectory: nil,
                    policy: .ask, timeout: .seconds(9))
            ])
    }

    @Test(
        arguments: [
            ("[]", "the manifest must be an object."),
            (#"{"tool":[]}"#, "tool is not known; known are mcpServers, tools."),
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
                "tools[0].env.A=B is no name of a variable."
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
            (#"{"mcpServers":[]}"#, "mcpServers must be an object."),
            (#"{"mcpServers":{"a":{"command":"sh"},"a":{"command":"sh"}}}"#, "mcpServers has a twice."),
            (
                #"{"mcpServers":{"a b":{"command":"sh"}}}"#,
                "mcpServers.a b must be named with 1 to 64 letters, digits, _ and -."
            ),
            (
                #"{"mcpServers":{"a":{"url":"https://x"}}}"#,
                "mcpServers.a.url is not known; known are args, command, cwd, env, passEnv, policy, timeout, type."
            ),
            (
                #"{"mcpServers":{"a":{"type":"http","command":"sh"}}}"#,
                #"mcpServers.a.type must be "stdio": a server that is reached otherwise can't be used."#
            ),
        ])
    func aMistakeIsNamedByItsPath(text: String, message: String) throws {
        do {
            _ = try Self.read(text)
            Issue.record("nothing was thrown")
        } catch let error as CommandLineError {
            #expect(error.message == "tools.json: " + message)
            #expect(error.status == .usage)
        }
    }

    @Test func aSchemaThatCantBeUsedIsNamedByItsPath() throws {
        do {
            _ = try Self.read(
                #"{"tools":[{"name":"a","command":"sh","inputSchema":{"type":"object","properties":{"x":{"type":"thing"}}}}]}"#
            )
            Issue.record("nothing was thrown")
        } catch let error as CommandLineError {
            #expect(
                error.message.hasPrefix(#"tools.json: tools[0].inputSchema can't be used, at "/properties/x"#),
                "\(error.message)")
        }
    }

    @Test func pathsBeginWhereTheManifestIs() throws {
        let folder = TemporaryFolder()
        #expect(PrivateFile.create(folder.path + "/tool", with: Array("#!/bin/sh\n".utf8)))
        #expect(chmod(folder.path + "/tool", 0o700) == 0)
        let path = folder.path + "/tools.json"
        #expect(PrivateFile.create(path, with: Array(#"{"tools":[{"name":"t","command":"./tool","cwd":"."}]}"#.utf8)))
        let tool = try #require(try ToolManifest(path: path, environment: folder.environment()).tools.first)
        #expect(tool.invocation.path == folder.path + "/./tool")
        #expect(tool.invocation.workingDirectory == folder.path + "/.")

        #expect(PrivateFile.replace(path, with: Array("{".utf8)))
        do {
            _ = try ToolManifest(path: path, environment: folder.environment())
            Issue.record("nothing was thrown")
        } catch let error as CommandLineError {
            #expect(error.message.hasPrefix(path + ": The text is not valid JSON"), "\(error.message)")
        }
    }
}
