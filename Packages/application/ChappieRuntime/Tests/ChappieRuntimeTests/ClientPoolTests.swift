import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieTesting
import Synchronization
import Testing

/// A server's clients: which are kept, which turns are refused, and how they end.
@Suite(.timeLimit(.minutes(1))) struct ClientPoolTests {
    /// A pool over one model, with a store for each user.
    private final class Server: Sendable {
        let model: Model
        let clock = ManualClock()
        private let stores = Mutex<[String: ChappieInMemoryThreadStore]>([:])
        private let made = Mutex<[String]>([])

        init(_ answers: Model.Answer...) { model = Model(answers) }

        /// The users of the runtimes that the pool has created, in order.
        var users: [String] { made.withLock(\.self) }

        func store(of user: String) -> ChappieInMemoryThreadStore {
            stores.withLock { stores in
                let store = stores[user] ?? ChappieInMemoryThreadStore()
                stores[user] = store
                return store
            }
        }

        func pool(_ limits: ChappieClientPool.Limits = .init()) -> ChappieClientPool {
            ChappieClientPool(limits: limits, clock: clock) { user in
                self.made.withLock { $0.append(user) }
                return self.model.client().runtime(store: self.store(of: user))
            }
        }

        /// The words of the last request.
        var lastInput: [String] { model.inputs.last.map(Model.words) ?? [] }

        func thread(_ id: String, of user: String) throws -> ChappieThread {
            try ChappieThread(id: id, records: store(of: user).records(of: id, from: 0))
        }
    }

    /// Waits until no turn is unfinished.
    private func turnsEnd(_ pool: ChappieClientPool, leaving count: Int = 0) async {
        while await pool.turnCount > count { await Task.yield() }
    }

    @Test func `a user and a thread have one client`() async throws {
        let server = Server(.text("1"), .text("2"), .text("3"), .text("4"))
        let pool = server.pool()
        #expect(try await pool.send("one", thread: "main", for: "ann") == "1")
        #expect(try await pool.send("two", thread: "main", for: "ann") == "2")
        #expect(server.lastInput == ["one", "1", "two"])
        #expect(try await pool.send("three", thread: "other", for: "ann") == "3")
        #expect(server.lastInput == ["three"])
        #expect(try await pool.send("four", thread: "main", for: "bob") == "4")
        #expect(server.lastInput == ["four"])
        #expect(server.users == ["ann", "ann", "bob"])
        #expect(await pool.clientCount == 3)
    }

    @Test func `the client that was used least recently goes first, and its conversation comes back`() async throws {
        let server = Server(.text("1"), .text("2"), .text("3"), .text("4"), .text("5"))
        let pool = server.pool(.init(clients: 2))
        for user in ["ann", "bob", "ann", "cid"] {
            try await pool.send("by \(user)", thread: "main", for: user)
            server.clock.advance(by: .seconds(1))
        }
        #expect(await pool.clientCount == 2)
        #expect(server.users == ["ann", "bob", "cid"])
        try await pool.send("again", thread: "main", for: "bob")
        #expect(server.users == ["ann", "bob", "cid", "bob"])
        #expect(server.lastInput == ["by bob", "2", "again"])
        #expect(try server.thread("main", of: "bob").turns.map(\.outputText) == ["2", "5"])
    }

    @Test func `an idle client is released after its time`() async throws {
        let server = Server(.text("1"), .text("2"))
        let pool = server.pool(.init(idle: .seconds(60)))
        try await pool.send("one", thread: "main", for: "ann")
        await server.clock.waitForSleepers(count: 1, due: .seconds(60))
        server.clock.advance(by: .seconds(30))
        try await pool.send("two", thread: "main", for: "bob")
        server.clock.advance(by: .seconds(30))
        while await pool.clientCount == 2 { await Task.yield() }
        #expect(await pool.clientCount == 1)
        await server.clock.waitForSleepers(count: 1, due: .seconds(30))
        server.clock.advance(by: .seconds(30))
        while await pool.clientCount == 1 { await Task.yield() }
    }

    @Test func `a client with a running turn is never released`() async throws {
        let gate = ScriptedGate()
        let server = Server(.waiting(gate, "late"), .text("2"))
        let pool = server.pool(.init(clients: 1, idle: .zero))
        let stream = try await pool.stream("one", thread: "main", for: "ann")
        await gate.reached()
        try await pool.send("two", thread: "main", for: "bob")
        #expect(await pool.clientCount == 1)
        gate.open()
        var text = ""
        for try await event in stream { if case .textDelta(let delta) = event { text += delta } }
        #expect(text == "late")
        #expect(server.users == ["ann", "bob"])
    }

    @Test func `a user's third waiting turn is refused, and other users are served`() async throws {
        let gate = ScriptedGate()
        let server = Server(.waiting(gate, "1"), .text("bob's"), .text("2"), .text("3"), .text("4"))
        let pool = server.pool()
        let first = try await pool.stream("one", thread: "main", for: "ann")
        await gate.reached()
        let waiting = [
            try await pool.stream("two", thread: "main", for: "ann"),
            try await pool.stream("three", thread: "main", for: "ann"),
        ]
        for thread in ["main", "other"] {
            await #expect(throws: ChappieClientError.tooManyTurns) {
                try await pool.send("four", thread: thread, for: "ann")
            }
        }
        #expect(try await pool.send("hello", thread: "main", for: "bob") == "bob's")
        gate.open()
        for stream in [first] + waiting { for try await _ in stream {} }
        await turnsEnd(pool)
        #expect(try await pool.send("four", thread: "main", for: "ann") == "4")
        #expect(server.lastInput == ["one", "1", "two", "2", "three", "3", "four"])
    }

    @Test func `all users together have a limit`() async throws {
        let gate = ScriptedGate()
        let server = Server(.waiting(gate, "1"), .waiting(gate, "2"), .text("3"))
        let pool = server.pool(.init(turnsTotal: 2))
        async let first = pool.send("one", thread: "main", for: "ann")
        async let second = pool.send("two", thread: "main", for: "bob")
        while await pool.turnCount < 2 { await Task.yield() }
        await #expect(throws: ChappieClientError.tooManyTurns) {
            try await pool.send("three", thread: "main", for: "cid")
        }
        gate.open()
        _ = try await (first, second)
        #expect(try await pool.send("three", thread: "main", for: "cid") == "3")
    }

    @Test func `many tasks at the same time share the clients`() async throws {
        let server = Server()
        let pool = ChappieClientPool(limits: .init(clients: 4, turnsWaiting: 19), clock: server.clock) { user in
            let model = Model(Array(repeating: .text("for \(user)"), count: 20))
            return model.client().runtime(store: server.store(of: user))
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                let user = "user-\(number % 5)"
                group.addTask {
                    let answer = try await pool.send("\(number)", thread: "main", for: user)
                    #expect(answer == "for \(user)")
                }
            }
            try await group.waitForAll()
        }
        #expect(await pool.turnCount == 0)
        #expect(await pool.clientCount <= 4)
        for user in 0..<5 { #expect(try server.thread("main", of: "user-\(user)").turns.count == 20) }
    }

    @Test func `a cancelled caller and a released stream give their places back`() async throws {
        let gate = ScriptedGate()
        let server = Server(.waiting(gate, "never"), .text("2"))
        let pool = server.pool(.init(turnsTotal: 2))
        var stream: AsyncThrowingStream<ChappieStreamEvent, any Error>? = try await pool.stream(
            "one", thread: "main", for: "ann")
        await gate.reached()
        let waiting = Task { try await pool.send("two", thread: "main", for: "ann") }
        while await pool.turnCount < 2 { await Task.yield() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        await turnsEnd(pool, leaving: 1)
        withExtendedLifetime(stream) {}
        stream = nil
        await turnsEnd(pool)
        #expect(try await pool.send("three", thread: "main", for: "ann") == "2")
    }

    @Test func `a failed start gives the place back, and the next call starts again`() async throws {
        let server = Server(.text("1"))
        let failures = Mutex(1)
        let pool = ChappieClientPool(limits: .init(turnsTotal: 1), clock: server.clock) { user in
            let fails = failures.withLock { left in
                defer { left -= 1 }
                return left > 0
            }
            if fails { throw ChappieThreadStoreError.unavailable("down") }
            return server.model.client().runtime(store: server.store(of: user))
        }
        await #expect(throws: ChappieThreadStoreError.unavailable("down")) {
            try await pool.send("one", thread: "main", for: "ann")
        }
        #expect(await pool.clientCount == 0)
        #expect(try await pool.send("one", thread: "main", for: "ann") == "1")
    }

    @Test func `a thread that was left or deleted in the runtime is the pool's again`() async throws {
        let server = Server(.text("1"), .text("2"), .text("3"))
        let pool = server.pool()
        try await pool.send("one", thread: "main", for: "ann")
        _ = try await pool.withRuntime(thread: "main", for: "ann") { try await $0.newThread() }
        try await pool.send("two", thread: "main", for: "ann")
        #expect(try server.thread("main", of: "ann").turns.count == 2)
        try await pool.withRuntime(thread: "main", for: "ann") { try await $0.deleteThread("main") }
        try await pool.send("three", thread: "main", for: "ann")
        #expect(try server.thread("main", of: "ann").turns.map(\.outputText) == ["3"])
        #expect(server.users == ["ann"])
    }

    @Test func `stopping interrupts what runs for too long, and keeps its text`() async throws {
        let gate = ScriptedGate()
        let server = Server(.half("half an ans", gate))
        let pool = server.pool()
        let running = Task { try await pool.response(.init(messages: [.user("one")]), thread: "main", for: "ann") }
        await gate.reached()
        let waiting = Task { try await pool.send("two", thread: "main", for: "ann") }
        while await pool.turnCount < 2 { await Task.yield() }
        let stopping = Task { await pool.stop(within: .seconds(10)) }
        await server.clock.waitForSleepers(count: 1, due: .seconds(10))
        await #expect(throws: ChappieClientError.stopping) {
            try await pool.send("three", thread: "main", for: "bob")
        }
        await #expect(throws: ChappieClientError.stopping) {
            try await pool.withRuntime(thread: "main", for: "ann") { _ in }
        }
        server.clock.advance(by: .seconds(10))
        await stopping.value
        #expect(try await running.value.isInterrupted)
        await #expect(throws: (any Error).self) { try await waiting.value }
        let turn = try #require(try server.thread("main", of: "ann").turns.first)
        #expect(turn.outputText == "half an ans" && turn.status == .finished)
        #expect(await pool.clientCount == 0)
        gate.open()
    }

    @Test func `stopping waits for turns that end in time`() async throws {
        let gate = ScriptedGate()
        let server = Server(.waiting(gate, "complete"))
        let pool = server.pool()
        let running = Task { try await pool.send("one", thread: "main", for: "ann") }
        await gate.reached()
        let stopping = Task { await pool.stop(within: .seconds(10)) }
        await server.clock.waitForSleepers(count: 1, due: .seconds(10))
        gate.open()
        await stopping.value
        #expect(try await running.value == "complete")
        #expect(server.clock.elapsed == .zero)
        await pool.stop()
    }
}
