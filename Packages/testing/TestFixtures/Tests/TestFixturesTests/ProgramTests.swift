import Foundation
import Testing

@testable import TestFixtures

struct RunningProgramTests {
    private static let shell = "/bin/sh"

    private func shell(_ script: String, input: ProgramInput = .nothing, isGuarded: Bool = false) throws
        -> RunningProgram
    {
        try RunningProgram(
            Self.shell, ["-c", script], input: input, output: .pipe, errors: .inherited, isGuarded: isGuarded)
    }

    @Test(arguments: [false, true])
    func endsAProgramThatWillNotEndAndItsChildren(isGuarded: Bool) async throws {
        let program = try shell("trap '' TERM; cat /dev/zero >/dev/null & echo $!; wait", isGuarded: isGuarded)
        let line = try await onOwnThread { program.output?.line() }
        let child = try #require(line.flatMap { pid_t($0) })
        program.end()
        #expect(program.hasEnded)
        #expect(try await eventually { isGone(child) })
    }

    /// The starting process sends no farewell: the guard sees that the process that started it is no longer there.
    @Test func `a guarded program ends with the process that started it`() async throws {
        let starter = try SystemProgram("/usr/bin/env", packages: "coreutils").path()
        let program = try RunningProgram(
            starter, ["sh", "-c", "trap '' TERM; echo $$; while :; do cat /dev/zero >/dev/null; done"],
            output: .pipe, errors: .inherited, isGuarded: true)
        let line = try await onOwnThread { program.output?.line() }
        #expect(line == "\(program.id)")
        program.dropLifeline()
        #expect(try await onOwnThread { program.wait() } == 128 + 9)
    }

    @Test func noProgramInheritsAnothersPipes() async throws {
        let waiting = try shell("cat; echo end", input: .held)
        let other = try shell("echo ready; exec cat /dev/zero >/dev/null")
        #expect(try await onOwnThread { other.output?.line() } == "ready")
        waiting.endInput()
        #expect(try await onOwnThread { waiting.output?.line() } == "end")
    }

    /// No longer there, or only in the list until its parent has looked.
    private func isGone(_ id: pid_t) -> Bool {
        guard kill(id, 0) == 0 else { return true }
        let status = try? String(contentsOfFile: "/proc/\(id)/status", encoding: .utf8)
        return status?.contains("State:\tZ") != false
    }
}

struct SystemProgramTests {
    @Test func aProgramThatIsMissingNamesItsPackage() async {
        // A task of its own belongs to no test, which would be skipped.
        let failure = await #expect(throws: FixtureFailure.self) {
            try await Task.detached { try SystemProgram("no-such-program", packages: "some-package").path() }.value
        }
        #expect(failure?.description == "no-such-program is missing; install it with: apt-get install some-package")
    }

    @Test(arguments: [(false, "out\n"), (true, "out\nwhy\n")])
    func `a run returns the program's output and its error output`(withErrors: Bool, text: String) async throws {
        let shell = SystemProgram("sh", packages: "dash")
        #expect(try await shell.run(["-c", "echo out; echo why >&2"], withErrors: withErrors) == text)
        let failure = await #expect(throws: FixtureFailure.self) {
            try await shell.run(["-c", "echo why >&2; exit 3"], withErrors: withErrors)
        }
        #expect(failure?.description == "sh -c echo why >&2; exit 3 ended with 3: why\n")
    }

    @Test func whatDoesNotStartSaysWhy() async throws {
        let counterparts = try await Counterparts()
        let failure = await #expect(throws: FixtureFailure.self) {
            try await counterparts.start(locations: "nonsense;")
        }
        #expect(failure?.description.contains("nginx did not begin to listen") == true)
        #expect(failure?.description.contains("nonsense") == true)
        counterparts.end()
    }
}
