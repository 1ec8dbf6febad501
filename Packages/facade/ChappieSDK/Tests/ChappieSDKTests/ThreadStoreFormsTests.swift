import ChappieAuth
import ChappieCore
import ChappieSDK
import ChappieSDKRuntime
import TestFixtures
import Testing

/// The call forms of the file store that the documentation shows, and the place of its key.
struct ThreadStoreFormsTests {
    @Test func theDocumentedFormCompiles() {
        let store = ChappieFileThreadStore(
            storagePolicy: ChappieFileThreadStoreStoragePolicy(
                fileProtection: .completeUntilFirstUserAuthentication
            )
        )
        #expect(store.storagePolicy.isExcludedFromBackup)
        #expect(store.limits.maximumBytes == 512 << 20)
        #expect(ChappieFileThreadStore().storagePolicy.fileProtection == .complete)
        #expect(store.directory == nil)
    }

    @Test func `a runtime gives a store the location of its client's app and user`() async throws {
        func directory(_ account: String, _ store: ChappieFileThreadStore) -> String? {
            let configuration = ChappieConfiguration(keychainService: "com.example.shop", keychainAccount: account)
            _ = Chappie.client(configuration: configuration, store: .memory).runtime(store: store)
            #expect(
                store.directory == ChappieFileThreadStore(owner: configuration.credentialSlot, keys: .memory).directory)
            return store.directory
        }
        let first = try #require(directory("user-1", ChappieFileThreadStore(keys: .memory)))
        #expect(first.contains("/chappie/threads/com.example.shop/"))
        #expect(directory("user-2", ChappieFileThreadStore(keys: .memory)) != first)
        // A store around another one passes the place on.
        let inner = ChappieFileThreadStore(keys: .memory)
        let redacting = ChappieRedactingThreadStore(wrapping: inner) { (text: String) in text }
        _ = Chappie.client(store: .memory).runtime(store: redacting)
        #expect(inner.directory?.contains("/chappie/threads/com.chappie.sdk/") == true)
    }

    @Test func theKeyIsStoredWhereTheProgramSays() async throws {
        let folder = try TemporaryDirectory()
        func store(_ keys: ChappieCredentialStorage) -> ChappieFileThreadStore {
            ChappieFileThreadStore(directory: folder.path("threads"), keys: keys)
        }
        let keys = ChappieCredentialStorage.encryptedFile(directory: folder.path("keys")) { "correct horse" }
        let record = ChappieThreadRecord(position: 0, kind: .turnStarted, date: .now, body: ["turn": "a"])
        let summary = try #require(ChappieThreadSummary(id: "one", records: [record]))
        try await store(keys).append([record], to: summary, at: 0)
        #expect(try await store(keys).records(of: "one", from: 0) == [record])
        await refusal("wrongKey") { _ = try await store(.memory).summaries() }
        let other = ChappieCredentialStorage.encryptedFile(directory: folder.path("keys")) { "battery staple" }
        await refusal("locked", saying: "passphrase") { _ = try await store(other).summaries() }
    }
}
