public import ChappieCore
import Synchronization

/// An observer that remembers everything that it receives.
public final class RecordingObserver: ChappieObserver {
    /// A call of the observer, or of one of its observations.
    public enum Event: Sendable {
        /// `id` counts the operations from 1, and `parent` is the id of the one that it is a part of.
        case began(ChappieOperation, id: Int, parent: Int?)
        case learned(ChappieOperationDetail, id: Int)
        case ended((any Error)?, id: Int)
        case happened(ChappieFact)
    }

    private struct State {
        var events: [Event] = []
        var operations = 0
    }

    private let state = Mutex(State())
    private let isInterested: Bool

    /// Creates an observer.
    ///
    /// - Parameter isInterested: Whether it follows operations until their end. Default `true`.
    public init(isInterested: Bool = true) { self.isInterested = isInterested }

    /// The calls so far, in order.
    public var events: [Event] { state.withLock(\.events) }

    /// The facts so far, in order.
    public var facts: [ChappieFact] {
        events.compactMap { if case .happened(let fact) = $0 { fact } else { nil } }
    }

    /// The operations so far, in the order in which they began.
    public var operations: [ChappieOperation] {
        events.compactMap { if case .began(let operation, _, _) = $0 { operation } else { nil } }
    }

    /// The details so far, in order.
    public var details: [ChappieOperationDetail] {
        events.compactMap { if case .learned(let detail, _) = $0 { detail } else { nil } }
    }

    /// The errors of the operations that failed, in order.
    public var failures: [any Error] {
        events.compactMap { if case .ended(let error, _) = $0 { error } else { nil } }
    }

    /// The number of operations that have ended.
    public var endedCount: Int {
        events.reduce(0) { count, event in if case .ended = event { count + 1 } else { count } }
    }

    public func began(
        _ operation: ChappieOperation, in parent: (any ChappieObservation)?
    ) -> (any ChappieObservation)? {
        let id = state.withLock { state in
            state.operations += 1
            state.events.append(.began(operation, id: state.operations, parent: (parent as? Observation)?.id))
            return state.operations
        }
        return isInterested ? Observation(id: id, observer: self) : nil
    }

    public func happened(_ fact: ChappieFact) { record(.happened(fact)) }

    private func record(_ event: Event) { state.withLock { $0.events.append(event) } }

    private struct Observation: ChappieObservation {
        let id: Int
        let observer: RecordingObserver

        func learned(_ detail: ChappieOperationDetail) { observer.record(.learned(detail, id: id)) }
        func ended(_ error: (any Error)?) { observer.record(.ended(error, id: id)) }
    }
}
