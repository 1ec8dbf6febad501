/// A port that receives what turns, requests, tools, renewals and stores do, for metrics and traces.
///
/// No value that it receives has a text of the user, the model or a tool, a token or an address of a person. Names are
/// identifiers of closed sets, as each property documents. The only exception is the error of
/// ``ChappieObservation/ended(_:)``, of which an observer may report the kind, and never a description.
///
/// The calls come from any task and must return at once. A complete observer:
/// ```swift
/// final class TurnCounter: ChappieObserver {
///     let count = Atomic(0)
///     func began(
///         _ operation: ChappieOperation, in parent: (any ChappieObservation)?
///     ) -> (any ChappieObservation)? {
///         if case .turn = operation { count.add(1, ordering: .relaxed) }
///         return nil
///     }
///     func happened(_ fact: ChappieFact) {}
/// }
/// ```
public protocol ChappieObserver: Sendable {
    /// Reports that an operation has begun.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - parent: The operation that it is a part of, if that is observed.
    /// - Returns: The receiver of the rest of the operation, or `nil` if the observer is not interested in it.
    func began(_ operation: ChappieOperation, in parent: (any ChappieObservation)?) -> (any ChappieObservation)?

    /// Reports a single fact.
    func happened(_ fact: ChappieFact)
}

/// An operation that an observer follows until its end.
public protocol ChappieObservation: Sendable {
    /// Reports a detail of the operation.
    func learned(_ detail: ChappieOperationDetail)

    /// Runs a part of the operation that is the program's own code, which is the handler of a tool. A tracer sets its
    /// task-local context here. The default only runs `body`.
    func within<Value: Sendable>(_ body: () async throws -> Value) async rethrows -> Value

    /// Reports the end of the operation. It is the last call.
    ///
    /// - Parameter error: The failure, or `nil` if the operation succeeded. Its description may contain text of a user
    ///   or a server.
    func ended(_ error: (any Error)?)
}

extension ChappieObservation {
    public func within<Value: Sendable>(_ body: () async throws -> Value) async rethrows -> Value { try await body() }
}
