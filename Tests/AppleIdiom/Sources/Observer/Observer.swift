import ChappieAuth
import Combine

/// Compiles only when the session has its Combine half.
@MainActor func observe(_ session: ChappieAuthSession, _ change: @escaping () -> Void) -> AnyCancellable {
    session.objectWillChange.sink { _ in change() }
}
