@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// One run of a server's program, or one session with a server that is reached over HTTP. It is the shell around
/// ``MCPSession``.
final class MCPConnection: Sendable {
    private struct State {
        var session: MCPSession
        var answers: [Int: Waiting] = [:]
        /// The description of the server for the model, or an empty string if the server has none.
        var about = ""
        /// The last bytes of the server's standard error.
        var words: [UInt8] = []
        var outputHasEnded = false
        /// The latest tools, and the number of announced changes when they were requested.
        var tools: (changes: Int, list: ToolList)?
        /// Whether there was anything to read, and the number of announced changes at that time.
        var hasResources: (changes: Int, is: Bool)?
    }

    /// A request that waits for its answer.
    private struct Waiting {
        let promise = Promise<ChappieJSON>()
        let since = ContinuousClock.now
        let limit: Duration
        /// The time at which the request is given up. Progress postpones it.
        var until: ContinuousClock.Instant
        let onProgress: (@Sendable (MCPProgress) -> Void)?

        init(limit: Duration, onProgress: (@Sendable (MCPProgress) -> Void)?) {
            self.limit = limit
            self.onProgress = onProgress
            until = since + limit
        }

        mutating func postpone() { until = min(.now + limit, since + limit * MCPConnection.progressFactor) }
    }

    /// The number of limits that a call may take if it reports progress.
    static let progressFactor = 12

    typealias ToolList = (tools: [MCPTool], skipped: [ChappieMCPSkippedTool])

    /// The time that a server has to end by itself, which is also the time that it has after SIGTERM.
    static let grace = Duration.seconds(2)
    private static let wordsLimit = 4096

    private let server: String
    private let limits: MCPSession.Limits
    private let log: MCPLog?
    private let state: Mutex<State>
    private let link = Mutex<(any MCPLink)?>(nil)
    private let start: MCPServerStart
    /// A promise that is fulfilled when the program has ended.
    let hasEnded = Promise<Void>()

    init(server: String, reachedBy start: MCPServerStart, limits: MCPSession.Limits, log: MCPLog?) {
        self.log = log
        self.start = start
        self.server = server
        self.limits = limits
        state = Mutex(State(session: MCPSession(server: server, limits: limits, capabilities: start.capabilities)))
    }

    /// Opens the link and waits for the handshake.
    ///
    /// - Throws: ``ChappieMCPError`` or `CancellationError`. In both cases, this method also ends the link.
    func begin(within limit: Duration) async throws {
        log?.note(start.note)
        do throws(MCPServerStart.Failure) {
            let opened = try start.open(limits.line, limits.unread) { [self] in received($0) }
            link.withLock { $0 = opened }
            // The program may have closed its output before `link` was set.
            if state.withLock(\.outputHasEnded) { opened.end(patience: Self.grace, grace: Self.grace) }
        } catch {
            hasEnded.fulfil(.success(()))
            throw self.error(.notStarted, "it does not start: \(error.reason)")
        }
        let answer = try await endingOnFailure { try await request("the handshake", within: limit) { $0.start() } }
        let title = answer["serverInfo"]?["title"]?.string.map { " (\($0))" } ?? ""
        let instructions = answer["instructions"]?.string?.trimmed ?? ""
        guard !title.isEmpty || !instructions.isEmpty else { return }
        let about = MCPTool.bounded("Tools of \(server)\(title). \(instructions)".trimmedEnd)
        state.withLock { $0.about = about }
    }

    /// The server's description of itself for the model, or an empty string if it has none.
    var about: String { state.withLock(\.about) }

    /// Returns the current tools. This method asks the server again if the server has announced a change of the list.
    ///
    /// - Throws: The errors of ``begin(within:)``. A server that cannot list its tools is also ended.
    func tools(within limit: Duration) async throws -> ToolList {
        let (changes, known) = state.withLock { ($0.session.changes[.tools] ?? 0, $0.tools) }
        if start.announcesChanges, let known, known.changes == changes { return known.list }
        let list = MCPTool.read(try await endingOnFailure { try await self.list(.tools, within: limit) })
        state.withLock { $0.tools = (changes, list) }
        return list
    }

    /// Returns the current entries of a list, unchecked.
    ///
    /// - Throws: ``ChappieMCPError`` or `CancellationError`.
    func list(_ list: MCPList, within limit: Duration) async throws -> [ChappieJSON] {
        try await request("the list of \(list.words)", within: limit) { $0.list(list) }.array ?? []
    }

    /// Returns the current resources and resource templates. A server may have no templates and not know the method.
    ///
    /// - Throws: The errors of ``list(_:within:)``.
    func resources(within limit: Duration) async throws -> [ChappieMCPResource] {
        let plain = try await list(.resources, within: limit)
        var templates: [ChappieJSON] = []
        do {
            templates = try await list(.resourceTemplates, within: limit)
        } catch let error as ChappieMCPError where error.code == .refused {}
        return plain.compactMap { ChappieMCPResource($0, isTemplate: false) }
            + templates.compactMap { ChappieMCPResource($0, isTemplate: true) }
    }

    /// Returns whether the server has something to read. The server is asked once, and again when it announces a change
    /// of its list. A server that fails to answer has nothing to read.
    func hasResources(within limit: Duration) async throws -> Bool {
        let (changes, known, isOffered) = state.withLock { state in
            (state.session.changes[.resources] ?? 0, state.hasResources, state.session.offers(.resources))
        }
        guard isOffered else { return false }
        if let known, known.changes == changes { return known.is }
        var answer = false
        do {
            answer = try await !resources(within: limit).isEmpty
        } catch is ChappieMCPError {}
        state.withLock { [answer] in $0.hasResources = (changes, answer) }
        return answer
    }

    /// Calls a tool once. If the caller is cancelled, the server gets a notification. Each report of progress restarts
    /// the limit.
    ///
    /// - Throws: ``ChappieMCPError`` or `CancellationError`.
    func call(
        _ tool: String, _ arguments: ChappieJSON, within limit: Duration,
        onProgress: @escaping @Sendable (MCPProgress) -> Void
    ) async throws -> ChappieJSON {
        try await request(tool, within: limit, onProgress: onProgress) { $0.call(tool, arguments) }
    }

    /// Sends a request and returns its result.
    ///
    /// - Parameter what: the name of the requested thing, for a message.
    /// - Throws: The errors of ``call(_:_:within:onProgress:)``.
    func ask(
        _ method: String, _ parameters: ChappieJSONObject, for what: String, within limit: Duration
    ) async throws -> ChappieJSON {
        try await request(what, within: limit) { $0.ask(method, parameters) }
    }

    /// Ends the program. Its input ends, then it gets SIGTERM, then SIGKILL.
    func end(because error: ChappieMCPError) {
        perform { ($0.session.end(because: error), ()) }
        link.withLock(\.self)?.end(patience: Self.grace, grace: Self.grace)
    }

    /// Whether the server accepts calls.
    var isOpen: Bool { !hasEnded.isFulfilled && !state.withLock(\.session.isOver) }

    // MARK: Requests

    private func request(
        _ what: String, within limit: Duration, onProgress: (@Sendable (MCPProgress) -> Void)? = nil,
        _ begin: (inout MCPSession) -> (id: Int, actions: [MCPSession.Action])
    ) async throws -> ChappieJSON {
        let answer = Waiting(limit: limit, onProgress: onProgress)
        let id = perform { state in
            let (id, actions) = begin(&state.session)
            state.answers[id] = answer
            return (actions, id)
        }
        let timer = Task.detached {
            while let until = self.state.withLock({ $0.answers[id]?.until }), until > .now {
                try await Task.sleep(until: until, clock: .continuous)
            }
            self.giveUp(id, self.error(.timedOut, "\(what) did not come within \(limit)"))
        }
        defer { timer.cancel() }
        do {
            return try await answer.promise.value()
        } catch is CancellationError {
            giveUp(id, error(.timedOut, "the client gave up the request"))
            throw CancellationError()
        }
    }

    private func giveUp(_ id: Int, _ error: ChappieMCPError) {
        perform { ($0.session.giveUp(id, because: error), ()) }
    }

    private func endingOnFailure<Value>(_ work: () async throws -> Value) async throws -> Value {
        do {
            return try await work()
        } catch {
            end(because: error as? ChappieMCPError ?? self.error(.closed, "its start was cancelled"))
            throw error
        }
    }

    // MARK: The link

    private func received(_ event: MCPLinkEvent) {
        switch event {
        case .bytes(let bytes): perform { ($0.session.receivedBytes(bytes), ()) }
        case .errors(let bytes):
            log?.errors(bytes)
            state.withLock { $0.words = Array(($0.words + bytes).suffix(Self.wordsLimit)) }
        case .outputEnded:
            state.withLock { $0.outputHasEnded = true }
            // The exit code is more informative. It arrives soon, or after the signals.
            link.withLock(\.self)?.end(patience: Self.grace, grace: Self.grace)
        case .lost(let id, let code, let reason):
            perform { ($0.session.lose(id, because: error(code, reason)), ()) }
        case .ended(let reason):
            log?.errorsEnded()
            log?.note(reason)
            perform { ($0.session.end(because: error(.ended, reason)), ()) }
            link.withLock { $0 = nil }
            hasEnded.fulfil(.success(()))
        }
    }

    /// Changes the state and carries out the actions of the session.
    @discardableResult
    private func perform<Value>(_ change: (inout State) -> ([MCPSession.Action], Value)) -> Value {
        typealias Finished = (
            id: Int, answer: Promise<ChappieJSON>, since: ContinuousClock.Instant,
            result: Result<ChappieJSON, ChappieMCPError>
        )
        typealias Outcome = (
            sent: [ChappieJSON], finished: [Finished], reports: [@Sendable () -> Void], isOver: Bool, value: Value
        )
        let outcome = state.withLock { state -> Outcome in
            // The log is written after the lock is released.
            var sent: [ChappieJSON] = []
            var finished: [Finished] = []
            var reports: [@Sendable () -> Void] = []
            var isOver = false
            var (actions, value) = change(&state)
            var next = 0
            while next < actions.count {
                switch actions[next] {
                case .send(let message):
                    if log != nil { sent.append(message) }
                    // The lock is held so that messages keep their order. Sending does not wait.
                    if link.withLock(\.self)?.send(message) == false {
                        let reason = "it does not read what is sent to it"
                        actions += state.session.end(because: error(.protocolViolation, reason))
                    }
                case .finish(let id, let result):
                    let words = Self.lastWords(state.words)
                    guard let answer = state.answers.removeValue(forKey: id) else { break }
                    finished.append((id, answer.promise, answer.since, result.mapError { $0.adding(lastWords: words) }))
                case .progress(let id, let progress):
                    state.answers[id]?.postpone()
                    if let report = state.answers[id]?.onProgress { reports.append { report(progress) } }
                case .abandon: isOver = true
                }
                next += 1
            }
            return (sent, finished, reports, isOver, value)
        }
        for message in outcome.sent { log?.sent(message) }
        for report in outcome.reports { report() }
        for (id, answer, since, result) in outcome.finished {
            log?.finished(id, result, after: .now - since)
            answer.fulfil(result.mapError { $0 as any Error })
        }
        if outcome.isOver { link.withLock(\.self)?.end(patience: Self.grace, grace: Self.grace) }
        return outcome.value
    }

    private func error(_ code: ChappieMCPError.Code, _ reason: String) -> ChappieMCPError {
        ChappieMCPError(code, server: server, reason: reason)
    }

    /// Returns the last lines, cleaned for display.
    private static func lastWords(_ bytes: [UInt8]) -> String {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").suffix(5)
        return UntrustedText.message(lines.joined(separator: " / "), limit: 500) ?? ""
    }
}
