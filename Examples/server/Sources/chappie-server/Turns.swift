import ChappieSDK
import ChappieSDKRuntime
import ChappieThreadsPostgres

/// A turn that this machine runs, or ran a moment ago.
final class Turn: Sendable {
    /// The turn of the current task, for tools.
    @TaskLocal static var current: Turn?

    let user: String
    let thread: String
    /// The id, which the thread has for the turn as soon as it has begun.
    let id: Task<String, any Error>
    let log = EventLog()

    init(_ user: String, _ thread: String, id: Task<String, any Error>) {
        self.user = user
        self.thread = thread
        self.id = id
    }

    /// Adds the turn's events to the log, and returns the answer.
    func follow(_ events: AsyncThrowingStream<ChappieStreamEvent, any Error>) async throws -> String {
        var answer = ""
        for try await event in events {
            switch event {
            case .textDelta(let text): log.add(delta: text)
            case .restarted(let discarded): log.discard(discarded)
            case .toolCallCompleted(let result): log.add("tool", ["name": .string(result.call.name)])
            case .notice(let notice): log.add("notice", ["text": .string(notice.message)])
            case .completed(let response): answer = response.outputText
            default: break
            }
        }
        return answer
    }
}

extension ChappieApprovalRequest {
    fileprivate var question: ChappieJSON {
        ["id": .string(id), "tool": .string(call.name), "arguments": call.argumentsJSON ?? .string(call.arguments)]
    }
}

/// The turns of all users. A turn runs on the machine that was asked, and its record is in the thread. Other machines
/// watch it there, and one of them continues it if its machine is lost.
actor Turns {
    private struct Place: Hashable {
        let user: String
        let thread: String
    }

    /// A turn is kept for this time after its end, for pages that lost the connection just before.
    private static let keeping = Duration.seconds(10)

    private let pool: ChappieClientPool
    private let database: ChappiePostgresDatabase
    private let tables: ServerTables
    private var turns: [String: Turn] = [:]
    private var busy: Set<Place> = []
    private(set) var isStopping = false

    init(pool: ChappieClientPool, database: ChappiePostgresDatabase, tables: ServerTables) {
        self.pool = pool
        self.database = database
        self.tables = tables
    }

    /// The number of turns that this machine runs, for a gauge.
    var runningCount: Int { busy.count }

    // MARK: Beginning

    /// Begins a turn, which does not end when the page goes. The question is stored when this method returns.
    ///
    /// - Returns: The turn's id.
    func begin(_ question: String, in thread: String, of user: String) async throws -> String {
        guard busy.insert(Place(user: user, thread: thread)).inserted else { throw ChappieClientError.tooManyTurns }
        let events: AsyncStream<ChappieThreadEvent>
        do {
            events = try await pool.withRuntime(thread: thread, for: user) { $0.events }
        } catch {
            busy.remove(Place(user: user, thread: thread))
            throw error
        }
        // The first event is the turn's beginning.
        let id = Task {
            for await event in events { return event.turnID }
            throw CancellationError()
        }
        let turn = Turn(user, thread, id: id)
        let run = Task { [pool] in
            try await self.run(turn) {
                try await turn.follow(pool.stream(question, thread: thread, for: user))
            }
        }
        let name: String
        do {
            name = try await id.value
        } catch {
            // The turn has failed before it began.
            try await run.value
            throw error
        }
        turns[name] = turn
        try await tables.begin(name, in: thread, of: user)
        return name
    }

    /// Continues a turn that waits for the user or was abandoned by its machine.
    ///
    /// - Returns: Whether this machine continues it. Otherwise another one does.
    @discardableResult
    func resume(
        _ id: String, in thread: String, of user: String, decisions: [String: ChappieApprovalDecision] = [:]
    ) async throws -> Bool {
        guard busy.insert(Place(user: user, thread: thread)).inserted else { return false }
        let turn = Turn(user, thread, id: Task { id })
        do {
            guard try await tables.takeOver(id, waits: !decisions.isEmpty) else {
                busy.remove(Place(user: user, thread: thread))
                return false
            }
        } catch {
            busy.remove(Place(user: user, thread: thread))
            throw error
        }
        turns[id] = turn
        Task { [pool] in
            try await self.run(turn) {
                try await pool.withRuntime(thread: thread, for: user) { runtime in
                    // The runtime may know the thread from an earlier turn.
                    guard try await runtime.openThread(thread).resumableTurn?.id == id else {
                        throw ChappieRuntimeError.turnTakenOver
                    }
                    return try await turn.follow(runtime.streamResumingTurn(decisions: decisions))
                }
            }
        }
        return true
    }

    private func run(_ turn: Turn, _ work: () async throws -> String) async throws {
        // Nothing else runs here between the end of the log and this, so a page that sees the end may ask again.
        defer {
            turn.id.cancel()
            busy.remove(Place(user: turn.user, thread: turn.thread))
        }
        do {
            let answer = try await Turn.$current.withValue(turn) { try await work() }
            turn.log.end("done", ["text": .string(answer)])
        } catch ChappieClientError.approvalPending {
            // The question is in the thread. Any machine can continue the turn with the user's answer.
            turn.log.end()
        } catch ChappieRuntimeError.turnTakenOver, ChappieThreadStoreError.conflict {
            // Another machine runs the turn, and the readers watch the thread.
            turn.log.end()
        } catch {
            turn.log.end("failed", ["reason": .string(sentence(of: error))])
            throw error
        }
    }

    /// Interrupts a turn of the user, which keeps the text so far. Returns whether it runs on this machine.
    func stop(_ id: String, of user: String) async throws -> Bool {
        guard let turn = turns[id], turn.user == user, turn.log.endedAt == nil else { return false }
        try await pool.withRuntime(thread: turn.thread, for: user) { await $0.interrupt() }
        return true
    }

    /// Approves or denies a call of a turn that waits for the user. Returns whether the turn waits for it.
    func decide(_ call: String, _ decision: ChappieApprovalDecision, in id: String, of user: String) async throws
        -> Bool
    {
        guard let row = try await tables.find(id, of: user) else { return false }
        let stored = try await database.threads(of: user).thread(row.thread).turns.last
        guard let stored, stored.id == id, stored.approvals.contains(where: { $0.id == call }) else { return false }
        return try await resume(id, in: row.thread, of: user, decisions: [call: decision])
    }

    // MARK: Stopping

    /// Reports every two seconds that this machine is alive, and forgets turns that have ended.
    func keepAlive() async throws {
        for count in 0... {
            try await Task.sleep(for: .seconds(2))
            turns = turns.filter { $0.value.log.endedAt.map { $0.duration(to: .now) < Self.keeping } ?? true }
            do {
                let running = turns.filter { $0.value.log.endedAt == nil }.map(\.key)
                if !running.isEmpty { try await tables.beat(for: running) }
                if count % 1800 == 1799 { try await tables.removeOld() }
            } catch {
                // The next beat may succeed. Without beats, another machine continues the turns.
                report("This machine could not report that it is alive: \(error)")
            }
        }
    }

    /// Refuses new turns, and returns when the running ones have ended and are stored.
    func stop() async {
        isStopping = true
        await pool.stop()
    }

    // MARK: Watching

    /// Sends a page the events of a turn, wherever it runs, until it ends.
    nonisolated func send(_ id: String, of user: String, to reader: inout EventReader) async throws {
        var shown: Set<String> = []
        while true {
            if let log = await log(of: id, of: user) {
                try await log.send(to: &reader)
                if log.isComplete { return }
            }
            guard let row = try await tables.find(id, of: user) else {
                return try await reader.send("failed", ["reason": "There is no such turn."])
            }
            let stored = try await database.threads(of: user).thread(row.thread).turns.first { $0.id == id }
            switch stored?.status {
            case .finished:
                let text = ChappieJSON.string(stored?.outputText ?? "")
                try await reader.restart()
                try await reader.send("delta", text)
                return try await reader.send("done", ["text": text])
            case .waitingForApproval:
                for request in stored?.approvals ?? [] where shown.insert(request.id).inserted {
                    try await reader.send("approval", request.question)
                }
            case .running where row.isAbandoned:
                if try await resume(id, in: row.thread, of: user) { continue }
            case .running: break
            default:
                let reason = stored?.error ?? "The turn was interrupted."
                return try await reader.send("failed", ["reason": .string(reason)])
            }
            // Another machine answers the page's next attempt.
            guard await !isStopping else { return }
            try await Task.sleep(for: .milliseconds(500))
            try await reader.comment()
        }
    }

    /// Returns the log of a turn that runs here, or ran here a moment ago.
    private func log(of id: String, of user: String) -> EventLog? {
        guard let turn = turns[id], turn.user == user else { return nil }
        return turn.log
    }
}
