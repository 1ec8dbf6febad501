// The page on security.
import ChappieSDK
import ChappieSDKRuntime

/// A conversation that is kept on the device, readable in the background too.
struct Transcripts: Sendable {
    let store = ChappieFileThreadStore(
        storagePolicy: ChappieFileThreadStoreStoragePolicy(
            fileProtection: .completeUntilFirstUserAuthentication
        )
    )

    func runtime(of client: ChappieClient) -> ChappieRuntime { client.runtime(store: store) }
}

@MainActor func askAgain(_ authSession: ChappieAuthSession, _ notices: Notices) {
    switch authSession.state {
    case .reauthenticationRequired:
        notices.isSignInShown = true
    default:
        break
    }
}
