import ChappieRuntime
import ChappieSDK
import Synchronization

/// A store that keeps threads in another store. If the other store refuses more of a thread, the conversation continues
/// without being kept. A question is therefore answered even if the disk is full.
final class LenientThreadStore: ChappieThreadStore {
    private let store: any ChappieThreadStore
    /// The reasons why threads are not kept, and whether the user has been informed.
    private let refusals = Mutex<[String: (error: ChappieThreadStoreError, isNoted: Bool)]>([:])
    /// The last turn of each thread whose beginning is kept. A later resume finds this turn.
    private let keptTurns = Mutex<[String: String]>([:])

    init(_ store: any ChappieThreadStore) { self.store = store }

    /// Stops keeping a thread.
    func giveUp(_ thread: String, _ error: ChappieThreadStoreError) {
        refusals.withLock { $0[thread] = (error, false) }
    }

    func keeps(_ thread: String) -> Bool { refusals.withLock { $0[thread] == nil } }

    /// Returns the reason why the thread is not kept. It is returned only once, for a note to the user.
    func news(of thread: String) -> ChappieThreadStoreError? {
        refusals.withLock { refusals in
            guard let refusal = refusals[thread], !refusal.isNoted else { return nil }
            refusals[thread]?.isNoted = true
            return refusal.error
        }
    }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        if let refusal = refusals.withLock({ $0[thread.id]?.error }) {
            let turn = keptTurns.withLock { $0[thread.id] }
            if records.contains(where: { $0.beginsTools && $0.turnID == turn }) { throw refusal }
            return
        }
        do throws(ChappieThreadStoreError) {
            try await store.append(records, to: thread, at: position)
            let begun = records.last { [.turnStarted, .turnResumed].contains($0.kind) }
            if let turn = begun?.turnID { keptTurns.withLock { $0[thread.id] = turn } }
        } catch {
            switch error {
            case .conflict, .notFound: throw error
            case _ where records.contains(where: \.beginsTools): throw error
            default: giveUp(thread.id, error)
            }
        }
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

    /// Returns the reason why the answer is not kept, if the user has not been informed of it.
    func news() -> ChappieNotice? {
        store?.news(of: thread).map(Self.notice)
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
}
