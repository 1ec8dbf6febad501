import TestFixtures
import Testing

struct SystemProgramTests {
    @Test func aProgramThatIsMissingNamesItsPackage() async {
        // A task of its own belongs to no test, which would be skipped.
        let failure = await #expect(throws: FixtureFailure.self) {
            try await Task.detached { try SystemProgram("no-such-program", packages: "some-package").path() }.value
        }
        #expect(failure?.description == "no-such-program is missing; install it with: apt-get install some-package")
    }

    @Test func aFailureTellsWhatTheProgramComplainedAbout() async {
        let failure = await #expect(throws: FixtureFailure.self) {
            try await SystemProgram("sh", packages: "dash").run(["-c", "echo why >&2; exit 3"])
        }
        #expect(failure?.description == "sh -c echo why >&2; exit 3 ended with 3: why\n")
    }

    @Test(arguments: [(false, "out\n"), (true, "out\nwhy\n")])
    func givesWhatItPrinted(withErrors: Bool, text: String) async throws {
        let shell = SystemProgram("sh", packages: "dash")
        #expect(try await shell.run(["-c", "echo out; echo why >&2"], withErrors: withErrors) == text)
    }
}
