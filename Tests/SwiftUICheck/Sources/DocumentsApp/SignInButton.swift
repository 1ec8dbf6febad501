// The page on the sign-in button.
import ChappieSDK
import SwiftUI

/// Basic usage.
struct SignInView: View {
    @StateObject private var authSession = Chappie.authSession()

    var body: some View {
        ChappieSignIn(authSession: authSession)
            .buttonStyle(.borderedProminent)
            .padding()
        CustomSignInView(authSession: authSession)
    }
}

/// The code in the app's own interface, the permission that is asked for elsewhere, a label, the older name, and every
/// parameter.
struct CustomSignInView: View {
    @ObservedObject var authSession: ChappieAuthSession

    var body: some View {
        ChappieSignIn(
            authSession: authSession,
            showsOnboardingSheet: false,
            onDeviceCode: { deviceCode in
                print("User code:", deviceCode.userCode)
                print("Verification URL:", deviceCode.verificationURL)
            }
        )
        ChappieSignIn(
            authSession: authSession,
            requestsNotificationPermission: false
        )
        ChappieSignIn(authSession: authSession) { title in
            Label(title, systemImage: "person.badge.plus")
                .font(.headline)
        }
        SignInWithChatGPTButton(authSession: authSession)
        ChappieSignIn(
            authSession: authSession,  // Required
            showsOnboardingSheet: true,  // Default: true
            requestsNotificationPermission: true,  // Default: true
            onDeviceCode: nil  // Default: nil
        )
        Button("Sign in by hand") { Task { try await signInByHand() } }
        Text(progress)
    }

    private func signInByHand() async throws {
        let deviceCode = try await authSession.startDeviceCodeSignIn()

        print("User code:", deviceCode.userCode)
        print("Verification URL:", deviceCode.verificationURL)
    }

    private var progress: String {
        switch authSession.deviceLinkState {
        case .idle: ""
        case .requestingCode: "Requesting a code"
        case .awaitingUserCode(let deviceCode): deviceCode.userCode
        case .polling(let deviceCode): deviceCode.userCode
        case .linked(let expiresAt): "Linked until \(String(describing: expiresAt))"
        case .expired: "Expired"
        case .cancelled: "Cancelled"
        case .failed(let error): error.localizedDescription
        }
    }
}
