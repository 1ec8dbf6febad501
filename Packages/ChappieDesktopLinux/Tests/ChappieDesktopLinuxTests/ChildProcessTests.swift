import Foundation
import Testing

@testable import ChappieDesktopLinux

struct ChildProcessTests {
    @Test func givesTheExitCodeAndTheWords() async throws {
        let outcome = try await run("echo 'what went wrong' >&2; echo output; exit 7")
        #expect(outcome == .exited(code: 7, words: "what went wrong\n"))
    }

    @Test func aSignalIsAnExitCodeToo() async throws {
        #expect(try await run("kill -9 $$") == .exited(code: 137, words: ""))
    }

    @Test func wordsAreBounded() async throws {
        guard case .exited(0, let words) = try await run("head -c 100000 /dev/zero | tr '\\0' x >&2") else {
            Issue.record("it did not exit with 0")
            return
        }
        #expect(words.count == 4096)
    }

    @Test func readsWhatItIsGivenAndOtherwiseNothing() async throws {
        let input = [UInt8](repeating: 0x61, count: 1 << 20)
        #expect(try await run("wc -c >&2", input: input) == .exited(code: 0, words: "1048576\n"))
        #expect(try await run("wc -c >&2") == .exited(code: 0, words: "0\n"))
    }

    @Test func aProgramThatDoesNotReadIsNoTrouble() async throws {
        #expect(try await run("exit 0", input: [UInt8](repeating: 0, count: 1 << 20)) == .exited(code: 0, words: ""))
    }

    @Test func inheritsNeitherFilesNorVariables() async throws {
        // A file without the close-on-exec flag, as a careless library leaves them, at a number no shell uses.
        let careless = FileDescriptor(fcntl(STDERR_FILENO, F_DUPFD, 700))
        #expect(careless.number >= 700)
        let outcome = try await run(
            "ls /proc/$$/fd/\(careless.number) && echo inherited >&2; env | cut -d= -f1 | grep -v '^PWD$' | sort >&2")
        guard case .exited(0, let words) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(!words.contains("inherited"))
        #expect(words.hasSuffix("No such file or directory\nONLY\nPATH\n"), "\(words)")
        withExtendedLifetime(careless) {}
    }

    @Test func whatCantBeStartedSaysWhy() async throws {
        let process = ChildProcess(
            path: "/nowhere/program", arguments: [], environment: [:], limit: .seconds(30), atLimit: .kill)
        #expect(await process.run() == .notStarted("No such file or directory"))
    }

    @Test func cancellationIsTheLimit() async throws {
        let folder = try Folder()
        #expect(mkfifo(folder.path("pipe"), 0o600) == 0)
        let process = shell("read line < '\(folder.path("pipe"))'", limit: .seconds(60))
        let task = Task { await process.run() }
        task.cancel()
        #expect(await task.value == .stillRunning)
    }

    @Test func manyAtOnceAllEnd() async throws {
        let codes = await withTaskGroup(of: ChildOutcome.self) { group in
            for number in 0..<32 {
                let process = shell("exit \(number)", limit: .seconds(60))
                group.addTask { await process.run() }
            }
            return await group.reduce(into: Set<ChildOutcome>()) { $0.insert($1) }
        }
        #expect(codes == Set((0..<32).map { ChildOutcome.exited(code: $0, words: "") }))
    }

    private func run(_ script: String, input: [UInt8]? = nil) async throws -> ChildOutcome {
        var process = shell(script, limit: .seconds(60))
        process.input = input
        return await process.run()
    }

    private func shell(_ script: String, limit: Duration) -> ChildProcess {
        ChildProcess(
            path: "/bin/sh", arguments: ["-c", script], environment: ["PATH": "/usr/bin:/bin", "ONLY": "1"],
            limit: limit, atLimit: .kill)
    }
}
