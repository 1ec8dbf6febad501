// An app's code around the button, with one import of the SDK. It is compiled in Swift 6's mode, in Swift 5's, and with
// everything on the main actor.
import ChappieSDK
import SwiftUI

struct Basic: View {
    @StateObject private var authSession = Chappie.authSession()

    var body: some View {
        ChappieSignIn(authSession: authSession)
            .buttonStyle(.borderedProminent)
            .padding()
    }
}

struct CodeShownByTheApp: View {
    @ObservedObject var authSession: ChappieAuthSession
    @State private var code: ChappieDeviceCode?

    var body: some View {
        VStack {
            ChappieSignIn(
                authSession: authSession,
                showsOnboardingSheet: false,
                onDeviceCode: { deviceCode in
                    print("User code:", deviceCode.userCode)
                    print("Verification URL:", deviceCode.verificationURL)
                }
            )
            ChappieSignIn(authSession: authSession, showsOnboardingSheet: false, onDeviceCode: { code = $0 })
            if let code { Text(code.userCode) }
        }
    }
}

struct PermissionAskedElsewhere: View {
    let authSession: ChappieAuthSession

    var body: some View {
        ChappieSignIn(
            authSession: authSession,
            requestsNotificationPermission: false
        )
    }
}

struct LabelsOfItsOwn: View {
    let authSession: ChappieAuthSession

    var body: some View {
        ChappieSignIn(authSession: authSession) { title in
            Label(title, systemImage: "person.badge.plus")
                .font(.headline)
        }
        ChappieSignIn(authSession: authSession) { ChappieSignInLabel($0).bold() }
        ChappieSignIn(authSession: authSession) { _ in Text("Go on") }
        ChappieSignIn(authSession: authSession, onDeviceCode: { print($0.userCode) }) { title in
            if title.isEmpty {
                EmptyView()
            } else {
                HStack {
                    ProgressView()
                    Text(title)
                }
            }
        }
    }
}

struct EveryParameter: View {
    let authSession: ChappieAuthSession

    var body: some View {
        ChappieSignIn(
            authSession: authSession,
            showsOnboardingSheet: true,
            requestsNotificationPermission: true,
            onDeviceCode: nil
        )
        ChappieSignIn(
            authSession: authSession, showsOnboardingSheet: true, requestsNotificationPermission: true,
            texts: translated, onDeviceCode: nil)
    }

    private var translated: ChappieSignInTexts {
        var texts = ChappieSignInTexts()
        texts.signIn = "Mit ChatGPT anmelden"
        texts.consent?.title = "Daten an OpenAI senden?"
        return texts
    }
}

/// An app that asks by itself whether data may be sent.
struct ConsentAskedElsewhere: View {
    let authSession: ChappieAuthSession

    var body: some View { ChappieSignIn(authSession: authSession, texts: texts) }

    private var texts: ChappieSignInTexts {
        var texts = ChappieSignInTexts(for: authSession)
        texts.consent = nil
        return texts
    }
}

struct Wrapper: View {
    let authSession: ChappieAuthSession

    var body: some View {
        SignInWithChatGPTButton(authSession: authSession)
        SignInWithChatGPTButton(
            authSession: authSession, showsOnboardingSheet: false, onDeviceCode: { print($0.userCode) })
    }
}

/// Without a button of ours: a session, a code and its two states.
struct ByHand: View {
    @StateObject private var authSession = Chappie.authSession()
    @State private var shown = ""

    var body: some View {
        VStack {
            Button("Sign in") { Task { await signIn() } }
            Text(shown)
            Text(progress)
            Text(status)
            Button("Sign out", role: .destructive) { authSession.signOut() }
        }
    }

    private func signIn() async {
        do {
            let deviceCode = try await authSession.startDeviceCodeSignIn()
            shown = "\(deviceCode.userCode) at \(deviceCode.verificationURL)"
        } catch {
            shown = error.localizedDescription
        }
    }

    private var progress: String {
        switch authSession.deviceLinkState {
        case .idle: ""
        case .requestingCode: "Asking for a code"
        case .awaitingUserCode(let code), .polling(let code): code.userCode
        case .linked(expiresAt: _): "Linked"
        case .expired: "Expired"
        case .cancelled: "Cancelled"
        case .failed(let error): error.localizedDescription
        }
    }

    private var status: String {
        switch authSession.state {
        case .signedOut: "Signed out"
        case .signingIn: "Signing in"
        case .awaitingDeviceCode(let userCode, let verificationURL): "\(userCode) at \(verificationURL)"
        case .signedIn(expiresAt: _): authSession.accountInfo?.email ?? "Signed in"
        case .reauthenticationRequired: "Sign in again"
        case .failed(let message): message
        }
    }
}

/// A face of the app's own over the same model.
struct OwnFace: View {
    @StateObject private var model: ChappieSignInModel

    init(authSession: ChappieAuthSession) {
        _model = StateObject(wrappedValue: ChappieSignInModel(session: authSession, showsOnboardingSheet: false))
    }

    var body: some View {
        if let consent = model.state.consent {
            ForEach(consent.paragraphs, id: \.self) { Text($0) }
            Button(consent.agree) { model.agree() }
        }
        Button(model.state.title) { model.signIn() }
            .disabled(!model.state.isEnabled)
        if let code = model.state.deviceCode { Text(code.userCode) }
        if let ending = model.state.ending { Text(ending.words.sentence) }
    }
}
