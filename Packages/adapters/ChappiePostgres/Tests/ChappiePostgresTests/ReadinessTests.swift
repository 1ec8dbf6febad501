import ChappieCredentialsPostgres
import ChappieThreadsPostgres
import FoundationEssentials
import TestFixtures
import Testing

/// The program of docs/Operations.md.
extension PostgresDatabaseTests {
    @Test func `the readiness check of the documents says when a machine is ready`() async throws {
        try await server.makeDatabase("ready")
        try await makeRole("ready_service")
        let service = address(of: "ready", as: "ready_service")
        // SwiftPM puts the programs of a package next to its tests.
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = SystemProgram(
            URL(filePath: tests).deletingLastPathComponent().path + "/PostgresReadiness", packages: "swift")
        func refusal(_ address: String) async -> String {
            let error = await #expect(throws: FixtureFailure.self) { try await program.run([address]) }
            return error?.description ?? ""
        }
        #expect(await refusal(service).contains("The tables have other versions than this program"))
        try await ChappiePostgresMigration.run(
            connectionString: server.address(of: "ready"), granting: ["ready_service"], parts: [.threads, .credentials])
        #expect(try await program.run([service]) == "ready\n")
        try await server.sql("ALTER DATABASE ready SET default_transaction_read_only = on")
        #expect(await refusal(service).contains("The database can only be read."))
        #expect(await refusal("postgresql://app@127.0.0.1:1/ready?sslmode=disable").contains("Connection refused"))
    }

    @Test func `docs/Operations.md prints the readiness check that is tested`() throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let source = try String(contentsOf: tests.appending(path: "PostgresReadiness/main.swift"), encoding: .utf8)
        let page = tests.appending(path: "../../../../docs/Operations.md").standardized
        #expect(try String(contentsOf: page, encoding: .utf8).contains("```swift\n\(source)```\n"))
    }
}
