// One app that is made of the call forms of the documentation, a file for each of its pages, in the order in which an app
// meets them. It is compiled in Swift 5's and Swift 6's mode, with and without everything on the main actor.
import ChappieSDK
import Combine
import SwiftUI

@main struct DocumentsApp: App {
    @StateObject private var userSession = UserSession()

    var body: some Scene {
        WindowGroup {
            if let authSession = userSession.authSession, let client = userSession.client {
                AccountView(authSession: authSession)
                AssistantView(client: client, transcripts: Transcripts())
            } else {
                SignInView()
            }
        }
    }
}

// MARK: Each app has these of its own

struct AppUser: Sendable {
    let id: String
}

struct AppLog: Sendable {
    func error(_ message: String) { print(message) }
}

let logger = AppLog()

/// The app's notices, alerts and banners.
@MainActor final class Notices: ObservableObject {
    @Published private(set) var latest = ""
    @Published var isSignInShown = false

    func show(_ notice: String) { latest = notice }
}
