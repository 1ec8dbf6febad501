// The heart of a server with many users: each has a separate credential and separate conversations. Your web framework calls
// `link`, shows the code on the user's page, and calls `answer`.
import ChappieSDK
import ChappieSDKRuntime
import Playground

/// The threads of each user, for as long as this program runs. Your server keeps them: `database.threads(of: user)` of
/// ChappieThreadsPostgres, or a ChappieFileThreadStore.
actor Database {
    private var stores: [String: ChappieInMemoryThreadStore] = [:]

    func threads(of user: String) -> ChappieInMemoryThreadStore {
        let store = stores[user] ?? ChappieInMemoryThreadStore()
        stores[user] = store
        return store
    }
}

struct Assistants: Sendable {
    /// The clients of the users. Those that nobody uses are released.
    private let pool: ChappieClientPool

    init(_ database: Database) {
        pool = ChappieClientPool { user in
            Chappie.client(configuration: Self.configuration(of: user), store: store)
                .runtime(store: await database.threads(of: user))
        }
    }

    private static func configuration(of user: String) -> ChappieConfiguration {
        ChappieConfiguration(keychainService: "com.example.server", keychainAccount: user, endpoints: endpoints)
    }

    /// Lets the user link an account: `show` gets the code and the address to type it at.
    func link(_ user: String, show: @MainActor (ChappieDeviceCode) -> Void) async throws -> ChappieAccountInfo {
        // On a server without a keyring: .encryptedFile(passphrase: …), or a SharedCredentialStore over your database.
        let session = await Chappie.loadedAuthSession(configuration: Self.configuration(of: user), store: store)
        return try await session.signIn(show)
    }

    /// Answers one user. Different users are answered side by side, and the questions of a thread in turn. A user who asks
    /// too much at once gets `ChappieClientError.tooManyTurns`.
    func answer(_ user: String, _ question: String) async throws -> String {
        try await pool.send(question, thread: "main", for: user)
    }

    /// Lets the running answers end, before the program ends.
    func stop() async { await pool.stop() }
}

let assistants = Assistants(Database())
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
await assistants.stop()
