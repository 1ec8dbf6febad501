// A custom credential store for one machine. This one stands for a table of your database, and a real one encrypts what it
// writes. If several machines can reach the table, conform to SharedCredentialStore: it brings a lock that all of them use.
import ChappieAuth
import ChappieSDK
import Playground

actor TableStore: CredentialStore {
    private var rows: [CredentialSlot: [UInt8]] = [:]

    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
        rows[slot].map { Secret($0) }
    }

    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
        rows[slot] = secret.withBytes { Array($0) }
        // A store says that it has saved only what it can read back.
        guard try load(slot) == secret else { throw .notVerified }
    }

    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {
        rows[slot] = nil
    }
}

let table = TableStore()
let configuration = ChappieConfiguration(keychainService: "com.example.store", endpoints: endpoints)
let session = await Chappie.loadedAuthSession(configuration: configuration, store: .custom(table))
_ = try await session.signIn { code in print("Enter \(code.userCode) at \(code.verificationURL)") }

// Another program with the same table is signed in already.
let client = Chappie.client(configuration: configuration, store: .custom(table))
print(try await client.send("reply: found in the table"))

session.signOut()
do { print(try await client.send("Hello")) } catch ChappieClientError.missingCredential { print("the table is empty") }
