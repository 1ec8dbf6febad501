import ChappieSDK
import Combine

/// Compiles only when the session has its Combine half.
@MainActor func observe(_ session: ChappieAuthSession, _ change: @escaping () -> Void) -> AnyCancellable {
    session.objectWillChange.sink { _ in change() }
}

/// Each property that the documentation calls published has a publisher.
@MainActor func observeProperties(_ session: ChappieAuthSession, _ change: @escaping () -> Void) -> [AnyCancellable] {
    [
        session.$state.sink { (state: ChappieAuthState) in if state.isSignedIn { change() } },
        session.$deviceLinkState.sink { (_: ChappieDeviceLinkState) in change() },
        session.$accountInfo.sink { (_: ChappieAccountInfo?) in change() },
        session.$lastError.sink { (_: ChappieAuthError?) in change() },
    ]
}

/// The same for the button's model.
@MainActor func observe(_ model: ChappieSignInModel, _ change: @escaping () -> Void) -> AnyCancellable {
    model.objectWillChange.sink { _ in change() }
}
