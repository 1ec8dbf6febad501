import Foundation

/// Runs `body`, which may block, on a thread of its own.
///
/// The tasks' threads are as few as the cores: tests that block them starve those whose calls they wait for.
func onAThreadOfItsOwn<Output: Sendable>(_ body: @escaping @Sendable () throws -> Output) async throws -> Output {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result(catching: body)) }
    }
}
