import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieFiles
import ChappieHTTP
import ChappieSimulatorServer
import ChappieTesting
import Dispatch
import FoundationEssentials
import TestFixtures
import Testing

/// Several machines with one table of sign-ins, each a process with its own home and state folder, and a service that ends
/// a sign-in when its refresh token arrives a second time.
@Suite(.serialized) struct SharedStoreTests {
    private let folder = try? TemporaryDirectory()

    /// A service whose token endpoint takes its time, and a sign-in that is due or has ended.
    private func withService(
        accessEndsIn lifetime: Int, _ body: (Simulator, _ table: String) async throws -> Void
    ) async throws {
        let folder = try #require(folder)
        let scenario = try SimulatorScenario(
            parsing: Array(
                """
                {"settings":{"firstAccessTokenLifetime":\(lifetime)},
                 "rules":[{"match":{"path":"/oauth/token","bodyContains":"refresh_token"},"effect":{"delayBeforeHead":1}}]}
                """.utf8))
        let simulator = try await Simulator.start(
            SimulatorConfiguration(
                autoApprove: true, pollInterval: 0, revokesFamilyOnReuse: true, scenario: scenario,
                recordedRequestLimit: 4096))
        do {
            try await body(simulator, folder.path("table"))
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    /// Signs in on one machine.
    private func signIn(_ simulator: Simulator, _ table: String) async throws {
        try? FileManager.default.removeItem(atPath: table)
        try FileManager.default.createDirectory(atPath: table, withIntermediateDirectories: true)
        let machine = try start("sign-in", simulator, table, name: "first")
        #expect(await machine.next() == "signed in")
        #expect(await machine.end() == 0)
    }

    /// One machine.
    private struct Machine {
        let program: RunningProgram
        let output: OutputReader

        /// Returns the next line of its output; `nil` at its end.
        func next() async -> String? { await onAThread { output.line() } }

        /// Waits for its end, and returns its exit status.
        func end() async -> Int { await onAThread { program.wait() } }

        /// Runs work that blocks.
        private func onAThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
            await withCheckedContinuation { result in
                DispatchQueue.global().async { result.resume(returning: work()) }
            }
        }
    }

    private func start(_ role: String, _ simulator: Simulator, _ table: String, name: String) throws -> Machine {
        let folder = try #require(folder)
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let home = folder.path(name)
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        let program = try RunningProgram(
            URL(filePath: tests).deletingLastPathComponent().path + "/SharedStoreUser",
            [role, table, "\(simulator.issuer.port ?? 0)"],
            environment: ["HOME": home, "XDG_STATE_HOME": home + "/state"], input: .held, output: .pipe,
            errors: .inherited, isGuarded: true)
        return Machine(program: program, output: try #require(program.output))
    }

    /// The number of refreshes that the service was asked for, for each refresh token.
    private func refreshes(_ simulator: Simulator) -> [String: Int] {
        let tokens = simulator.receivedRequests.filter { $0.target == "/oauth/token" }.compactMap { request in
            (try? ChappieJSON(parsing: request.body))?["refresh_token"]?.string
        }
        return tokens.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    /// Starts `count` machines, lets them ask at the same time, and returns what each reports.
    private func ask(_ count: Int, _ simulator: Simulator, _ table: String) async throws -> [String] {
        let machines = try (0..<count).map { try start("ask", simulator, table, name: "machine-\($0)") }
        for machine in machines { #expect(await machine.next() == "ready") }
        for machine in machines { machine.program.endInput() }
        var reports: [String] = []
        for machine in machines { reports.append(await machine.next() ?? "nothing") }
        for machine in machines { #expect(await machine.end() == 0) }
        return reports
    }

    @Test(.timeLimit(.minutes(5)), arguments: [2, 4], [60, 1])
    func `machines that ask at the same time renew once and all get an answer`(_ count: Int, _ lifetime: Int)
        async throws
    {
        try await withService(accessEndsIn: lifetime) { simulator, table in
            for round in 1...2 {
                try await signIn(simulator, table)
                let reports = try await ask(count, simulator, table)
                #expect(reports == Array(repeating: "answered", count: count))
                #expect(refreshes(simulator).count == round)
                #expect(refreshes(simulator).values.allSatisfy { $0 == 1 })
            }
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a machine that dies before its request delays nobody for long`() async throws {
        try await withService(accessEndsIn: 1) { simulator, table in
            try await signIn(simulator, table)
            let holder = try start("hold", simulator, table, name: "holder")
            #expect(await holder.next() == "holds")
            holder.program.end()
            #expect(try await ask(2, simulator, table) == ["answered", "answered"])
            #expect(Array(refreshes(simulator).values) == [1])
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a machine that dies during its request destroys no newer sign-in`() async throws {
        try await withService(accessEndsIn: 1) { simulator, table in
            try await signIn(simulator, table)
            let holder = try start("ask", simulator, table, name: "holder")
            #expect(await holder.next() == "ready")
            holder.program.endInput()
            while refreshes(simulator).isEmpty { await Task.yield() }
            holder.program.end()
            let begin = ContinuousClock.now
            let reports = try await ask(2, simulator, table)
            // The service has ended the sign-in at the second use, which came once the lease had ended.
            #expect(ContinuousClock.now - begin > .seconds(2))
            #expect(Set(reports).count == 1)
            #expect(reports[0].contains("reauthenticationRequired"))
            #expect(Array(refreshes(simulator).values) == [2])
            // The next sign-in is nobody else's to delete.
            try await signIn(simulator, table)
            #expect(try await ask(2, simulator, table) == ["answered", "answered"])
        }
    }

    @Test(arguments: SharedCredentialStoreContract.cases)
    func filesBesideTheCredentialKeepTheContract(_ contractCase: SharedCredentialStoreContract.Case) async throws {
        let folder = try #require(folder)
        try await contractCase.run {
            LocalCredentialStore(
                FolderStore(folder: folder.path("plain")), lock: FileCredentialLock(directory: folder.path("locks")))
        }
    }

    /// A store over files, without any care.
    private struct FolderStore: CredentialStore {
        let folder: String

        func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
            (try? Data(contentsOf: URL(filePath: "\(folder)/\(slot.account)"))).map { Secret(Array($0)) }
        }

        func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
            try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            do {
                try secret.withBytes { Data($0) }.write(
                    to: URL(filePath: "\(folder)/\(slot.account)"), options: .atomic)
            } catch {
                throw .failed("it can't be written")
            }
        }

        func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {
            try? FileManager.default.removeItem(atPath: "\(folder)/\(slot.account)")
        }
    }
}
