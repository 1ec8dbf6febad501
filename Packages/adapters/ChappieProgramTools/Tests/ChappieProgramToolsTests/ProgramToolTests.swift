@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieProcess
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

@testable import ChappieProgramTools

struct ProgramToolTests {
    private static func tool(_ script: String, folder: TemporaryDirectory? = nil) -> ChappieProgramTool {
        let shell = ProgramInvocation(
            path: "/bin/sh", arguments: ["-c", script], environment: ["PATH": "/usr/bin:/bin"],
            workingDirectory: folder?.path)
        return ChappieProgramTool(name: "t", invocation: shell, outputLimit: 1000)
    }

    @Test(
        arguments: [
            ("cat", "{\"a\":\"b\"}\n", false), ("exit 0", "", false), ("printf 'a\\377b'", "a\u{FFFD}b", false),
            // It does not read what it was given.
            ("exec <&-; echo done", "done\n", false), ("echo words >&2; echo out", "out\n", false),
            (
                "echo part; echo one >&2; echo two >&2; exit 3",
                "The tool failed with the exit code 3.\none\ntwo\npart\n", true
            ),
            ("kill -9 $$", "The tool was ended by the signal 9.", true),
            (
                "yes",
                String(repeating: "y\n", count: 500) + "\n[The tool was ended: its output is larger than 1000 bytes.]",
                true
            ),
            (
                "trap '' TERM; yes",
                String(repeating: "y\n", count: 500) + "\n[The tool was ended: its output is larger than 1000 bytes.]",
                true
            ),
            (
                "seq 2000 | sed 's/$/ and so on/' >&2; exit 1",
                "The tool failed with the exit code 1.\n"
                    + (1981...2000).map { "\($0) and so on" }.joined(separator: "\n"), true
            ),
        ])
    func theOutputIsTheResultAndAFailureSaysWhy(script: String, output: String, isError: Bool) async throws {
        let result = try await Self.tool(script).run(["a": "b"])
        #expect(result == ChappieToolResult(output: output, isError: isError))
    }

    @Test func freeTextIsGivenAsItIs() async throws {
        var tool = Self.tool("cat")
        tool.textFormat = .text
        let call = ChappieToolCall(name: "t", callID: "c", arguments: "SELECT \"a\"\nFROM b", isCustom: true)
        var handler: ChappieHostTool.Handler?
        _ = tool.hostTool.handled { own in
            handler = own
            return own
        }
        #expect(try await handler?(call).output == "SELECT \"a\"\nFROM b")
    }

    @Test func whatIsNoProgramIsAFailure() async throws {
        let nothing = ProgramInvocation(path: "/nowhere/program", environment: [:])
        let result = try await ChappieProgramTool(name: "t", invocation: nothing).run([:])
        #expect(
            result == ChappieToolResult(output: "The tool can't be started: No such file or directory.", isError: true))
    }

    @Test(arguments: ["", "trap '' TERM; "])
    func `a tool that hangs has ended once its call is cancelled`(trap: String) async throws {
        let folder = try TemporaryDirectory()
        let tool = Self.tool(trap + "echo $$ > id.new; mv id.new id; while :; do sleep 1000; done", folder: folder)
        let task = Task { try await tool.run([:]) }
        while access(folder.path + "/id", R_OK) != 0 { await Task.yield() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let text = try String(contentsOfFile: folder.path + "/id", encoding: .utf8)
        let id = try #require(pid_t(text.filter(\.isNumber)))
        // A zombie could still be sent a signal, and so could what it has started.
        #expect(kill(id, 0) != 0 && errno == ESRCH)
    }
}
