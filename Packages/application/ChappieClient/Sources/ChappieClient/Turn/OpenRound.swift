import ChappieCore
import Synchronization

/// The progress of a round's calls.
final class OpenRound: Sendable {
    private let ids: Set<String>
    private let state: Mutex<(started: Set<String>, over: [String: ChappieToolExecutionResult])>

    /// Creates a round of calls.
    ///
    /// - Parameter over: the results of calls that do not run again.
    init(_ calls: [ChappieToolCall], over: [ChappieToolExecutionResult]) {
        ids = Set(calls.map(\.callID))
        state = Mutex(([], Dictionary(over.map { ($0.call.callID, $0) }) { first, _ in first }))
    }

    func begins(_ step: TurnStep) {
        guard case .running(let calls) = step else { return }
        state.withLock { $0.started.formUnion(calls.map(\.callID)) }
    }

    func ended(_ step: TurnStep) {
        guard case .ran(let result) = step else { return }
        state.withLock { $0.over[result.call.callID] = result }
    }

    func hasStarted(_ callID: String) -> Bool { state.withLock { $0.started.contains(callID) } }

    func result(of callID: String) -> ChappieToolExecutionResult? { state.withLock { $0.over[callID] } }

    /// Returns whether the call belongs to the round and has not ended.
    func awaits(_ callID: String) -> Bool { ids.contains(callID) && result(of: callID) == nil }
}
