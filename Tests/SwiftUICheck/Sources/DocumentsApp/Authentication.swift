// The page on authentication.
import ChappieSDK
import SwiftUI

struct AccountView: View {
    @ObservedObject var authSession: ChappieAuthSession
    @StateObject private var notices = Notices()

    var body: some View {
        Text(authSession.lastError?.localizedDescription ?? notices.latest)
        Button("Account") { show() }
        Button("Refresh") { Task { await refresh() } }
        Button("Sign out") { authSession.signOut() }
    }

    private func show() {
        switch authSession.state {
        case .signedIn:
            print(authSession.accountInfo?.plan?.displayName ?? "Unknown plan")
        case .signedOut:
            notices.isSignInShown = true
        case .reauthenticationRequired:
            notices.isSignInShown = true
        case .failed(let message):
            print("Auth failed:", message)
        default:
            break
        }
        if let info = authSession.accountInfo {
            print(info.email ?? "No email")
            print(info.plan?.displayName ?? "Unknown plan")
            print(info.userID ?? "", info.accountID ?? "", info.isFedRAMPAccount)
        }
    }

    private func refresh() async {
        do {
            try await authSession.refreshAuth()
        } catch let error as ChappieAuthError where error.requiresReauthentication {
            notices.isSignInShown = true
        } catch {
            notices.show(words(for: error))
        }
    }

    private func words(for error: any Error) -> String {
        switch error as? ChappieAuthError {
        case .expiredDeviceCode, .pollingTimeout, .callbackTimeout: "The code has expired."
        case .cancelledSignIn: ""
        case .networkFailure(let reason): reason
        case .authorizationDenied(let reason): reason
        case .tokenExchangeFailed(let statusCode, let body): "\(statusCode): \(body)"
        case .missingRefreshToken: "Sign in again."
        case .secureRandomFailed(let statusCode): "\(statusCode)"
        case .invalidResponse: "The answer could not be read."
        case .unknown(let details): details
        default: error.localizedDescription
        }
    }
}
