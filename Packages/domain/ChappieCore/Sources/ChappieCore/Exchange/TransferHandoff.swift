import Synchronization

/// The link between a network's callbacks and the task that reads. It contains the state of one exchange and the
/// waiting reader.
///
/// All state is under one lock. A waiting reader is resumed after the lock is released.
@_spi(ChappieInternals) public final class TransferHandoff: Sendable {
    private enum Reader {
        case none
        case head(CheckedContinuation<ResponseHead, any Error>)
        case chunk(CheckedContinuation<[UInt8]?, any Error>)
    }

    private struct Shared {
        var state: TransferState
        var reader = Reader.none

        /// Returns the call that resumes a waiting reader, if there is a result for it.
        mutating func delivery() -> (@Sendable () -> Void)? {
            switch reader {
            case .none: return nil
            case .head(let continuation):
                guard let result = state.takeHead() else { return nil }
                reader = .none
                return { continuation.resume(with: result) }
            case .chunk(let continuation):
                guard let result = state.takeChunk() else { return nil }
                reader = .none
                return { continuation.resume(with: result) }
            }
        }
    }

    private let shared: Mutex<Shared>

    /// Creates an exchange in this state, without a reader.
    public init(_ state: TransferState) { shared = Mutex(Shared(state: state)) }

    /// Reads or changes the state without resuming the reader, so that many small pieces wake a task only once.
    public func withState<Value: Sendable>(_ change: (inout TransferState) -> Value) -> Value {
        shared.withLock { change(&$0.state) }
    }

    /// Changes the state, and then resumes the reader if there is a result for it.
    ///
    /// - Parameter deliver: Calls the closure that resumes the reader. Default: calls it at once.
    @discardableResult
    public func act<Value: Sendable>(
        deliver: (@escaping @Sendable () -> Void) -> Void = { $0() }, _ change: (inout TransferState) -> Value
    ) -> Value {
        let (value, delivery) = shared.withLock { shared in
            let value = change(&shared.state)
            return (value, shared.delivery())
        }
        if let delivery { deliver(delivery) }
        return value
    }

    /// Waits for the final head. `cancel` ends the exchange if the task is cancelled.
    public func head(orCancel cancel: @escaping @Sendable () -> Void) async throws -> ResponseHead {
        try await wait(orCancel: cancel) { .head($0) }
    }

    /// Waits for the next bytes of the body, or for its end. `cancel` ends the exchange if the task is cancelled.
    public func chunk(orCancel cancel: @escaping @Sendable () -> Void) async throws -> [UInt8]? {
        try await wait(orCancel: cancel) { .chunk($0) }
    }

    private func wait<Value: Sendable>(
        orCancel cancel: @escaping @Sendable () -> Void, as reader: (CheckedContinuation<Value, any Error>) -> Reader
    ) async throws -> Value {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let delivery = shared.withLock { shared in
                    guard case .none = shared.reader else {
                        preconditionFailure("A response body has one reader; two tasks read this one.")
                    }
                    shared.reader = reader(continuation)
                    return shared.delivery()
                }
                delivery?()
            }
        } onCancel: {
            cancel()
        }
    }
}
