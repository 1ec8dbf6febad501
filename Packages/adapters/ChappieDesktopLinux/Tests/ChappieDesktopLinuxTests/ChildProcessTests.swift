@_spi(ChappieInternals) import ChappieFiles
import ChappieProcess
import Foundation
import Testing

@testable import ChappieDesktopLinux

struct ChildProcessTests {
    private static let input = [UInt8](repeating: 0x61, count: 1 << 20)

    @Test(
        arguments: [
            ("echo 'what went wrong' >&2; echo output; exit 7", nil, .exited(code: 7, words: "what went wrong\n")),
            ("kill -9 $$", nil, .exited(code: 137, words: "")),
            ("wc -c >&2", input, .exited(code: 0, words: "1048576\n")),
            ("wc -c >&2", nil, .exited(code: 0, words: "0\n")),
            // The program does not read.
            ("exit 0", input, .exited(code: 0, words: "")),
            (
                "head -c 100000 /dev/zero | tr '\\0' x >&2", nil,
                .exited(code: 0, words: String(repeating: "x", count: 4096))
            ),
        ] as [(String, [UInt8]?, ChildOutcome)])
    func runsAProgramToItsEnd(script: String, input: [UInt8]?, outcome: ChildOutcome) async {
        #expect(await shell(script, input: input).run() == outcome)
    }

    @Test func inheritsNeitherFilesNorVariables() async throws {
        // A file without the close-on-exec flag, as a careless library leaves them, at a number no shell uses.
        let careless = try Descriptor(fcntl(STDERR_FILENO, F_DUPFD, 700))
        #expect(careless.number >= 700)
        let outcome = await shell(
            "ls /proc/$$/fd/\(careless.number) && echo inherited >&2; env | cut -d= -f1 | grep -v '^PWD$' | sort >&2"
        ).run()
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
        let process = shell("read line < '\(folder.path("pipe"))'")
        let task = Task { await process.run() }
        task.cancel()
        #expect(await task.value == .stillRunning)
    }

    @Test func manyAtOnceAllEnd() async throws {
        let codes = await withTaskGroup(of: ChildOutcome.self) { group in
            for number in 0..<32 {
                let process = shell("exit \(number)")
                group.addTask { await process.run() }
            }
            return await group.reduce(into: Set<ChildOutcome>()) { $0.insert($1) }
        }
        #expect(codes == Set((0..<32).map { ChildOutcome.exited(code: $0, words: "") }))
    }

    private func shell(_ script: String, input: [UInt8]? = nil) -> ChildProcess {
        ChildProcess(
            path: "/bin/sh", arguments: ["-c", script], environment: ["PATH": "/usr/bin:/bin", "ONLY": "1"],
            input: input, limit: .seconds(60), atLimit: .kill)
    }
}
