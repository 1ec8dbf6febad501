import Synchronization

// A separate file, because the client's transcript has the name of the framework's.
@testable import ChappieClient

/// The first client of a model, which the model may release.
final class FirstClient: Sendable {
    private struct Reference {
        weak var client: ChappieClient?
    }

    private let state = Mutex(Reference())

    /// Notes a client, unless there is one already.
    func note(_ client: ChappieClient) { state.withLock { $0.client = $0.client ?? client } }

    /// Waits until the client's prewarm has ended.
    func waitForPrewarm() async { await state.withLock(\.client)?.prewarming?.value }
}
