import ChappieAuth
import ChappieRuntime
import ChappieTesting
@_spi(ChappieInternals) import ChappieThreadsSQLite
import Foundation
import Glibc
import TestFixtures
import Testing

/// Tests of whose threads a store has if no folder is named.
struct OwnerTests {
    @Test func `a store without a folder uses its owner's folder`() async throws {
        let keys = InMemoryCredentialStore()
        func directory(_ owner: CredentialSlot) throws -> String {
            try #require(ChappieFileThreadStore(owner: owner, keys: keys).directory)
        }
        let mine = CredentialSlot(service: "com.example.shop", account: "user-1")
        let store = ChappieFileThreadStore(keys: keys)
        #expect(store.directory == nil)
        await refusal("unavailable", saying: "no location yet") { _ = try await store.summaries() }
        #expect(store.placed(for: mine) as? ChappieFileThreadStore === store)
        #expect(store.directory == (try directory(mine)))
        #expect(store.directory?.contains("/chappie/threads/com.example.shop/") == true)
        #expect(try !directory(mine).contains("user-1"))
        let others = [
            CredentialSlot(service: "com.example.shop", account: "user-2"),
            CredentialSlot(service: "com.example.other", account: "user-1"),
            CredentialSlot(service: "com.example.shop", account: "user-1", issuer: "https://other"),
            CredentialSlot(service: "com.example.shop", account: "user-1", accessGroup: "group"),
            CredentialSlot(service: "../shop", account: "user-1"), CredentialSlot(service: "..", account: "user-1"),
            CredentialSlot(service: "", account: "user-1"),
        ]
        let directories = try others.map(directory)
        #expect(Set(directories + [try directory(mine)]).count == others.count + 1)
        #expect(directories.suffix(3).allSatisfy { $0.contains("/chappie/threads/other/") })
    }

    @Test func aStoreOfOneOwnerIsNotAnothers() async throws {
        let store = ChappieFileThreadStore(keys: InMemoryCredentialStore())
        let first = CredentialSlot(service: "com.example.shop", account: "user-1")
        #expect(store.placed(for: first) as? ChappieFileThreadStore === store)
        let second = store.placed(for: CredentialSlot(service: "com.example.shop", account: "user-2"))
        await refusal("unavailable", saying: "another user") { _ = try await second.summaries() }
        let place = try Place()
        let named = place.store()
        #expect(named.placed(for: first) as? ChappieFileThreadStore === named)
        #expect(named.directory == place.directory)
    }
}
