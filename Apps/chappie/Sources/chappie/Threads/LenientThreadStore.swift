import ChappieRuntime
import ChappieSDK
import Synchronization

/// A store that keeps threads in another store. If the other store refuses more of a thread, the conversation continues
/// without being kept. A question is therefore answered even if the disk is full. At the beginning of each turn the store
/// tries again, with everything that was refused.
final class LenientThreadStore: ChappieThreadStore {
    /// The part of a thread that is not kept.
    private struct Refusal {
        var error: ChappieThreadStoreError
        /// Whether the user has been informed.
        var isNoted = false
        /// The refused records, or `nil` if another program has changed the thread, so that they can't be added.
        var records: [ChappieThreadRecord]?
    }

    private struct State {
        var refusals: [String: Refusal] = [:]
        /// The threads that are kept again, about which the user has not been informed.
        var recovered: Set<String> = []
        /// The last turn of each thread whose beginning is kept. A later resume finds this turn.
        var keptTurns: [String: String] = [:]
    }

    private let store: any ChappieThreadStore
    private let state = Mutex(State())

    init(_ store: any ChappieThreadStore) { self.store = store }

    /// Stops keeping a thread, until it is kept again at the beginning of a turn.
    ///
    /// - Parameter records: the records that were refused.
    func giveUp(_ thread: String, _ error: ChappieThreadStoreError, records: [ChappieThreadRecord] = []) {
        state.withLock { $0.refusals[thread] = Refusal(error: error, records: records) }
    }

    func keeps(_ thread: String) -> Bool { state.withLock { $0.refusals[thread] == nil } }

    /// Returns the reason why the thread is not kept. It is returned only once, for a note to the user.
    func news(of thread: String) -> ChappieThreadStoreError? {
        state.withLock { state in
            guard let refusal = state.refusals[thread], !refusal.isNoted else { return nil }
            state.refusals[thread]?.isNoted = true
            return refusal.error
        }
    }

    /// Returns whether the thread is kept again after the user was informed that it is not. `true` is returned once.
    func isNewlyKept(_ thread: String) -> Bool { state.withLock { $0.recovered.remove(thread) != nil } }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        guard let refusal = state.withLock({ $0.refusals[thread.id] }) else {
            return try await appendNext(records, to: thread, at: position)
        }
        guard let missed = refusal.records else { return try refuse(records, of: thread.id, refusal.error) }
        guard records.contains(where: { $0.kind == .turnStarted }) else {
            try refuse(records, of: thread.id, refusal.error)
            state.withLock { $0.refusals[thread.id]?.records? += records }
            return
        }
        do throws(ChappieThreadStoreError) {
            let all = missed + records
            try await store.append(all, to: thread, at: all.first?.position ?? position)
            state.withLock { state in
                if state.refusals.removeValue(forKey: thread.id)?.isNoted == true { state.recovered.insert(thread.id) }
            }
            noteTurn(in: records, of: thread.id)
        } catch {
            let isLost =
                switch error {
                case .conflict, .notFound: true
                default: false
                }
            state.withLock { $0.refusals[thread.id]?.records = isLost ? nil : missed + records }
        }
    }

    /// Appends records to a thread that is kept.
    private func appendNext(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        do throws(ChappieThreadStoreError) {
            try await store.append(records, to: thread, at: position)
            noteTurn(in: records, of: thread.id)
        } catch {
            switch error {
            case .conflict, .notFound: throw error
            case _ where records.contains(where: \.beginsTools): throw error
            default: giveUp(thread.id, error, records: records)
            }
        }
    }

    private func noteTurn(in records: [ChappieThreadRecord], of thread: String) {
        let begun = records.last { [.turnStarted, .turnResumed].contains($0.kind) }
        if let turn = begun?.turnID { state.withLock { $0.keptTurns[thread] = turn } }
    }

    /// - Throws: `error` if the records begin tools in a turn whose beginning is kept.
    private func refuse(
        _ records: [ChappieThreadRecord], of thread: String, _ error: ChappieThreadStoreError
    ) throws(ChappieThreadStoreError) {
        let turn = state.withLock { $0.keptTurns[thread] }
        if records.contains(where: { $0.beginsTools && $0.turnID == turn }) { throw error }
    }

    /// Returns the records of a thread, or none if it is not kept. The store then has only the records from before.
    func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        keeps(thread) ? try await store.records(of: thread, from: position) : []
    }

    func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] { try await store.summaries() }

    func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await store.summary(of: thread)
    }

    func delete(_ thread: String) async throws(ChappieThreadStoreError) { try await store.delete(thread) }
}

extension ChappieThreadRecord {
    /// Whether tools run after this record is kept. A tool may run in a turn that is kept with this call, or of which
    /// nothing is kept. Otherwise a later resume would run the tool again.
    fileprivate var beginsTools: Bool { [.toolsCalled, .toolsStarted].contains(kind) }
}

/// The state of keeping an answer. The printer of the answer queries it.
struct AnswerKeeping: Sendable {
    private let thread: String
    private let store: LenientThreadStore?

    /// - Parameter store: the store of the thread, or `nil` if the answer is known to be kept.
    init(thread: String, store: LenientThreadStore? = nil) {
        self.thread = thread
        self.store = store
    }

    /// The thread that keeps the answer, or `nil` if the answer is not kept.
    var keptThread: String? { store?.keeps(thread) == false ? nil : thread }

    /// Returns the reason why the answer is not kept, or the news that it is kept again, if the user has not been
    /// informed of it.
    func news() -> ChappieNotice? {
        if store?.isNewlyKept(thread) == true {
            return ChappieNotice(.keptAgain, "this conversation is kept again, from its beginning.")
        }
        return store?.news(of: thread).map(Self.notice)
    }

    /// Returns the line with the reason why a conversation is not kept.
    static func notice(_ error: any Error) -> ChappieNotice {
        let problem = CommandLineError(error)
        let reason = [problem.message, problem.suggestion].compactMap { $0 }.joined(separator: " ")
        return ChappieNotice(.notKept, "this conversation is not kept. \(reason) (Use --ephemeral if you want that.)")
    }
}

extension ChappieNotice.Kind {
    /// The kind of a notice that the answer is not kept.
    fileprivate static let notKept = Self(rawValue: "not_kept")
    /// The kind of a notice that a conversation is kept after all.
    fileprivate static let keptAgain = Self(rawValue: "kept_again")
}
