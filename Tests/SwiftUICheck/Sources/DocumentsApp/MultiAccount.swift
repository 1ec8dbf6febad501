// The page on many users.
import ChappieSDK
import Combine
import SwiftUI

@MainActor
final class UserSession: ObservableObject {
    @Published private(set) var authSession: ChappieAuthSession?
    @Published private(set) var client: ChappieClient?

    func signIn(as user: AppUser) {
        let config = ChappieConfiguration(keychainAccount: user.id)
        authSession = Chappie.authSession(configuration: config)
        client = Chappie.client(configuration: config)
    }

    func signOut() {
        authSession?.signOut()
        authSession = nil
        client = nil
    }
}

/// The configurations of an app whose extensions share the credential.
func sharedConfigurations(for currentUser: AppUser) -> [ChappieConfiguration] {
    let config = ChappieConfiguration(
        keychainAccount: currentUser.id,
        keychainAccessGroup: "TEAMID.com.example.shared"
    )
    let whole = ChappieConfiguration(
        keychainService: "com.example.myapp",
        keychainAccount: currentUser.id,
        keychainAccessGroup: "TEAMID.com.example.shared",
        keychainAccessibility: .whenUnlockedThisDeviceOnly
    )
    return [config, whole]
}
