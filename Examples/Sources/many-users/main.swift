// The heart of a server with many users: each has a configuration, and with it a credential and a conversation of their
// own. Your web framework calls `link`, shows the code on the user's page, and calls `answer`.
import ChappieSDK
import Playground

@MainActor final class Assistants {
    private var sessions: [String: ChappieAuthSession] = [:]
    private var clients: [String: ChappieClient] = [:]

    private func configuration(of user: String) -> ChappieConfiguration {
        ChappieConfiguration(keychainService: "com.example.server", keychainAccount: user, endpoints: endpoints)
    }

    private func session(of user: String) async -> ChappieAuthSession {
        if let session = sessions[user] { return session }
        // On a server without a keyring: .encryptedFile(passphrase: …), or a SharedCredentialStore over your database.
        let session = await Chappie.loadedAuthSession(configuration: configuration(of: user), store: store)
        sessions[user] = sessions[user] ?? session
        return sessions[user] ?? session
    }

    /// Lets the user link an account: `show` gets the code and the address to type it at.
    func link(_ user: String, show: @MainActor (ChappieDeviceCode) -> Void) async throws -> ChappieAccountInfo {
        try await session(of: user).signIn(show)
    }

    /// Answers one user. Different users are answered side by side, questions of one user in turn.
    func answer(_ user: String, _ question: String) async throws -> String {
        let client = clients[user] ?? Chappie.client(configuration: configuration(of: user), store: store)
        clients[user] = client
        return try await client.send(question)
    }
}

let assistants = Assistants()
do {
    for user in ["user-1", "user-2"] {
        let account = try await assistants.link(user) { code in
            print("\(user): enter \(code.userCode) at \(code.verificationURL)")
        }
        print("\(user) is linked, plan \(account.plan?.displayName ?? "unknown")")
    }
    async let first = assistants.answer("user-1", "reply: for the first")
    async let second = assistants.answer("user-2", "reply: for the second")
    print(try await "user-1 got: \(first)\nuser-2 got: \(second)")
    _ = try await assistants.answer("user-3", "Hello")
} catch ChappieClientError.missingCredential {
    print("user-3 has to link an account first")
}
