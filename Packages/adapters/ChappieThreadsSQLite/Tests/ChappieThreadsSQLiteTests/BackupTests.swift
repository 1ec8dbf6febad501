import ChappieAuth
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
import Glibc
import TestFixtures
import Testing

/// A backup has the threads and their key, and gives both back.
struct BackupTests {
    private let phrase = Secret("correct horse")

    @Test(arguments: [FileProtection.complete, .none])
    func aBackupBringsBackThreadsOnAnotherMachine(_ protection: FileProtection) async throws {
        let (here, there) = (try Place(), try Place())
        let store = here.store(protection)
        try await store.say(["first words", "second words"], in: "one")
        try await store.say(["other words"], in: "two")
        let file = here.folder.path("all.backup")
        try await store.backup(to: file, passphrase: phrase)
        #expect(try Files.mode(of: file) == 0o600)
        #expect(try Files.names(in: here.folder.path).filter { $0.hasPrefix("all.backup") } == ["all.backup"])
        let isClear = try Data(Files.read(file)).range(of: Data("first words".utf8)) != nil
        #expect(isClear == (protection == .none))
        try await store.say(["third words"], in: "one", from: 2)
        try await store.backup(to: file, passphrase: phrase)

        let other = there.store(protection)
        try await other.say(["first words", "second words"], in: "one")
        let restored = try await other.restore(from: file, passphrase: phrase)
        #expect(restored.threads == [.continued: ["one"], .added: ["two"]] && restored.problems.isEmpty)
        #expect(try await other.words(of: "one") == ["first words", "second words", "third words"])
        #expect(try await other.restore(from: file, passphrase: phrase).threads[.unchanged]?.count == 2)
        #expect(try await other.verify().isEmpty)
        #expect(try Files.names(in: there.directory).allSatisfy { !$0.hasPrefix("restoring") })
        #expect(try Files.names(in: here.directory).allSatisfy { !$0.hasPrefix("restoring") })
    }

    @Test func `a lost key is restored with everything that was said since`() async throws {
        let place = try Place()
        try await place.store().say(["first"], in: "one")
        let file = place.folder.path("all.backup")
        try await place.store().backup(to: file, passphrase: phrase)
        try await place.store().say(["since"], in: "one", from: 1)
        // A keyring that was made anew.
        let emptied = InMemoryCredentialStore()
        let store = ChappieFileThreadStore(directory: place.directory, keys: emptied)
        await refusal("wrongKey") { _ = try await store.summaries() }
        #expect(try await store.restore(from: file, passphrase: phrase).threads == [.unchanged: ["one"]])
        #expect(try await store.words(of: "one") == ["first", "since"])
    }

    @Test func aBackupBesideANewKeyHasTheKeyThatOpensIt() async throws {
        let (here, there) = (try Place(), try Place())
        try await here.store().say(["first"], in: "one")
        let file = here.folder.path("all.backup")
        let keys = RotatingAfterLoad(here.keys) { try? await here.store().rotateKey() }
        let store = ChappieFileThreadStore(directory: here.directory, keys: keys)
        try await store.backup(to: file, passphrase: phrase)
        #expect(await keys.loads == 2)
        #expect(try Files.names(in: here.folder.path).filter { $0.hasPrefix("all.backup") } == ["all.backup"])
        #expect(try await there.store().restore(from: file, passphrase: phrase).threads == [.added: ["one"]])
        // A key that opens nothing makes no backup.
        let slot = try await here.slot
        let other = try Place()
        try await other.store().say(["first"], in: "one")
        here.keys[slot] = other.keys[try await other.slot]
        await refusal("wrongKey") { try await here.store().backup(to: file, passphrase: phrase) }
    }

    /// Another key is in the keyring after it, or none.
    @Test(arguments: [false, true]) func `a store whose key is lost begins again only if the keyring has no key`(
        isKeyStored: Bool
    ) async throws {
        let place = try Place()
        let store = place.store()
        try await store.say(["first"], in: "one")
        let (older, right) = (place.folder.path("older.backup"), place.folder.path("right.backup"))
        try await store.backup(to: older, passphrase: phrase)
        let slot = try await place.slot
        let former = place.keys[slot]
        try await store.rotateKey()
        try await store.backup(to: right, passphrase: phrase)
        let keyring = InMemoryCredentialStore()
        if isKeyStored { keyring[slot] = former }
        let opened = ChappieFileThreadStore(directory: place.directory, keys: keyring)
        if isKeyStored {
            await refusal("wrongKey") { _ = try await opened.restore(from: older, passphrase: phrase) }
            #expect(try await opened.restore(from: right, passphrase: phrase).threads == [.unchanged: ["one"]])
        } else {
            let restored = try await opened.restore(from: older, passphrase: phrase)
            #expect(restored.threads == [.added: ["one"]])
            let file = try #require(restored.damagedFile)
            #expect(FileManager.default.fileExists(atPath: file))
        }
        #expect(try await opened.words(of: "one") == ["first"])
    }

    @Test(arguments: [FileProtection.complete, .none])
    func `a damaged or unusable thread of a backup affects no other thread`(_ protection: FileProtection) async throws {
        let (here, there) = (try Place(), try Place())
        let store = here.store(protection)
        for id in ["one", "two", "three", "../four", "\u{1b}[31m"] { try await store.say(["words"], in: id) }
        let file = here.folder.path("all.backup")
        try await store.backup(to: file, passphrase: phrase)
        let raw = try RawDatabase(file)
        try raw.run("UPDATE records SET date = date + 1 WHERE id >> 32 = 2")
        let other = there.store(protection)
        let restored = try await other.restore(from: file, passphrase: phrase)
        #expect(Set(restored.threads[.added] ?? []) == ["one", "three"] && restored.threads.count == 1)
        #expect(restored.problems.count == 3)
        #expect(restored.problems.contains { if case .damaged("two", _) = $0 { true } else { false } })
        #expect(try await Set(other.summaries().map(\.id)) == ["one", "three"])
    }

    @Test func anEncryptedStoreTakesNoBackupOfPlainText() async throws {
        let (here, there) = (try Place(), try Place())
        try await here.store(.none).say(["planted"], in: "one")
        let file = here.folder.path("all.backup")
        try await here.store(.none).backup(to: file, passphrase: phrase)
        await refusal("unsafeFile", saying: "plain text") {
            _ = try await there.store().restore(from: file, passphrase: phrase)
        }
        #expect(try await there.store().summaries().isEmpty)
    }

    @Test func `the copies of processes that were killed are removed`() async throws {
        let place = try Place()
        let store = place.store()
        try await store.say(["first"], in: "one")
        let file = place.folder.path("all.backup")
        let other = place.folder.path("all.backup.mine.draft")
        try Files.write([1], to: other)
        func leaveCopies() throws -> [String] {
            let folder = place.directory + "/restoring-\(UUID().uuidString.lowercased())"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Files.write([1], to: folder + "/threads.db")
            let draft = "\(file).\(UUID().uuidString.lowercased()).draft"
            let drafts = ["", "-journal", "-wal", "-shm"].map { draft + $0 }
            for draft in drafts { try Files.write([1], to: draft) }
            return [folder] + drafts
        }
        let isThere = { FileManager.default.fileExists(atPath: $0) }
        let killed = try leaveCopies()
        try await store.backup(to: file, passphrase: phrase)
        #expect(!killed.contains(where: isThere))
        #expect(isThere(other))
        #expect(isThere(file))
        // A copy that is being made stays.
        let running = try leaveCopies()
        let descriptor = open(place.directory + "/copies.lock", O_RDWR | O_CLOEXEC)
        #expect(flock(descriptor, LOCK_SH) == 0)
        try await store.delete("one")
        #expect(running.allSatisfy(isThere))
        // A program that another test starts at this moment may share the descriptor.
        #expect(flock(descriptor, LOCK_UN) == 0)
        close(descriptor)
        try await store.delete("two")
        #expect(running.map(isThere) == [false, true, true, true, true])
        _ = try await store.restore(from: file, passphrase: phrase)
        #expect(try Files.names(in: place.directory).allSatisfy { !$0.hasPrefix("restoring") })
    }

    @Test func `a cancelled call reports what is done and leaves no copy`() async throws {
        let (here, there) = (try Place(), try Place())
        try await here.store().say(["first"], in: "one")
        let file = here.folder.path("all.backup")
        try await here.store().backup(to: file, passphrase: phrase)
        let calls: [@Sendable () async throws -> Void] = [
            { _ = try await there.store().restore(from: file, passphrase: Secret("correct horse")) },
            { try await here.store().rotateKey() },
        ]
        for call in calls {
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                try await call()
            }
            await refusal("unavailable", saying: "cancelled") { try await task.value }
        }
        #expect(try await there.store().summaries().isEmpty)
        #expect(try Files.names(in: there.directory).allSatisfy { !$0.hasPrefix("restoring") })
        try await here.store().rotateKey()
        #expect(try await here.store().verify().isEmpty)
    }

    /// The ways in which a store can be lost, each as a change of its bytes.
    static let losses: [(String, @Sendable ([UInt8]) -> [UInt8]?)] = [
        ("empty", { _ in [] }), ("random", { bytes in bytes.map { _ in .random(in: 0...255) } }),
        ("cut", { Array($0.prefix(8192)) }), ("gone", { _ in nil }),
        (
            "one byte",
            { bytes in
                var bytes = bytes
                bytes[17] ^= 0xFF
                return bytes
            }
        ),
    ]

    @Test(arguments: losses.indices) func `a store that cannot be opened is restored`(_ index: Int) async throws {
        let place = try Place()
        let store = place.store()
        for thread in ["one", "two"] { try await store.say(["first", "second"], in: thread) }
        let file = place.folder.path("all.backup")
        try await store.backup(to: file, passphrase: phrase)
        try RawDatabase(place.database).run("PRAGMA wal_checkpoint(TRUNCATE)")
        let (what, change) = Self.losses[index]
        let directory = place.folder.path("damaged")
        #expect(mkdir(directory, 0o700) == 0)
        try Files.write(Files.read(place.directory + "/threads.lock"), to: directory + "/threads.lock")
        if let bytes = change(try Files.read(place.database)) {
            try Files.write(bytes, to: directory + "/threads.db")
            try Files.set(0o600, of: directory + "/threads.db")
        }
        let damaged = ChappieFileThreadStore(directory: directory, keys: place.keys)
        await refusal("damaged", what) { _ = try await damaged.summaries() }
        let restored = try await damaged.restore(from: file, passphrase: phrase)
        #expect(restored.problems.isEmpty, "\(what): \(restored)")
        #expect(Set(restored.threads.values.joined()) == ["one", "two"])
        // A file that is gone, or of which nothing is lost, is not kept.
        #expect((restored.damagedFile == nil) == ["gone", "one byte"].contains(what), "\(what): \(restored)")
        for thread in ["one", "two"] { #expect(try await damaged.words(of: thread) == ["first", "second"]) }
        #expect(try await damaged.verify().isEmpty)
        try await damaged.say(["third"], in: "one", from: 2)
    }

    @Test func `a key that cannot be read is not lost`() async throws {
        let (here, there) = (try Place(), try Place())
        let file = here.folder.path("all.backup")
        try await here.store().say(["first"], in: "one")
        try await here.store().backup(to: file, passphrase: phrase)
        try await there.store().say(["other"], in: "two")
        there.keys.fail(.load, with: .locked("the screen is locked"))
        await refusal("locked") { _ = try await there.store().restore(from: file, passphrase: phrase) }
        there.keys.fail(.load, with: .locked(""), times: 0)
        #expect(try await there.store().words(of: "two") == ["other"])
    }

    @Test func `a backup of damaged threads leaves the older one`() async throws {
        let place = try Place()
        let file = place.folder.path("all.backup")
        for thread in ["one", "two"] { try await place.store().say(["first"], in: thread) }
        try await place.store().backup(to: file, passphrase: phrase)
        let older = try Files.read(file)
        try RawDatabase(place.database).run("UPDATE records SET body = zeroblob(50) WHERE id = 1 << 32")
        await refusal("damaged(thread: Optional(\"one\")") {
            try await place.store().backup(to: file, passphrase: phrase)
        }
        #expect(try Files.read(file) == older)
        #expect(try Files.names(in: place.folder.path).filter { $0.hasPrefix("all.backup") } == ["all.backup"])
    }

    @Test func `a backup replaces only a regular file outside the store`() async throws {
        let place = try Place()
        let store = place.store()
        try await store.say(["first"], in: "one")
        let (pipe, link, target) = (place.folder.path("pipe"), place.folder.path("link"), place.folder.path("target"))
        #expect(mkfifo(pipe, 0o600) == 0 && symlink("target", link) == 0)
        let other = place.folder.path("other")
        #expect(symlink(place.directory, other) == 0)
        for path in [pipe, "/dev/null", place.folder.path, place.database, other + "/threads.db", other + "/new"] {
            await refusal("unsafeFile", path) { try await store.backup(to: path, passphrase: phrase) }
        }
        for content in [nil, "older"] as [String?] {
            if let content { try Files.write(Array(content.utf8), to: target) }
            try await store.backup(to: link, passphrase: phrase)
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "target")
            #expect(try Files.read(target).starts(with: "SQLite format 3".utf8))
        }
        // A copy of a backup in the place of the store can be backed up again.
        try RawDatabase(place.database).run("CREATE TABLE backup (version)")
        try await store.backup(to: target, passphrase: phrase)
        #expect(try await place.store().restore(from: target, passphrase: phrase).threads == [.unchanged: ["one"]])
    }

    @Test func `a file that is not a backup or has another passphrase is refused`() async throws {
        let place = try Place()
        let store = place.store()
        let file = place.folder.path("all.backup")
        await refusal("unavailable", saying: "none yet") { try await store.backup(to: file, passphrase: phrase) }
        try await store.say(["first"], in: "one")
        try await store.backup(to: file, passphrase: phrase)
        await refusal("locked", saying: "not the passphrase") {
            _ = try await store.restore(from: file, passphrase: Secret("battery staple"))
        }
        await refusal("badBackup", saying: "not a backup") {
            _ = try await store.restore(from: place.database, passphrase: phrase)
        }
        try Files.write(Array("text".utf8), to: file)
        await refusal("badBackup") { _ = try await store.restore(from: file, passphrase: phrase) }
        await refusal("unavailable") {
            try await store.backup(to: place.folder.path("missing/all.backup"), passphrase: phrase)
        }
        #expect(try await store.words(of: "one") == ["first"])
        #expect(try Files.names(in: place.directory).allSatisfy { !$0.hasPrefix("restoring") })
    }
}

/// Replaces its key after the first load.
private actor RotatingAfterLoad: CredentialStore {
    private let store: InMemoryCredentialStore
    private let rotate: @Sendable () async -> Void
    private(set) var loads = 0

    init(_ store: InMemoryCredentialStore, rotate: @escaping @Sendable () async -> Void) {
        self.store = store
        self.rotate = rotate
    }

    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        let secret = try await store.load(slot)
        loads += 1
        if loads == 1 { await rotate() }
        return secret
    }

    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await store.save(secret, in: slot)
    }

    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await store.delete(slot) }
}
