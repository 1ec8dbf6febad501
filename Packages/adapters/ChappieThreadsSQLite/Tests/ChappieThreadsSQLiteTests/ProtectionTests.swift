import ChappieAuth
import ChappieCore
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// What is on the disk, and what happens when somebody changes it.
struct ProtectionTests {
    private static let sealed: [FileProtection] = [.complete, .completeUntilFirstUserAuthentication]

    @Test(arguments: everyProtection) func noWordIsOnTheDiskInClear(_ protection: FileProtection) async throws {
        let place = try Place()
        let store = place.store(protection)
        try await store.say(["The Zanzibarquokka ate my Wombatbreakfast", "and another Zanzibarquokka"], in: "a")
        let titled = ChappieThreadRecord(
            position: 2, kind: .renamed, date: said("").date, body: ["title": "Kakapoholiday"])
        var summary = try #require(try await store.summary(of: "a"))
        summary.add(titled)
        try await store.append([titled], to: summary, at: 2)
        #expect(try await store.search(ChappieThreadQuery("kakapo")).map(\.thread.title) == ["Kakapoholiday"])
        try await store.say(["Deletedplatypus"], in: "b")
        try await store.delete("b")
        // While the log is there, and once it is gone.
        let words = ["zanzibarquokka", "wombatbreakfast", "kakapoholiday"]
        let whileOpen = try found(words + ["deletedplatypus"], in: place.directory)
        #expect(whileOpen == (protection == .none ? Set(words) : []))
        #expect(try Files.names(in: place.directory).contains("threads.db-wal"))
        let raw = try RawDatabase(place.database)
        try raw.run("PRAGMA wal_checkpoint(TRUNCATE)")
        #expect(try found(words + ["deletedplatypus"], in: place.directory) == (protection == .none ? Set(words) : []))
    }

    /// Those of the words that are in a file of the folder, whatever their case.
    private func found(_ words: [String], in folder: String) throws -> Set<String> {
        var found: Set<String> = []
        for name in try Files.names(in: folder) {
            let text = String(decoding: try Files.read("\(folder)/\(name)"), as: Unicode.ASCII.self).lowercased()
            found.formUnion(words.filter { text.contains($0) || text.contains($0.prefix(7)) })
        }
        return found
    }

    /// Each as SQL; the thread that must be named.
    private static let changes: [(String, String?)] = [
        // Two records of a thread exchanged.
        (
            """
            UPDATE records SET id = -1 WHERE id = 1 << 32;
            UPDATE records SET id = 1 << 32 WHERE id = 1 << 32 | 1; UPDATE records SET id = 1 << 32 | 1 WHERE id = -1
            """, "one"
        ),
        // A body in another record's place, of the same thread and of another.
        ("UPDATE records SET body = (SELECT body FROM records WHERE id = 1 << 32 | 1) WHERE id = 1 << 32", "one"),
        ("UPDATE records SET body = (SELECT body FROM records WHERE id = 2 << 32) WHERE id = 1 << 32", "one"),
        ("UPDATE records SET kind = 'turn.failed' WHERE id = 1 << 32", "one"),
        ("UPDATE records SET date = date + 1 WHERE id = 1 << 32 | 2", "one"),
        ("UPDATE records SET key = key + 1 WHERE id = 1 << 32 | 2", "one"),
        ("DELETE FROM records WHERE id = 1 << 32 | 1", "one"),
        ("DELETE FROM records WHERE id = 1 << 32 | 2", "one"),
        ("DELETE FROM records WHERE id = 1 << 32 | 2; UPDATE threads SET count = 2 WHERE id = 'one'", "one"),
        ("UPDATE threads SET summary = (SELECT summary FROM threads WHERE id = 'two') WHERE id = 'one'", "one"),
        ("UPDATE threads SET id = 'three' WHERE id = 'one'", "one"),
        ("CREATE TRIGGER search_spy AFTER INSERT ON records BEGIN DELETE FROM threads; END", nil),
    ]

    @Test(arguments: everyProtection) func whatIsExchangedMovedOrCutIsNoticed(_ protection: FileProtection) async throws
    {
        for (change, thread) in Self.changes {
            let place = try Place()
            try await place.store(protection).say(["first", "second", "third"], in: "one")
            try await place.store(protection).say(["first", "other"], in: "two")
            try RawDatabase(place.database).run(change)
            if let thread {
                await refusal("damaged(thread: Optional(\"\(thread)\")", change) {
                    _ = try await place.store(protection).records(of: "one", from: 0)
                }
            } else {
                // Nothing that was said is changed.
                #expect(try await place.store(protection).words(of: "one") == ["first", "second", "third"])
            }
            guard !change.contains("records") else { continue }
            await refusal("damaged", change) { _ = try await place.store(protection).summaries() }
        }
    }

    @Test func `a store is never protected less than was requested`() async throws {
        let sealed = try Place()
        try await sealed.store(.complete).say(["first"], in: "one")
        await refusal("locked", saying: "is encrypted") { _ = try await sealed.store(.none).summaries() }
        await refusal("locked") { try await sealed.store(.none).say(["second"], in: "one", from: 1) }
        #expect(try await sealed.store(.completeUntilFirstUserAuthentication).words(of: "one") == ["first"])
        let plain = try Place()
        try await plain.store(.none).say(["first"], in: "one")
        for protection in Self.sealed {
            await refusal("unsafeFile", saying: "plain text") { _ = try await plain.store(protection).summaries() }
            await refusal("unsafeFile") { try await plain.store(protection).say(["second"], in: "one", from: 1) }
        }
        #expect(try await plain.store(.none).words(of: "one") == ["first"])
        #expect(plain.keys.calls.isEmpty)
    }

    @Test func whileTheKeyringIsLockedTheThreadsAreToo() async throws {
        let place = try Place()
        let (strict, kept) = (place.store(.complete), place.store(.completeUntilFirstUserAuthentication))
        // In another process: one in which a turn is under way has the key.
        try await place.store().say(["first"], in: "one")
        #expect(try await kept.words(of: "one") == ["first"])
        place.keys.fail(.load, with: .locked("the screen is locked"))
        for store in [strict, place.store(.completeUntilFirstUserAuthentication)] {
            await refusal("locked", saying: "the screen is locked") { _ = try await store.summaries() }
            await refusal("locked") { _ = try await store.records(of: "one", from: 0) }
            await refusal("locked") { _ = try await store.search(ChappieThreadQuery("first")) }
            await refusal("locked") { _ = try await store.repair() }
            await refusal("locked") { try await store.say(["second"], in: "one", from: 1) }
            #expect(try await store.usage().records == 1)
        }
        // It was read before.
        try await kept.say(["second"], in: "one", from: 1)
        place.keys.fail(.load, with: .locked(""), times: 0)
        #expect(try await strict.words(of: "one") == ["first", "second"])
    }

    private static let ends: [ChappieThreadRecord.Kind] = [
        .turnFinished, .turnFailed, .turnInterrupted, .approvalPending,
    ]

    @Test(arguments: ends)
    func `a turn is stored to its end even if the screen locks in the meantime`(_ end: ChappieThreadRecord.Kind)
        async throws
    {
        let place = try Place()
        let store = place.store(.complete)
        try await place.store().say(["other"], in: "two")
        try await store.say(["question"], in: "one")
        place.keys.fail(.load, with: .locked("the screen is locked"))
        try await store.add(.toolsCalled, ["turn": "turn-0"], to: "one")
        try await store.add(.compacted, ["context": [:]], to: "one")
        #expect(try await store.records(of: "one", from: 2).map(\.kind) == [.compacted])
        // The key is there for this thread alone.
        await refusal("locked") { _ = try await store.records(of: "two", from: 0) }
        await refusal("locked") { try await store.add(.turnStarted, ["turn": "turn-1"], to: "two") }
        await refusal("locked") { _ = try await store.summaries() }
        try await store.add(end, ["turn": "turn-0"], to: "one")
        await refusal("locked") { _ = try await store.records(of: "one", from: 0) }
        await refusal("locked") { try await store.say(["again"], in: "one", from: 4) }
        place.keys.fail(.load, with: .locked(""), times: 0)
        let kinds: [ChappieThreadRecord.Kind] = [.turnStarted, .toolsCalled, .compacted, end]
        #expect(try await place.store().records(of: "one", from: 0).map(\.kind) == kinds)
    }

    @Test func `a turn that is resumed has the key until it ends`() async throws {
        let place = try Place()
        let store = place.store(.complete)
        try await place.store().say(["question"], in: "one")
        try await store.add(.turnResumed, ["turn": "turn-0"], to: "one")
        place.keys.fail(.load, with: .locked("the screen is locked"))
        // Two turns of one thread: the key is there until both have ended.
        try await store.say(["meanwhile"], in: "one", from: 2)
        try await store.add(.turnFinished, ["turn": "turn-0"], to: "one")
        try await store.add(.turnFinished, ["turn": "turn-2"], to: "one")
        await refusal("locked") { _ = try await store.summary(of: "one") }
    }

    @Test func aTurnThatCannotGoOnHasTheKeyNoLonger() async throws {
        let place = try Place()
        for isDeletedHere in [true, false] {
            let store = place.store(.complete)
            try await store.say(["question"], in: "one")
            let summary = try #require(try await store.summary(of: "one"))
            try await (isDeletedHere ? store : place.store()).delete("one")
            place.keys.fail(.load, with: .locked("the screen is locked"))
            let end = ChappieThreadRecord(
                position: 1, kind: .turnFinished, date: summary.createdAt, body: ["turn": "turn-0"])
            await refusal(isDeletedHere ? "locked" : "conflict") { try await store.append([end], to: summary, at: 1) }
            await refusal("locked") { _ = try await store.records(of: "one", from: 0) }
            place.keys.fail(.load, with: .locked(""), times: 0)
        }
    }

    @Test func aStoreIsNotMadeWithoutItsKey() async throws {
        let place = try Place()
        place.keys.fail(.save, with: .locked("the screen is locked"))
        await refusal("locked") { try await place.store().say(["first"], in: "one") }
        #expect(try Files.read(place.database).isEmpty)
        place.keys.fail(.save, with: .locked(""), times: 0)
        try await place.store().say(["first"], in: "one")
        #expect(try await place.store().words(of: "one") == ["first"])
    }

    @Test func aFolderThatCannotBeMadeLeavesNoKey() async throws {
        let place = try Place()
        try Files.write([], to: place.folder.path("file"))
        let store = ChappieFileThreadStore(directory: place.folder.path("file/threads"), keys: place.keys)
        await refusal("unavailable") { try await store.say(["first"], in: "one") }
        #expect(place.keys.calls.isEmpty)
    }

    @Test func preparingLooksAtTheKey() async throws {
        let place = try Place()
        try await place.store().prepare()
        try await place.store().prepare()
        place.keys[try await place.slot] = nil
        await refusal("wrongKey", saying: "is not in the credential store any more") {
            try await place.store().prepare()
        }
    }

    @Test(arguments: everyProtection)
    func whatWouldNotComeBackIsRefused(_ protection: FileProtection) async throws {
        let store = try Place().store(protection)
        let deep = (0..<251).reduce("1" as ChappieJSON) { json, _ in [json] }
        for record in [
            ChappieThreadRecord(position: 0, kind: .turnStarted, date: Date(timeIntervalSince1970: .infinity)),
            ChappieThreadRecord(position: 0, kind: .turnStarted, date: Date(timeIntervalSince1970: .nan)),
            ChappieThreadRecord(position: 0, kind: .turnStarted, date: Date(timeIntervalSince1970: 1e17)),
            ChappieThreadRecord(position: 0, kind: .turnStarted, date: Date(timeIntervalSince1970: 0), body: deep),
        ] {
            let summary = ChappieThreadSummary(id: "one", createdAt: Date(timeIntervalSince1970: 0))
            await refusal("unavailable") { try await store.append([record], to: summary, at: 0) }
        }
        let endless = ChappieThreadSummary(id: "one", createdAt: Date(timeIntervalSince1970: .infinity))
        await refusal("unavailable", saying: "a date is beyond") {
            try await store.append([said("first")], to: endless, at: 0)
        }
        #expect(try await store.summaries().isEmpty)
    }

    @Test(arguments: sealed) func aKeyThatIsGoneOrAnotherIsToldApart(_ protection: FileProtection) async throws {
        let (place, other) = (try Place(), try Place())
        try await place.store(protection).say(["first"], in: "one")
        try await other.store(protection).say(["first"], in: "one")
        let (slot, otherSlot) = (try await place.slot, try await other.slot)
        let key = place.keys[slot]
        place.keys[slot] = nil
        await refusal("wrongKey", saying: slot.account) { _ = try await place.store(protection).summaries() }
        for wrong in [other.keys[otherSlot], Secret("{}"), Secret(#"{"version":1,"keys":["AAAA"]}"#), Secret("")] {
            place.keys[slot] = wrong
            await refusal("wrongKey") { _ = try await place.store(protection).records(of: "one", from: 0) }
            await refusal("wrongKey") { try await place.store(protection).say(["second"], in: "one", from: 1) }
        }
        place.keys[slot] = Secret(#"{"version":2}"#)
        await refusal("tooNew(found: 2, known: 1)") { _ = try await place.store(protection).summaries() }
        place.keys[slot] = key
        #expect(try await place.store(protection).words(of: "one") == ["first"])
    }
}

extension Place {
    /// Where the key of the store is, as its documentation says.
    var slot: CredentialSlot {
        get async throws {
            let raw = try RawDatabase(database)
            return CredentialSlot(account: "threads-\(try raw.text("SELECT id FROM store"))")
        }
    }
}
