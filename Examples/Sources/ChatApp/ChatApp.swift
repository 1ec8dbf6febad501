// The app: one session, one runtime, one window.
import ChappieSDK
import ChappieSDKRuntime
import ChatModel
import SwiftUI

@main struct ChatApp: App {
    private static let configuration = ChappieConfiguration(keychainService: "com.example.chat-app")

    @StateObject private var session = Chappie.authSession(configuration: ChatApp.configuration)
    @State private var model = ChatModel(
        runtime: Chappie.client(configuration: ChatApp.configuration).runtime(store: ChappieFileThreadStore()))

    var body: some Scene {
        WindowGroup { ContentView(session: session, model: model) }
    }
}

/// The chat, or the sign-in button. The button stays in place while the user signs in, because its sheet belongs to it.
/// It hides itself once the user is signed in.
struct ContentView: View {
    @ObservedObject var session: ChappieAuthSession
    let model: ChatModel

    var body: some View {
        VStack(spacing: 0) {
            if session.state.isSignedIn {
                ChatView(session: session, model: model)
            } else if let error = session.lastError {
                Text(error.explanation).padding()
            }
            ChappieSignIn(authSession: session)
                .buttonStyle(.borderedProminent)
        }
    }
}
