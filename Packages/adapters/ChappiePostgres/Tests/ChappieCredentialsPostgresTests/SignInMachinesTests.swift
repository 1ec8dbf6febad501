import ChappieAuth
import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import Dispatch
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

/// Several machines with one table of sign-ins, each a process with its own home and state folder, and a service that ends a
/// sign-in when its refresh token arrives a second time. Their leases last for 2 and 6 seconds.
@Suite(.serialized, .postgres, .enabled(if: PostgresServer.program.isUsable, "PostgreSQL 15 is not installed here"))
struct SignInMachinesTests {
    private let folder: TemporaryDirectory
    private let server: PostgresServer

    init() throws {
        folder = try TemporaryDirectory()
        server = try #require(PostgresServer.current)
    }

    // MARK: Parts of a test

    /// A service whose token endpoint takes its time, and a table with a sign-in that is due or has ended.
    private func withService(
        accessEndsIn lifetime: Int, _ body: (Simulator, _ address: String) async throws -> Void
    ) async throws {
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
        let database = "machines_\(UUID().uuidString.prefix(8).lowercased())"
        try await server.makeDatabase(database)
        do {
            try await body(simulator, server.address(of: database))
        } catch {
            await simulator.stop()
            throw error
        }
        await simulator.stop()
    }

    /// Signs in on one machine.
    private func signIn(_ simulator: Simulator, _ address: String) async throws {
        let machine = try start("sign-in", simulator, address, name: "first")
        #expect(await machine.next() == "signed in")
        #expect(await machine.end() == 0)
    }

    /// One machine.
    private struct Machine {
        let program: RunningProgram
        let output: OutputReader

        /// Returns the next line of its output, or `nil` at its end.
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

    private func start(
        _ role: String, _ simulator: Simulator, _ address: String, name: String
    ) throws -> Machine {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let home = folder.path(name)
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        let program = try RunningProgram(
            URL(filePath: tests).deletingLastPathComponent().path + "/PostgresSignInUser",
            [role, address, "\(simulator.issuer.port ?? 0)"],
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

    private func waitForARefresh(_ simulator: Simulator) async throws {
        #expect(try await eventually { !refreshes(simulator).isEmpty })
    }

    /// Starts `count` machines, lets them ask at the same time, and returns what each reports.
    private func ask(
        _ count: Int, _ simulator: Simulator, _ address: String, as role: String = "ask"
    ) async throws -> [String] {
        let machines = try (0..<count).map { try start(role, simulator, address, name: "machine-\($0)") }
        for machine in machines { #expect(await machine.next() == "ready") }
        for machine in machines { machine.program.endInput() }
        var reports: [String] = []
        for machine in machines { reports.append(await machine.next() ?? "nothing") }
        for machine in machines { #expect(await machine.end() == 0) }
        return reports
    }

    /// Starts a machine that asks, and returns it when it is at the moment that its role names.
    private func startAsking(
        _ role: String, _ simulator: Simulator, _ address: String, name: String = "holder"
    ) async throws -> Machine {
        let machine = try start(role, simulator, address, name: name)
        #expect(await machine.next() == "ready")
        machine.program.endInput()
        if role.contains("stopping") { #expect(await machine.next() == "stops") }
        return machine
    }

    private let answered = "answered"

    // MARK: Two and more machines

    @Test(.timeLimit(.minutes(5)), arguments: [(2, 60), (2, 1), (4, 60), (4, 1), (16, 60), (16, 1)])
    func `machines that ask at the same time renew once and all get an answer`(_ count: Int, _ lifetime: Int)
        async throws
    {
        let isLong = ProcessInfo.processInfo.environment["CHAPPIE_LONG_TESTS"] != nil
        try await withService(accessEndsIn: lifetime) { simulator, address in
            for round in 1...(isLong ? 20 : count == 16 ? 1 : 2) {
                try await signIn(simulator, address)
                let reports = try await ask(count, simulator, address)
                #expect(reports == Array(repeating: answered, count: count))
                #expect(refreshes(simulator).count == round)
                #expect(refreshes(simulator).values.allSatisfy { $0 == 1 })
            }
        }
    }

    @Test(.timeLimit(.minutes(5)), .enabled(if: PgBouncer.program.isUsable, "pgbouncer is not installed here"))
    func `machines behind a pooler that shares connections renew once and all get an answer`() async throws {
        let pooler = try await PgBouncer(before: server)
        defer { pooler.end() }
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let pooled = address.replacing(":\(server.port)/", with: ":\(pooler.port)/")
            let reports = try await ask(16, simulator, pooled)
            #expect(reports == Array(repeating: answered, count: 16))
            #expect(Array(refreshes(simulator).values) == [1])
        }
    }

    @Test(.timeLimit(.minutes(5))) func `a renewal takes little more time than its request`() async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let machine = try await startAsking("ask-timed", simulator, address)
            let milliseconds = try #require(Double(await machine.next() ?? ""))
            // The service answers after a second. The time is for people to read, because other programs may run, too.
            #expect(milliseconds >= 1000)
            print("measured: a renewal took \(milliseconds) ms, of which the service waited 1000 ms")
            #expect(await machine.next() == answered)
            #expect(await machine.end() == 0)
        }
    }

    // MARK: Machines that die

    @Test(.timeLimit(.minutes(5)))
    func `a machine that dies before its request delays nobody for long`() async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let holder = try start("hold", simulator, address, name: "holder")
            #expect(await holder.next() == "holds")
            holder.program.end()
            #expect(try await ask(2, simulator, address) == [answered, answered])
            #expect(Array(refreshes(simulator).values) == [1])
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a machine that dies during its request destroys no newer sign-in`() async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let holder = try await startAsking("ask", simulator, address)
            try await waitForARefresh(simulator)
            holder.program.end()
            let begin = ContinuousClock.now
            let reports = try await ask(2, simulator, address)
            // The service has ended the sign-in at the second use, which came once the lease had ended.
            #expect(ContinuousClock.now - begin > .seconds(2))
            #expect(reports.allSatisfy { $0.contains("reauthenticationRequired") }, "\(reports)")
            #expect(Array(refreshes(simulator).values) == [2])
            // The next sign-in is nobody else's to delete.
            try await signIn(simulator, address)
            #expect(try await ask(2, simulator, address) == [answered, answered])
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a machine that dies during its request stops nobody whose token is only due`() async throws {
        try await withService(accessEndsIn: 60) { simulator, address in
            try await signIn(simulator, address)
            let role = "ask-with-long-leases"
            let holder = try await startAsking(role, simulator, address)
            try await waitForARefresh(simulator)
            holder.program.end()
            #expect(try await ask(2, simulator, address, as: role) == [answered, answered])
            #expect(Array(refreshes(simulator).values) == [1])
        }
    }

    // MARK: Machines that stop for a while

    @Test(.timeLimit(.minutes(5)))
    func `a machine that stops before its request past its lease sends nothing and uses the other's tokens`()
        async throws
    {
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let stopped = try await startAsking("ask-stopping-before-request", simulator, address)
            #expect(try await ask(1, simulator, address) == [answered])
            stopped.program.signal(SIGCONT)
            #expect(await stopped.next() == answered)
            #expect(await stopped.end() == 0)
            #expect(Array(refreshes(simulator).values) == [1])
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a machine that stops before it saves does not replace a newer sign-in`() async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let stopped = try await startAsking("ask-stopping-before-save", simulator, address)
            // The lease ends while it stands still, and the user signs in anew elsewhere.
            try await signIn(simulator, address)
            stopped.program.signal(SIGCONT)
            _ = await stopped.next()
            #expect(await stopped.end() == 0)
            // A revocation of the late tokens could end the new sign-in of the same user.
            #expect(!simulator.receivedRequests.contains { $0.target.contains("/revoke") })
            #expect(try await ask(2, simulator, address) == [answered, answered])
            #expect(refreshes(simulator).values.allSatisfy { $0 == 1 })
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a machine that stops during its request and continues in time is the only one that asks`() async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            try await signIn(simulator, address)
            let stopped = try await startAsking("ask", simulator, address)
            try await waitForARefresh(simulator)
            stopped.program.signal(SIGSTOP)
            let other = try await startAsking("ask", simulator, address, name: "other")
            let waiting = "SELECT count(*) FROM chappie.credentials WHERE held_until > now() + interval '1 s'"
            let database = String(address.split(separator: "/").last?.prefix { $0 != "?" } ?? "")
            #expect(try await server.sql(waiting, in: database) == "1")
            stopped.program.signal(SIGCONT)
            #expect(await stopped.next() == answered)
            #expect(await other.next() == answered)
            #expect(Array(refreshes(simulator).values) == [1])
        }
    }

    // MARK: A server that stops

    @Test(.timeLimit(.minutes(5)))
    func `restarts of the database during renewals lose no sign-in`() async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            for round in 1...5 {
                try await signIn(simulator, address)
                let machines = try (0..<2).map { try start("ask", simulator, address, name: "machine-\($0)") }
                for machine in machines { #expect(await machine.next() == "ready") }
                for machine in machines { machine.program.endInput() }
                #expect(try await eventually { refreshes(simulator).count == round })
                try await server.restart()
                for machine in machines { #expect(await machine.next() == answered) }
                for machine in machines { #expect(await machine.end() == 0) }
                #expect(refreshes(simulator).count == round)
                #expect(refreshes(simulator).values.allSatisfy { $0 == 1 })
                #expect(try await ask(1, simulator, address) == [answered])
            }
        }
    }

    /// The proxy cuts at each message of the time from the renewal's answer on: of the save, of its COMMIT, of the rest.
    @Test(.timeLimit(.minutes(5)), arguments: CuttingProxy.Direction.allCases)
    func `a connection that breaks while the new tokens are saved loses no sign-in`(
        _ direction: CuttingProxy.Direction
    ) async throws {
        try await withService(accessEndsIn: 1) { simulator, address in
            let proxy = try CuttingProxy(to: server.port)
            defer { proxy.close() }
            let cut = address.replacing(":\(server.port)/", with: ":\(proxy.port)/")
            for message in stride(from: 0, to: 12, by: 3) {
                try await signIn(simulator, address)
                let before = refreshes(simulator).count
                let machine = try await startAsking("ask", simulator, cut)
                #expect(try await eventually { refreshes(simulator).count == before + 1 })
                proxy.count(cuttingAt: .init(direction: direction, message: message, passesHalf: false))
                #expect(await machine.next() == answered)
                #expect(await machine.end() == 0)
                #expect(try await ask(1, simulator, address) == [answered])
                #expect(refreshes(simulator).values.allSatisfy { $0 == 1 })
            }
        }
    }
}
