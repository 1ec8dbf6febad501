import ChappieAuth
import ChappieRuntime
import ChappieTesting
@_spi(ChappieInternals) import ChappieThreadsSQLite
import Foundation
import Glibc
import TestFixtures
import Testing

/// Whose threads a store has, if no folder is named, and how those of a former place get there.
struct OwnerTests {
    @Test func aStoreWithoutAFolderTakesTheOneOfItsOwner() async throws {
        let keys = InMemoryCredentialStore()
        func directory(_ owner: CredentialSlot) throws -> String {
            try #require(ChappieFileThreadStore(owner: owner, keys: keys).directory)
        }
        let mine = CredentialSlot(service: "com.example.shop", account: "user-1")
        let store = ChappieFileThreadStore(keys: keys)
        #expect(store.directory == nil)
        await refusal("unavailable", saying: "no place yet") { _ = try await store.summaries() }
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

    // MARK: A former place

    private let slot = CredentialSlot(service: "com.example.test-\(UUID())", account: "someone")

    private func adopting(
        _ directory: String, _ keys: any CredentialStore
    ) -> (store: ChappieFileThreadStore, outcome: FormerPlace.Outcome) {
        ChappieFileThreadStore.adopting(
            directory, owner: slot, storagePolicy: .init(), limits: .init(), keys: keys)
    }

    private func removeOwnersFolder() throws {
        let directory = try #require(ChappieFileThreadStore(owner: slot, keys: InMemoryCredentialStore()).directory)
        try? FileManager.default.removeItem(atPath: (directory as NSString).deletingLastPathComponent)
    }

    @Test func threadsMoveWithTheirKeyOnceAndAreNoticed() async throws {
        defer { try? removeOwnersFolder() }
        let place = try Place()
        #expect(adopting(place.directory, place.keys).outcome == .nothing)
        #expect(!FileManager.default.fileExists(atPath: place.directory))
        do {
            let before = place.store()
            try await before.say(["first", "second"], in: "one")
        }
        // The former place is a folder in which other apps may have theirs.
        let neighbour = place.directory + "/com.example.shop"
        #expect(mkdir(neighbour, 0o700) == 0)
        // The file of the first store closes in its own time.
        var (store, outcome) = adopting(place.directory, place.keys)
        while outcome == .stays {
            await Task.yield()
            (store, outcome) = adopting(place.directory, place.keys)
        }
        #expect(outcome == .moved(to: try #require(store.directory)))
        #expect(try await store.words(of: "one") == ["first", "second"])
        #expect(try await store.verify().isEmpty)
        #expect(try Files.names(in: place.directory) == ["com.example.shop"])
        let (next, again) = adopting(place.directory, place.keys)
        #expect(again == .nothing)
        try await next.say(["third"], in: "one", from: 2)
        #expect(try await next.words(of: "one") == ["first", "second", "third"])
        await refusal("wrongKey", saying: "not in the credential store any more") {
            let plain = ChappieFileThreadStore(directory: next.directory, keys: place.keys)
            _ = try await plain.summaries()
        }
    }

    @Test func whatAnotherProcessHoldsStaysAndMovesWhole() async throws {
        defer { try? removeOwnersFolder() }
        let folder = try TemporaryDirectory()
        let directory = folder.path("threads")
        let keys = try writersKeys(of: directory)
        let count = try await onOwnThread {
            let writer = try startWriter(["append", directory, "complete", "one"])
            defer { writer.end() }
            guard writer.output?.line() == "ready" else { throw FixtureFailure("it does not begin") }
            for _ in 0..<5 { _ = writer.output?.line() }
            // It holds the database open between its records too.
            let (store, outcome) = adopting(directory, keys)
            #expect(outcome == .stays && store.directory == directory)
            var count = 5
            for _ in 0..<5 where writer.output?.line() != nil { count += 1 }
            return count
        }
        // This process used the former place, so no other one may move it before this one ends.
        let status = try await onOwnThread { try startWriter(["adopt", directory, slot.service]).wait() }
        #expect(status == 3)
        let store = adopting(directory, keys).store
        #expect(store.directory == directory)
        #expect(try await store.usage().records >= count)
        #expect(try await store.verify().isEmpty)
    }

    @Test func aMoverThatIsKilledLosesNothing() async throws {
        for round in 0..<(isLong ? 100 : 8) {
            defer { try? removeOwnersFolder() }
            let folder = try TemporaryDirectory()
            let directory = folder.path("threads")
            let keys = try writersKeys(of: directory)
            // Killed, so that its last records are in the log alone.
            let count = try await onOwnThread {
                let writer = try startWriter(["append", directory, "complete", "one"])
                defer { writer.end() }
                guard writer.output?.line() == "ready" else { throw FixtureFailure("it does not begin") }
                return (0..<6).filter { _ in writer.output?.line() != nil }.count
            }
            try await onOwnThread {
                let mover = try startWriter(["adopt", directory, slot.service])
                guard mover.output?.line() == "ready" else { throw FixtureFailure("it does not begin") }
                var moment = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<4_000_000))
                nanosleep(&moment, nil)
                mover.end()
            }
            let (store, outcome) = adopting(directory, keys)
            #expect(outcome == .nothing || outcome == .moved(to: store.directory ?? ""), "round \(round)")
            #expect(try await store.usage().records >= count, "round \(round)")
            #expect(try await store.verify().isEmpty, "round \(round)")
        }
    }
}
