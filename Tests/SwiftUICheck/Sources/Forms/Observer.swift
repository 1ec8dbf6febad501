import ChappieSDK
import Combine

/// Compiles only when the session has its Combine half.
@MainActor func observe(_ session: ChappieAuthSession, _ change: @escaping () -> Void) -> AnyCancellable {
    session.objectWillChange.sink { _ in change() }
}

/// The same for the button's model.
@MainActor func observe(_ model: ChappieSignInModel, _ change: @escaping () -> Void) -> AnyCancellable {
    model.objectWillChange.sink { _ in change() }
}
