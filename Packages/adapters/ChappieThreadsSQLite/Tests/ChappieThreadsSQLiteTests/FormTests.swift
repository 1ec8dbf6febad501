@_spi(ChappieInternals) import ChappieCrypto
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// Databases of earlier versions. `Forms` has one of form 1 for each protection, made by the program of that form:
/// three records of `ann`, two of `shared`, one of `mask`.
@Suite(.serialized)
struct FormTests {
    /// A copy of a database of form 1, with its key where `ThreadStoreWriter` looks for it.
    private struct Old {
        let folder: TemporaryDirectory
        let protection: FileProtection
        var directory: String { folder.path("threads") }
        var database: String { directory + "/threads.db" }

        init(_ protection: FileProtection) throws {
            folder = try TemporaryDirectory()
            self.protection = protection
            let forms =
                URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().path + "/Forms/"
            let key = "5995635d476d1862dc2e8ab78a5939354a9cba28cdf96bb80c1285f7eeaa5646.credential"
            for (name, path) in [
                ("form1-\(protection.rawValue).db", database), (key, directory + "-keys/" + key),
            ] {
                let parent = URL(filePath: path).deletingLastPathComponent().path
                try FileManager.default.createDirectory(
                    atPath: parent, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
                try Files.write(Files.read(forms + name), to: path)
                try Files.set(0o600, of: path)
            }
        }

        func store() throws -> ChappieFileThreadStore {
            ChappieFileThreadStore(
                directory: directory, storagePolicy: .init(fileProtection: protection),
                keys: try writersKeys(of: directory))
        }

        var form: String { get throws { try RawDatabase(database).text("PRAGMA user_version") } }

        /// Everything is there and found, in the present form.
        func expectWhole(_ what: String = "") async throws {
            let store = try store()
            #expect(try await store.verify().isEmpty, "\(what)")
            #expect(try await Set(store.summaries().map(\.id)) == ["ann", "shared", "mask"], "\(what)")
            for (thread, numbers) in [("ann", [1, 3, 5]), ("shared", [2, 4]), ("mask", [1])] {
                let words = try await store.words(of: thread).map { $0.split(separator: " ") }
                #expect(words.map { Int($0[1]) } == numbers, "\(what)")
                #expect(
                    zip(words, numbers).allSatisfy { $0.last?.count == 1 + $1 * 997 % 6000 }, "\(what)")
            }
            #expect(try await store.search(ChappieThreadQuery("5 an")).map(\.position) == [2], "\(what)")
            #expect(try form == "2", "\(what)")
        }
    }

    @Test(arguments: [FileProtection.complete, .none])
    func aDatabaseOfTheFirstFormIsBroughtForward(_ protection: FileProtection) async throws {
        let old = try Old(protection)
        #expect(try await old.store().usage().records == 6)
        // What has no key changes nothing, nor does salvage.
        if protection != .none { #expect(try old.form == "1") }
        let form = try old.form
        #expect(try await old.store().salvage("ann").records.count == 3)
        #expect(try old.form == form)
        try await old.expectWhole()
        // Digests of words are gone.
        let tables = try RawDatabase(old.database).text(
            "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name)")
        #expect(tables == "record_words,records,store,threads")
        try await old.store().say(["new"], in: "ann", from: 3)
        try await old.store().rotateKey()
        #expect(try await old.store().search(ChappieThreadQuery("new")).map(\.position) == [3])
        #expect(try await old.store().verify().isEmpty)
    }

    @Test func aDamagedThreadOfTheFirstFormCostsItselfAlone() async throws {
        let old = try Old(.complete)
        try RawDatabase(old.database).run(
            """
            UPDATE records SET body = zeroblob(99) WHERE id = 1 << 32 | 1;
            UPDATE threads SET summary = zeroblob(50) WHERE id = 'shared'
            """)
        let found = try await old.store().readableThreads()
        #expect(Set(found.threads.map(\.id)) == ["ann", "mask"] && found.problems.count == 1)
        #expect(try old.form == "2")
        #expect(try await old.store().search(ChappieThreadQuery("mask")).map(\.thread.id) == ["mask"])
        #expect(try await old.store().salvage("shared").records.count == 2)
        #expect(try await old.store().salvage("ann").lost == [1])
        for thread in ["ann", "shared"] { try await old.store().delete(thread) }
        #expect(try await old.store().verify().isEmpty)
    }

    @Test(arguments: [FileProtection.complete, .none])
    func aMoveToThePresentFormThatIsKilledLosesNothing(_ protection: FileProtection) async throws {
        var forms: Set<String> = []
        for round in 0..<(isLong ? 250 : 8) {
            let old = try Old(protection)
            try await onOwnThread {
                let writer = try startWriter(["list", old.directory, protection.rawValue])
                guard writer.output?.line() == "ready" else { throw FixtureFailure("it does not begin") }
                var moment = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<150_000_000))
                nanosleep(&moment, nil)
                writer.end()
            }
            forms.insert(try old.form)
            try await old.expectWhole("round \(round)")
        }
        print("measured: kill -9 while the form changes, \(protection): left were forms \(forms.sorted())")
    }

    /// As on a disk without room.
    @Test func whatCannotBeBroughtForwardNowIsRead() async throws {
        let old = try Old(.complete)
        let other = try RawDatabase(old.database)
        try other.run("BEGIN IMMEDIATE")
        let store = try old.store()
        #expect(try await store.words(of: "ann").count == 3)
        try other.run("COMMIT")
        #expect(try old.form == "1")
        try await old.expectWhole()
    }

    @Test func severalProcessesThatMeetTheFirstFormMakeOneOfIt() async throws {
        let old = try Old(.complete)
        let stores = try (0..<6).map { _ in try old.store() }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for store in stores { group.addTask { try await store.summaries().count } }
            for try await count in group { #expect(count == 3) }
        }
        try await old.expectWhole()
    }
}

/// Files whose checksums are right, and whose numbers no store writes: a backup in plain text may come from anybody.
struct CraftedFileTests {
    /// The bytes as a store seals them for this place: texts with their lengths, then numbers.
    private func sealed(_ bytes: [UInt8], _ texts: [String], _ numbers: [Int]) throws -> String {
        func little(_ number: Int) -> [UInt8] { withUnsafeBytes(of: number.littleEndian, Array.init) }
        let context = texts.flatMap { little($0.utf8.count) + Array($0.utf8) } + numbers.flatMap(little)
        let all = try RecordSealer.checksum(of: context + bytes) + bytes
        return all.map { String(format: "%02x", $0) }.joined()
    }

    @Test func aNegativeNumberOfChangesIsDamage() async throws {
        let place = try Place()
        try await place.store(.none).say(["first"], in: "one")
        let raw = try RawDatabase(place.database)
        let id = try raw.text("SELECT id FROM store")
        for (threads, changes) in [(1, Int.min), (Int.min, 1)] {
            let numbers = [threads, changes].flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) }
            let state = try sealed(numbers + [UInt8](repeating: 0, count: 32), ["store", id], [0])
            try raw.run("UPDATE store SET state = x'\(state)'")
            await refusal("damaged", saying: "the entry of the store was changed") {
                _ = try await place.store(.none).summaries()
            }
            #expect(try await !place.store(.none).verify().isEmpty)
        }
    }

    @Test(.timeLimit(.minutes(1))) func aThreadThatClaimsFourBillionRecordsTakesNoLonger() async throws {
        let place = try Place()
        try await place.store(.none).say(["first", "second"], in: "one")
        let raw = try RawDatabase(place.database)
        let id = try raw.text("SELECT id FROM store")
        let count = 0xFFFF_FFFF
        let summary = Array(try raw.text("SELECT CAST(substr(summary, 33) AS TEXT) FROM threads").utf8)
        let new = try sealed(summary, ["summary", id, "one"], [count, 0])
        try raw.run("UPDATE threads SET count = \(count), summary = x'\(new)'")
        // Form 1 had no words, and the number of threads alone.
        let state = try sealed([1, 0, 0, 0, 0, 0, 0, 0], ["store", id], [0])
        try raw.run("UPDATE store SET state = x'\(state)'; DROP TABLE record_words; PRAGMA user_version = 1")
        let store = place.store(.none)
        #expect(try await store.readableThreads().threads.map(\.id) == ["one"])
        #expect(try raw.text("PRAGMA user_version") == "2")
        await refusal("damaged", saying: "it has 2 records") { _ = try await store.words(of: "one") }
        let salvaged = try await store.salvage("one")
        #expect(salvaged.records.count == 2 && salvaged.lost.isEmpty && salvaged.isEndUnknown)
        #expect(try await store.search(ChappieThreadQuery("second")).map(\.position) == [1])
    }
}
