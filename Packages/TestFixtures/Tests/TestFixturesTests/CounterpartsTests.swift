import Testing

@testable import TestFixtures

struct CounterpartsTests {
    /// Nothing is given away between the choice of a port and the server's start: neither to each other, nor to others.
    @Test func severalStartAtOnceAndLeaveNothingBehind() async throws {
        let answers = try await withThrowingTaskGroup(of: (String, Bool).self) { group in
            for number in 0..<3 {
                group.addTask {
                    let counterparts = try await Counterparts()
                    try await counterparts.start(locations: #"location / { return 200 "answer \#(number)\n"; }"#)
                    let answer = try await SystemProgram("curl", packages: "curl").run([
                        "-sS", "--noproxy", "*", "--cacert", counterparts.authority,
                        "https://127.0.0.1:\(counterparts.good)/",
                    ])
                    counterparts.end()
                    let areGone = try await eventually {
                        let table = try TCPSocketTable()
                        return !Counterparts.Server.allCases.contains { table.isListening(on: counterparts.port($0)) }
                    }
                    return (answer, areGone)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.map(\.0).sorted() == ["answer 0\n", "answer 1\n", "answer 2\n"])
        #expect(answers.allSatisfy { $0.1 })
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
