import ChappieAuth
import Dispatch

/// Runs blocking work (files, scrypt), one piece after the other, on a thread that is not one of Swift's pool: that has
/// as many threads as there are cores and must never block.
final class BlockingLane: Sendable {
    private let queue: DispatchQueue
    private let deadline: Duration?

    /// - Parameters:
    ///   - label: For a debugger.
    ///   - deadline: How long a caller waits for one piece of work. Default `nil`: as long as it takes.
    init(label: String, deadline: Duration? = nil) {
        queue = DispatchQueue(label: label)
        self.deadline = deadline
    }

    /// Runs `work` when its turn comes. Its caller stops waiting at the deadline and when its task is cancelled; work that
    /// has begun then goes on by itself.
    ///
    /// - Parameter work: Is given what tells whether its caller still waits.
    /// - Throws: what `work` throws; `timedOut`; `failed` when the task is cancelled.
    func perform<Output: Sendable>(
        _ work: @escaping @Sendable (_ isWanted: () -> Bool) throws(CredentialStoreError) -> Output
    ) async throws(CredentialStoreError) -> Output {
        let call = PendingCall<Output>()
        let timer = deadline.map { deadline in
            Task.detached {
                // A sleep that was cut short means that the call is over.
                guard (try? await Task.sleep(for: deadline, clock: .continuous)) != nil else { return }
                call.finish(.failure(.timedOut(deadline)))
            }
        }
        defer { timer?.cancel() }
        return try await call.outcome {
            queue.async {
                guard !call.isOver else { return }
                do throws(CredentialStoreError) {
                    call.finish(.success(try work { !call.isOver }))
                } catch {
                    call.finish(.failure(error))
                }
            }
        }
    }
}
