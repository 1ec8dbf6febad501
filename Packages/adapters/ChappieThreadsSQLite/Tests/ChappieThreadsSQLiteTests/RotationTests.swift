import ChappieAuth
import ChappieCore
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import TestFixtures
import Testing

struct RotationTests {
    /// More records than are sealed in one step, with a word each.
    private static let words = (0..<600).map { "word\($0) common" }

    @Test func `everything is sealed with the new key and found by it`() async throws {
        let place = try Place()
        let (store, other) = (place.store(), place.store(.completeUntilFirstUserAuthentication))
        try await store.say(Self.words, in: "one")
        try await store.say(["an elephant"], in: "two")
        #expect(try await other.words(of: "two") == ["an elephant"])
        let (slot, old) = (try await place.slot, try await place.storedKeys)
        try await store.rotateKey()
        let new = try await place.storedKeys
        #expect(old.count == 1)
        #expect(new.count == 1)
        #expect(old != new)
        // One that had kept the old key reads, appends and finds.
        try await other.say(["a giraffe"], in: "two", from: 1)
        for store in [store, other, place.store()] {
            #expect(try await store.words(of: "one") == Self.words)
            #expect(try await store.words(of: "two") == ["an elephant", "a giraffe"])
            #expect(try await store.search(ChappieThreadQuery("word599 comm")).map(\.position) == [599])
            #expect(try await store.search(ChappieThreadQuery("gira")).map(\.thread.id) == ["two"])
            #expect(try await store.verify().isEmpty)
        }
        // The old key opens nothing any more.
        place.keys[slot] = Secret(#"{"version":1,"keys":["\#(old[0])"]}"#)
        await refusal("wrongKey") { _ = try await place.store().records(of: "two", from: 0) }
    }

    /// The second save, which would remove the old key, does not come about.
    @Test func whatWasInterruptedIsFinished() async throws {
        let place = try Place()
        let store = place.store()
        try await store.say(Self.words, in: "one")
        let old = try await place.storedKeys
        let gate = Interrupting(place.keys, savesUntilFailure: 1)
        let interrupted = ChappieFileThreadStore(directory: place.directory, keys: gate)
        await refusal("locked", saying: "torn") { try await interrupted.rotateKey() }
        let both = try await place.storedKeys
        #expect(both.count == 2 && both[1] == old[0])
        #expect(try await store.words(of: "one") == Self.words)
        #expect(try await store.search(ChappieThreadQuery("word7")).count == 1)
        try await store.rotateKey()
        #expect(try await place.storedKeys == [both[0]])
        #expect(try await store.verify().isEmpty)
    }

    @Test func damageStopsItAndTheOldKeyStays() async throws {
        let place = try Place()
        try await place.store().say(["first", "second"], in: "one")
        try RawDatabase(place.database).run("UPDATE records SET body = zeroblob(99) WHERE id = 1 << 32")
        await refusal("damaged(thread: Optional(\"one\")") { try await place.store().rotateKey() }
        #expect(try await place.storedKeys.count == 2)
        #expect(try await place.store().repair().problems.count == 1)
        #expect(try await place.store().words(of: "one") == ["second"])
    }

    @Test func plainTextHasNoKey() async throws {
        let place = try Place()
        try await place.store(.none).say(["first"], in: "one")
        try await place.store(.none).rotateKey()
        #expect(try await place.store(.none).words(of: "one") == ["first"])
        #expect(place.keys.calls.isEmpty)
    }
}

extension Place {
    /// The keys as they are stored, the current one first.
    var storedKeys: [String] {
        get async throws {
            let text = try await keys[slot]?.withBytes { String(decoding: $0, as: UTF8.self) } ?? "{}"
            return try ChappieJSON(parsing: text)["keys"]?.array?.compactMap(\.string) ?? []
        }
    }
}

/// Fails to save after some saves.
private actor Interrupting: CredentialStore {
    private let store: InMemoryCredentialStore
    private var rest: Int

    init(_ store: InMemoryCredentialStore, savesUntilFailure rest: Int) {
        self.store = store
        self.rest = rest
    }

    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { try await store.load(slot) }

    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        rest -= 1
        guard rest >= 0 else { throw .failed("torn") }
        try await store.save(secret, in: slot)
    }

    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await store.delete(slot) }
}
