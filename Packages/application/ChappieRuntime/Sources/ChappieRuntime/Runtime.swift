@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
import ChappieJSONSchema

/// A runtime for conversations that outlive the process. A store keeps every turn, step by step, before the next step
/// begins.
///
/// ```swift
/// let runtime = Chappie.client().runtime(store: ChappieFileThreadStore())
/// print(try await runtime.send("Remember the number 7."))        // kept before this returns
/// let thread = try await runtime.listThreads()[0]
/// try await runtime.openThread(thread.id)                        // in the next process
/// print(try await runtime.send("Which number?"))
/// ```
///
/// The client belongs to its runtime, so ask only through the runtime. Turns run one at a time, in the order of the
/// calls. Several processes may write to one thread. Each continues from the records that are there when its turn
/// begins.
///
/// A turn that the user interrupts (``interrupt()``), or whose connection breaks in the middle of the answer, belongs
/// to the conversation with its partial answer. A turn that fails, is cancelled or is interrupted by a crash stays in
/// the thread, marked as such. ``resumeTurn(decisions:)`` continues it if it was interrupted, waits for an approval, or
/// failed after tools were called. Otherwise the next turn includes it. The model gets its question, the text that was
/// shown of the answer, and its tool calls, and a notice informs the user. Only a turn that failed before the model
/// wrote or did anything is left out. Calls of tools are recorded before and after they run. A call that may already
/// have run is not run again, and the model is informed.
public actor ChappieRuntime: ChappieConversation {
    private let client: ChappieClient
    let store: any ChappieThreadStore
    let clock: any ChappieClock
    let entropy: any Entropy
    let observer: (any ChappieObserver)?
    /// The client's queue, which runs one turn at a time.
    nonisolated var queue: TurnQueue { client.queue }
    private let writing = AsyncLock()
    private let broadcast = EventBroadcast()

    /// The thread that receives the turns, or `nil` before the first one.
    private var thread: ChappieThread?
    /// Whether the client has the conversation of ``thread``.
    private var isClientReady = false
    private var own = OwnTurn()
    /// The turn that runs now, and its control.
    private var running: (id: String, control: TurnControl)?
    /// A turn that failed without any output, which the store could not record.
    private var unrecordedFailure: String?

    /// Creates a runtime of a client and a store.
    ///
    /// - Parameters:
    ///   - client: The client that sends the requests, only for this runtime.
    ///   - store: The store that keeps the threads. A store without a place uses the place of this client's app and
    ///     user.
    ///   - clock: The clock for the dates of records.
    ///   - entropy: The source of randomness for ids.
    ///   - observer: Follows what is added to threads, for metrics and traces. Default: the client's.
    public init(
        client: ChappieClient, store: any ChappieThreadStore, clock: any ChappieClock = SystemClock(),
        entropy: any Entropy = SystemEntropy(), observer: (any ChappieObserver)? = nil
    ) {
        self.client = client
        self.observer = observer ?? client.observer
        self.store = store.placed(for: client.configuration.credentialSlot)
        self.clock = clock
        self.entropy = entropy
    }

    // MARK: Turns

    /// Starts a turn in the open thread, or in a new one. The turn is kept before the first request.
    public nonisolated func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle {
        start(.asked(work), endsWithItsStream: endsWithItsStream)
    }

    /// Continues the open thread's last turn, which waits for an approval or was interrupted.
    ///
    /// If several processes try, only one continues it. Calls that may already have run are not run again.
    ///
    /// - Parameter decisions: The user's answers, by the ids of the calls. The user is asked again about calls without
    ///   an answer.
    /// - Throws: The errors of ``send(_:)-(String)``, ``ChappieRuntimeError/nothingToResume``, or
    ///   ``ChappieThreadStoreError/conflict(thread:expected:actual:)`` if another process was faster.
    @discardableResult
    public func resumeTurn(decisions: [String: ChappieApprovalDecision] = [:]) async throws -> ChappieResponse {
        try await start(.rest(decisions), endsWithItsStream: false).responseOrCancel()
    }

    /// Continues the open thread's last turn, and streams it. See ``resumeTurn(decisions:)``.
    public nonisolated func streamResumingTurn(
        decisions: [String: ChappieApprovalDecision] = [:]
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        start(.rest(decisions), endsWithItsStream: true).events
    }

    /// Asks again. If the last turn has an answer, the new answer replaces it, and the model does not see the earlier
    /// one. The earlier turn is taken back as soon as the model calls tools or the new answer is complete. Until then,
    /// and if the attempt fails, is interrupted or ends with its process, the earlier answer stays.
    ///
    /// - Parameters:
    ///   - request: The request, which usually has the messages of the last turn.
    ///   - endsWithItsStream: See ``begin(_:endsWithItsStream:)``.
    public nonisolated func startRetry(
        _ request: ChappieResponseRequest, endsWithItsStream: Bool
    ) -> ChappieStreamHandle {
        start(.retry(request), endsWithItsStream: endsWithItsStream)
    }

    /// Takes the last turn out of the conversation, after the turns that were requested earlier. The next turn
    /// continues from the turn before it, and a search no longer finds the turn. Its records stay in the store.
    ///
    /// - Returns: The turn, or `nil` if the conversation has none.
    /// - Throws: ``ChappieThreadStoreError``.
    @discardableResult
    public func takeBackLastTurn() async throws -> ChappieTurn? {
        try await queue.alone {
            try await afterOthers {
                guard let thread, let last = thread.turns.lastIndex(where: \.isPartOfConversation) else { return nil }
                // Turns after it have failed, and can't be continued without it.
                try await append(thread.takingBack(Array(thread.turns[last...])))
                isClientReady = false
                return thread.turns[last]
            }
        }
    }

    /// Opens the conversation's connection, so that the next turn starts quickly. See the client's `prewarm()`.
    public func prewarm() async {
        let isFree: ()? = try? await queue.alone { await makeClientReady() }
        if isFree != nil { await client.prewarm() }
    }

    /// Ends the newest turn.
    public nonisolated func cancel() { queue.cancelNewest() }

    /// Ends the newest turn, and keeps its partial answer. The turn is finished, and `interrupted` is the reason why
    /// its answer ended early. If the model had written nothing, the turn is kept as an interrupted one, which can be
    /// resumed.
    public nonisolated func interrupt() async { queue.interruptNewest() }

    /// Gives the running turn a message, which is stored when this method returns. See
    /// ``ChappieConversation/steer(_:)-(ChappieInputMessage)``. If the turn ends early, it keeps the message, and a turn
    /// that is resumed sends it.
    public func steer(_ message: ChappieInputMessage) async throws -> Bool {
        guard let (id, control) = running, control.steer(message) else { return false }
        try await add(.turnSteered, ["turn": .string(id), "message": message.inputItem])
        return true
    }

    /// Closes the conversation's connection. The next turn opens another. See the client's `disconnect()`.
    public func disconnect() async { await client.disconnect() }

    /// Interrupts the running turn and ends the waiting ones. See ``interrupt()``.
    nonisolated func interruptAll() { queue.interruptAll() }

    /// Waits until the credential's work has ended, such as a renewal whose tokens are not stored yet.
    func settleCredentials() async { await client.settleCredentials() }

    /// Waits until all earlier requests are kept, including cancelled turns. It is for programs that end.
    public func settle() async {
        await uncancelled { [queue] in try? await queue.alone {} }
    }

    /// All later events in turns of this runtime, for any number of readers. The stream ends with the runtime.
    public nonisolated var events: AsyncStream<ChappieThreadEvent> { broadcast.events }

    // MARK: Threads

    /// The thread that receives the turns, in its stored form, or `nil` before the first one.
    public var currentThread: ChappieThread? { thread }

    @discardableResult
    func use(_ thread: ChappieThread) -> ChappieThread {
        self.thread = thread
        isClientReady = false
        return thread
    }

    @discardableResult
    func newThreadHere() -> ChappieThread { use(ChappieThread(id: makeID(), createdAt: clock.now)) }

    func makeID() -> String { UUIDv7.make(now: clock.now, entropy: entropy) }

    // MARK: A turn

    private enum Job: Sendable {
        case asked(ChappieTurnWork)
        /// Another attempt at the last turn.
        case retry(ChappieResponseRequest)
        /// The rest of the thread's last turn.
        case rest([String: ChappieApprovalDecision])
    }

    private nonisolated func start(_ job: Job, endsWithItsStream: Bool) -> ChappieStreamHandle {
        queue.begin(endsWithItsStream: endsWithItsStream) { [self] emit, control in
            try await run(job, control: control, emit: emit)
        }
    }

    private func run(
        _ job: Job, control: TurnControl, emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        if case .asked(.clearing) = job {
            newThreadHere()
            return ChappieResponse()
        }
        // Without a sign-in, no turn begins.
        let account = try await client.turnAccount()
        // Another account continues from the thread's records, without items that it can't read.
        if thread?.belongs(to: account) == false { isClientReady = false }
        let id: String
        let work: ChappieTurnWork
        switch job {
        case .asked(.new(let request)): (id, work) = try await started(request, by: account, emit)
        case .retry(let request): (id, work) = try await started(request, isRetry: true, by: account, emit)
        case .asked(.resumption(let pending, let decisions)):
            (id, work) = try await resumed(decisions, of: pending, by: account)
        case .rest(let decisions): (id, work) = try await resumed(decisions, by: account)
        case .asked(.compaction), .asked(.clearing):
            if thread == nil { newThreadHere() }
            if thread?.records.isEmpty == false { try await readOn(to: .max) }
            await makeClientReady()
            id = ""
            work = .compaction
        }
        let threadID = thread?.id ?? ""
        defer {
            // The client has the conversation of the attempt, and the thread continues without it.
            if thread?.turns.last(where: { $0.id == id })?.replacedTurn != nil {
                isClientReady = false
                own = OwnTurn()
            }
        }
        do {
            try Task.checkCancellation()
            running = id.isEmpty ? nil : (id, control)
            defer { running = nil }
            return try await client.runTurn(work, in: account, control: control, isKept: true) { step in
                try await self.record(step, of: id)
            } emit: { event in
                emit(event)
                self.tell(.progressed(event), id, in: threadID)
            }
        } catch {
            let error = Task.isCancelled ? CancellationError() : error
            guard !id.isEmpty else { throw error }
            // The end of a turn is kept even if its task is cancelled.
            try await uncancelled { try await self.ended(id, error) }
            throw error
        }
    }

    /// Begins a new turn in the store. An earlier turn without a complete answer becomes part of the conversation.
    private func started(
        _ request: ChappieResponseRequest, isRetry: Bool = false, by account: ChappieAccountInfo,
        _ emit: (ChappieStreamEvent) -> Void
    ) async throws -> (id: String, work: ChappieTurnWork) {
        if thread == nil { newThreadHere() }
        let id = makeID()
        return try await afterOthers {
            await makeClientReady()
            let known = await client.knownModel
            let model = request.model ?? known ?? ""
            let replaced = isRetry ? thread?.replaceableTurn : nil
            let body = ChappieTurn.body(of: request, id: id, replacing: replaced, model: model, account: account)
            var events = [(ChappieThreadRecord.Kind.turnStarted, body)]
            var inclusion = replaced == nil ? thread?.inclusion : nil
            if let cut = inclusion, cut.turn.id == unrecordedFailure {
                inclusion = nil
                events.insert((.turnInterrupted, ["turn": .string(cut.turn.id)]), at: 0)
            }
            if let inclusion { events.insert((.turnInterrupted, inclusion.body), at: 0) }
            try await append(events)
            own = OwnTurn(id: id)
            tell(.started(request.messages, model: model), id)
            if let thread, replaced != nil || inclusion != nil {
                await client.reloadContext(thread.continued(by: id).context)
            }
            if let inclusion {
                let notice = ChappieStreamEvent.notice(.included(inclusion.turn))
                emit(notice)
                tell(.progressed(notice), id)
            }
            return (id, .new(request))
        }
    }

    /// Adds records to the open thread by `work`. If another process was faster, its records are read, and `work` is
    /// done again.
    private func afterOthers<Output>(_ work: () async throws -> Output) async throws -> Output {
        while true {
            do {
                return try await work()
            } catch {
                guard case .conflict(_, _, let end) = error as? ChappieThreadStoreError else { throw error }
                try Task.checkCancellation()
                try await readOn(to: end)
            }
        }
    }

    /// Takes over the last turn in this process.
    ///
    /// - Parameter pending: The turn that the last turn must be.
    private func resumed(
        _ decisions: [String: ChappieApprovalDecision], of pending: ChappiePendingTurn? = nil,
        by account: ChappieAccountInfo
    ) async throws -> (id: String, work: ChappieTurnWork) {
        while true {
            guard let thread, let turn = thread.resumableTurn,
                pending.map({ $0.approvals.map(\.id) == turn.approvals.map(\.id) }) ?? true
            else { throw ChappieRuntimeError.nothingToResume }
            let context = thread.context
            let work = try turn.remainder(in: context, decisions, by: account)
            await makeClientReady(context)
            do {
                var body: ChappieJSONObject = ["turn": .string(turn.id)]
                Records.note(&body, account.ownerID, account.userID)
                try await append([(.turnResumed, .object(body))])
            } catch {
                guard case .conflict(_, _, let end) = error as? ChappieThreadStoreError else { throw error }
                try Task.checkCancellation()
                try await readOn(to: end)
                // The turn is unchanged. Another process has, for example, given the thread a name.
                if self.thread?.latestTurn == turn { continue }
                throw error
            }
            own = OwnTurn(id: turn.id, resumptions: turn.resumptions + 1)
            tell(.started(turn.messages, model: turn.model), turn.id)
            return (turn.id, work)
        }
    }

    private func makeClientReady(_ context: ChappieClientContext? = nil) async {
        guard let thread, !isClientReady else { return }
        // A thread without a turn uses the client's model.
        await client.resumeContext(context ?? thread.context) { [weak self] in await self?.history }
        isClientReady = true
    }

    /// All items that the conversation of the current turn has had, if they are known.
    private var history: [ChappieJSON]? {
        guard let history = thread?.continued(by: own.id).history, !history.isEmpty else { return nil }
        return history
    }

    /// Reads the records that another process has written, up to `end`, and continues from there.
    private func readOn(to end: Int) async throws {
        guard let known = thread else { return }
        // A shorter thread has replaced it, because it was deleted and then begun or imported again.
        let isAnother = end < known.records.count
        let more: [ChappieThreadRecord]
        do {
            more = try await store.records(of: known.id, from: isAnother ? 0 : known.records.count)
        } catch {
            guard case .notFound = error else { throw error }
            use(ChappieThread(id: known.id, createdAt: clock.now))
            return
        }
        if isAnother {
            use(try ChappieThread(id: known.id, records: more))
        } else if !more.isEmpty {
            join(more, to: known.id)
            // A new name does not change the conversation, so its connection and the user's approvals stay.
            if !more.allSatisfy({ [.renamed, .archived, .unarchived].contains($0.kind) }) { isClientReady = false }
        }
    }

    // MARK: Recording

    /// Adds records at the end of the open thread, all or none.
    ///
    /// - Parameters:
    ///   - other: The thread of the records, if it may differ from the open one.
    ///   - anywhere: Whether the records are added even if the thread has grown, because they report facts.
    /// - Returns: `false` if `other` is not the open thread, or is not kept yet. In that case nothing is added.
    @discardableResult
    func append(
        _ events: [(kind: ChappieThreadRecord.Kind, body: ChappieJSON)], to other: String? = nil, anywhere: Bool = false
    ) async throws -> Bool {
        // Tools that run at the same time end at the same time.
        let ticket = writing.reserve()
        try await writing.enter(ticket)
        defer { writing.leave(ticket) }
        while true {
            // No copy of the thread is held here. While a copy is alive, each record would copy all records.
            guard let id = thread?.id, var summary = thread?.summary, let position = thread?.records.count else {
                return false
            }
            guard other == nil || other == id && position > 0 else { return false }
            if anywhere, let body = events.last?.body, own.isTakenOver(in: thread?.turns ?? [], before: body) {
                throw ChappieRuntimeError.turnTakenOver
            }
            let now = clock.now
            let records = events.enumerated().map { index, event in
                ChappieThreadRecord(position: position + index, kind: event.kind, date: now, body: event.body)
            }
            for record in records { summary.add(record) }
            do {
                try await keep(records, summary, at: position)
            } catch {
                // A thread that was deleted is not begun again by the end of a turn.
                guard anywhere, case .conflict(_, _, let end) = error, end > position else { throw error }
                // The thread first adds the records of other processes.
                try await readOn(to: end)
                continue
            }
            join(records, to: id)
            return true
        }
    }

    /// Adds kept records to the open thread. If the thread was opened again, it already has them.
    private func join(_ records: [ChappieThreadRecord], to id: String) {
        for record in records where thread?.id == id && thread?.records.count == record.position {
            thread?.add(record)
        }
    }

    private func add(
        _ kind: ChappieThreadRecord.Kind, _ body: ChappieJSON,
        after earlier: [(kind: ChappieThreadRecord.Kind, body: ChappieJSON)] = []
    ) async throws {
        try await append(earlier + [(kind, body)], anywhere: true)
    }

    private func record(_ step: TurnStep, of id: String) async throws {
        guard let entry = thread?.entry(for: step, of: id) else { return }
        // The record of the turn's end contains this step.
        if case .stopped = step { return own.stopped = entry.body.object }
        if case .compacted = step {
            // A compaction replaces the records that this program knows. If others have written since then, it would
            // hide their records.
            guard isClientReady else { throw ChappieRuntimeError.turnTakenOver }
            try await append([entry])
            return
        }
        let hasOtherOwner = Records.account(entry.body).map { thread?.belongs(to: $0) == false } ?? false
        try await add(entry.kind, entry.body, after: step.replacesTurns ? thread?.replacing(by: id) ?? [] : [])
        if case .running(let calls) = step { own.calls.formUnion(calls.map(\.callID)) }
        // Another account has signed in. Both processes continue with the thread's items for that account.
        if case .finished = step, hasOtherOwner { isClientReady = false }
    }

    /// Records the reason why a turn ended without an answer.
    private func ended(_ id: String, _ error: any Error) async throws {
        let turn: ChappieJSON = .string(id)
        var body: ChappieJSONObject = own.stopped ?? ["turn": turn]
        switch error {
        case is CancellationError:
            try? await add(.turnInterrupted, .object(body))
            tell(.interrupted, id)
        case ChappieClientError.approvalPending(let pending):
            try await add(
                .approvalPending, ["turn": turn, "approvals": Records.json(pending.approvals)])
            tell(.waiting(pending.approvals), id)
        // The store has failed, so it can keep no more than it already has.
        case is ChappieThreadStoreError, is ChappieRuntimeError: tell(.failed(Self.sentence(of: error)), id)
        default:
            let sentence = Self.sentence(of: error)
            body["error"] = .string(sentence)
            // The turn's own error matters more than a failure to keep it.
            // A turn whose connection broke in the middle of the answer is kept with the text that was shown.
            if thread?.turns.last(where: { $0.id == id })?.status != .finished {
                do {
                    try await add(.turnFailed, .object(body))
                } catch {
                    unrecordedFailure = own.stopped == nil ? id : nil
                }
            }
            tell(.failed(sentence), id)
        }
    }

    private static func sentence(of error: any Error) -> String {
        UntrustedText.withoutTokens((error as? any LocalizedError)?.errorDescription ?? "\(error)")
    }

    private func tell(_ event: ChappieTurnEvent, _ turn: String) {
        if let thread { tell(event, turn, in: thread.id) }
    }

    private nonisolated func tell(_ event: ChappieTurnEvent, _ turn: String, in thread: String) {
        guard !turn.isEmpty else { return }
        broadcast.send(ChappieThreadEvent(threadID: thread, turnID: turn, event: event))
    }
}

extension ChappieNotice {
    /// Returns the notice that the previous turn belongs to the conversation without a complete answer.
    fileprivate static func included(_ turn: ChappieTurn) -> Self {
        let tools = turn.toolsWithoutResult.map(UntrustedText.forTerminal).joined(separator: ", ")
        let effect = tools.isEmpty ? "" : " These tools may have run: \(tools)."
        return Self(.turnIncluded, "The last turn ended before its answer was complete. It is included.\(effect)")
    }
}

extension ChappieClient {
    /// Creates a runtime that keeps this client's turns in `store`. From then on, ask only through the runtime.
    public nonisolated func runtime(store: any ChappieThreadStore) -> ChappieRuntime {
        ChappieRuntime(client: self, store: store)
    }
}
