import ChappieAuth
import ChappieCore
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
import Glibc
import TestFixtures
import Testing

/// Damage at random places: a typed error that names what it can, or the full content; never a trap, never less.
@Suite(.tags(.slow))
struct DamageTests {
    /// A small store, closed, as bytes.
    private struct Sample {
        let place: Place
        let bytes: [UInt8]
        var threads: [String: [String]] = [:]
        let protection: FileProtection

        init(_ protection: FileProtection) async throws {
            self.protection = protection
            place = try Place()
            for thread in 0..<5 {
                let texts = (0..<4).map {
                    "thread \(thread) record \($0) " + String(repeating: "word ", count: $0 * 300)
                }
                threads["thread-\(thread)"] = texts
                try await place.store(protection).say(texts, in: "thread-\(thread)")
            }
            try RawDatabase(place.database).run("PRAGMA wal_checkpoint(TRUNCATE)")
            bytes = try Files.read(place.database)
        }

        /// What a store says whose file has these bytes; each answer is counted. Then the store is repaired.
        func examine(_ bytes: [UInt8], _ counts: inout [String: Int], _ what: String) async throws {
            let folder = try TemporaryDirectory()
            try Files.write(bytes, to: folder.path("threads.db"))
            try Files.set(0o600, of: folder.path("threads.db"))
            let store = ChappieFileThreadStore(
                directory: folder.path, storagePolicy: .init(fileProtection: protection), keys: place.keys)
            do {
                let ids = try await store.summaries().map(\.id)
                #expect(Set(ids) == Set(threads.keys), "\(what)")
                counts["listed", default: 0] += 1
            } catch { counts[Self.name(error), default: 0] += 1 }
            for (id, texts) in threads {
                do {
                    #expect(try await store.words(of: id) == texts, "\(what)")
                    counts["whole", default: 0] += 1
                } catch let error as ChappieThreadStoreError {
                    switch error {
                    case .damaged(let thread, _): #expect(thread == nil || thread == id, "\(what): \(error)")
                    case .wrongKey, .tooNew, .locked, .unsafeFile, .unavailable: break
                    default: Issue.record(error, "\(what)")
                    }
                    counts[Self.name(error), default: 0] += 1
                }
            }
            // What can be read is right, and none of these calls may trap.
            _ = try? await store.search(ChappieThreadQuery("word record"))
            _ = try? await store.verify()
            guard let repair = try? await store.repair() else { return }
            #expect(try await store.verify().isEmpty, "\(what): \(repair)")
            for thread in try await store.summaries() {
                let texts = try await store.words(of: thread.id)
                let all = threads[thread.id] ?? []
                #expect(texts.allSatisfy(all.contains), "\(what)")
                if texts != all { #expect(!repair.problems.isEmpty && repair.damagedFile != nil, "\(what)") }
                counts["kept", default: 0] += texts.count
            }
        }

        private static func name(_ error: any Error) -> String { String("\(error)".prefix { $0 != "(" }) }
    }

    @Test(arguments: [FileProtection.complete, .none])
    func flippedBitsLoseNothingInSilence(_ protection: FileProtection) async throws {
        let sample = try await Sample(protection)
        let rounds = isLong ? 10_000 : 50
        var counts: [String: Int] = [:]
        for _ in 0..<rounds {
            var bytes = sample.bytes
            let (place, bit) = (Int.random(in: bytes.indices), UInt8.random(in: 0..<8))
            bytes[place] ^= 1 << bit
            try await sample.examine(bytes, &counts, "bit \(bit) of byte \(place) of \(bytes.count), \(protection)")
        }
        #expect(counts["whole", default: 0] > 0 && counts["damaged", default: 0] > 0)
        print("measured: \(rounds) flipped bits, \(protection): \(counts)")
    }

    /// An id stands in its row and in the index; a damaged one is an error about the thread that was asked for.
    @Test(arguments: [FileProtection.complete, .none])
    func aDamagedIDIsNoOtherThread(_ protection: FileProtection) async throws {
        let sample = try await Sample(protection)
        let id = Array("thread-3".utf8)
        let places = sample.bytes.indices.dropLast(id.count).filter { sample.bytes[$0...].starts(with: id) }
        #expect(places.count >= 2)
        var counts: [String: Int] = [:]
        for place in places.flatMap({ [$0, $0 + 7] }) {
            var bytes = sample.bytes
            bytes[place] ^= 1
            try await sample.examine(bytes, &counts, "byte \(place), \(protection)")
        }
        #expect(counts["kept"] == 20 * 2 * places.count, "\(counts)")
        // One bit away from another's id: neither an append nor a deletion reaches that one.
        for place in places {
            var bytes = sample.bytes
            bytes[place + 7] ^= 1
            let folder = try TemporaryDirectory()
            try Files.write(bytes, to: folder.path("threads.db"))
            try Files.set(0o600, of: folder.path("threads.db"))
            let store = ChappieFileThreadStore(
                directory: folder.path, storagePolicy: .init(fileProtection: protection), keys: sample.place.keys)
            _ = try? await store.say(["more"], in: "thread-2", from: 4)
            _ = try? await store.delete("thread-2")
            let words = try? await store.words(of: "thread-3")
            #expect(words == nil || words == sample.threads["thread-3"], "byte \(place), \(protection)")
        }
    }

    @Test(arguments: [FileProtection.complete, .none])
    func aFileThatWasCutLosesNothingInSilence(_ protection: FileProtection) async throws {
        let sample = try await Sample(protection)
        var counts: [String: Int] = [:]
        for pages in 1..<sample.bytes.count / 4096 {
            for end in [pages * 4096, pages * 4096 - 1000] {
                try await sample.examine(Array(sample.bytes.prefix(end)), &counts, "cut at \(end), \(protection)")
            }
        }
        #expect(counts["damaged", default: 0] > 0 && counts["listed"] == nil)
        #expect(counts["kept", default: 0] > 0)
        print("measured: cut at each page, \(protection): \(counts)")
    }

    /// A lost page takes only the threads that have a record on it: at most four, with these sizes.
    @Test(arguments: [FileProtection.complete, .none])
    func `a page of zeros costs only the threads on it`(_ protection: FileProtection) async throws {
        let place = try Place()
        let text = { (thread: Int, record: Int) in
            "thread \(thread) record \(record) " + String(repeating: "word\(thread) ", count: 150 + thread * 7)
        }
        let threads = 40
        for thread in 0..<threads {
            try await place.store(protection).say((0..<3).map { text(thread, $0) }, in: "thread-\(thread)")
        }
        try RawDatabase(place.database).run("PRAGMA wal_checkpoint(TRUNCATE)")
        let whole = try Files.read(place.database)
        let keys = place.keys
        var lost: [Int] = []
        let pages = whole.count / 4096
        for page in stride(from: 0, to: pages, by: isLong ? 1 : 10) {
            let folder = try TemporaryDirectory()
            let file = folder.path("threads/threads.db")
            #expect(mkdir(folder.path("threads"), 0o700) == 0)
            var bytes = whole
            bytes.replaceSubrange(page * 4096..<(page + 1) * 4096, with: [UInt8](repeating: 0, count: 4096))
            try Files.write(bytes, to: file)
            try Files.set(0o600, of: file)
            // Only the folder knows the id if the row of the store is lost.
            try Files.write(Files.read(place.directory + "/threads.lock"), to: folder.path("threads/threads.lock"))
            let store = ChappieFileThreadStore(
                directory: folder.path("threads"), storagePolicy: .init(fileProtection: protection), keys: keys)
            func readable() async throws -> (whole: Int, problems: Int) {
                let found = try await store.readableThreads().threads
                var (whole, problems) = (0, threads - found.count)
                for thread in found {
                    let read = try? await store.readableThread(thread.id)
                    if read?.thread.records.count == 3 { whole += 1 }
                    if read == nil || read?.problem != nil { problems += 1 }
                    if await (try? store.words(of: thread.id)) != nil { #expect(read?.problem == nil) }
                }
                return (whole, problems)
            }
            let before = try await readable()
            lost.append(threads - before.whole)
            #expect(threads - before.whole <= 4, "page \(page): \(before)")
            let backup = folder.path("backup")
            do {
                try await store.backup(to: backup, passphrase: Secret("correct horse"))
                #expect(before == (threads, 0), "page \(page)")
            } catch { #expect(!FileManager.default.fileExists(atPath: backup), "page \(page)") }
            let repair = try await store.repair()
            #expect(try await store.verify().isEmpty, "page \(page)")
            #expect(try await readable().whole == before.whole, "page \(page): \(repair)")
            #expect(repair.problems.count == before.problems, "page \(page): \(before), \(repair)")
            #expect((repair.damagedFile == nil) == repair.problems.isEmpty, "page \(page)")
            try await store.backup(to: backup, passphrase: Secret("correct horse"))
        }
        print("measured: \(lost.count) of \(pages) pages zeroed, \(protection): lost threads \(lost.sorted())")
    }

    @Test(arguments: everyProtection) func `a repair keeps what is intact, and the rest of the store still works`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        try await place.store(protection).say(["zero", "one", "two", "three"], in: "a")
        try await place.store(protection).say(["other"], in: "b")
        #expect(try await place.store(protection).repair() == ChappieThreadRepair(threads: 2))
        try RawDatabase(place.database).run("UPDATE records SET body = zeroblob(50) WHERE id = 1 << 32 | 2")
        let store = place.store(protection)
        let problems = try await store.verify()
        #expect(problems.count == 1 && "\(problems)".contains("Optional(\"a\")"))
        let repair = try await store.repair()
        #expect("\(repair.problems)".contains("1 of its 4 records are lost"))
        #expect(try await store.words(of: "a") == ["zero", "one", "three"])
        #expect(try await store.search(ChappieThreadQuery("three")).map(\.thread.id) == ["a"])
        let file = try #require(repair.damagedFile)
        #expect(try Files.mode(of: file) == 0o600)
        // An entry that is lost is written again.
        try RawDatabase(place.database).run("UPDATE threads SET summary = zeroblob(50) WHERE id = 'a'")
        await refusal("damaged(thread: Optional(\"a\")") { _ = try await store.summaries() }
        #expect("\(try await store.repair().problems)".contains("its end may be missing"))
        #expect(try await store.words(of: "a") == ["zero", "one", "three"])
        // What is damaged can also be deleted.
        try RawDatabase(place.database).run("UPDATE threads SET summary = zeroblob(50) WHERE id = 'a'")
        try await store.delete("a")
        #expect(try await store.words(of: "b") == ["other"])
        #expect(try await store.verify().isEmpty)
    }

    /// Each byte of the header but the counters that SQLite makes anew.
    @Test(arguments: [0, 16, 17, 18, 19, 20, 21, 28, 44, 52, 56, 96, 100, 103])
    func `a damaged header costs nothing`(_ offset: Int) async throws {
        let sample = try await Sample(.complete)
        let place = try Place()
        var bytes = sample.bytes
        bytes[offset] ^= 0xFF
        #expect(mkdir(place.directory, 0o700) == 0)
        try Files.write(bytes, to: place.database)
        try Files.set(0o600, of: place.database)
        let store = ChappieFileThreadStore(directory: place.directory, keys: sample.place.keys)
        #expect(try await Set(store.readableThreads().threads.map(\.id)) == Set(sample.threads.keys))
        #expect(try await store.repair().problems.isEmpty)
        for (id, texts) in sample.threads { #expect(try await store.words(of: id) == texts) }
        try await store.say(["new"], in: "thread-0", from: 4)
        #expect(try await store.verify().isEmpty)
    }

    @Test func `a running program continues after a repair`() async throws {
        let place = try Place()
        let running = place.store()
        for thread in ["a", "b"] { try await running.say(["zero", "one"], in: thread) }
        try RawDatabase(place.database).run("UPDATE records SET body = zeroblob(50) WHERE id = 1 << 32 | 1")
        #expect(try await place.store().repair().problems.count == 1)
        try await running.say(["two"], in: "b", from: 2)
        #expect(try await place.store().words(of: "b") == ["zero", "one", "two"])
        #expect(try await running.words(of: "a") == ["zero"])
    }

    @Test(arguments: everyProtection) func aDamagedRecordDoesNotTakeTheSearch(_ protection: FileProtection) async throws
    {
        let place = try Place()
        for thread in ["a", "b", "c"] {
            try await place.store(protection).say(["an elephant and a \(thread)", "a giraffe"], in: thread)
        }
        // The words of another record lead to it, too.
        try RawDatabase(place.database).run(
            """
            UPDATE records SET body = zeroblob(50) WHERE id = 1 << 32;
            DELETE FROM records WHERE id = 2 << 32 | 1;
            UPDATE threads SET summary = zeroblob(50) WHERE id = 'c'
            """)
        let store = place.store(protection)
        let found = try await store.readableHits(ChappieThreadQuery("elephant"))
        #expect(found.hits.map(\.thread.id) == ["b"] && found.problems.count == 2)
        #expect(try await store.search(ChappieThreadQuery("elephant")) == found.hits)
        #expect(try await store.search(ChappieThreadQuery("giraffe")).map(\.thread.id) == ["a"])
        // Damage does not look like absence.
        await refusal("damaged") { _ = try await store.search(ChappieThreadQuery("\"and a c\"")) }
    }

    /// A thread is deleted and begun again, and others grow, all the time.
    @Test func aCheckBesideAWriterFindsNoDamage() async throws {
        let place = try Place()
        try await place.store().say(["first"], in: "stays")
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                let writer = place.store()
                var count = 1
                while !Task.isCancelled {
                    try await writer.say(["more"], in: "stays", from: count)
                    try await writer.say(["short", "lived"], in: "goes")
                    try await writer.delete("goes")
                    count += 1
                }
            }
            let store = place.store()
            for _ in 0..<(isLong ? 2000 : 30) {
                let problems = try await store.verify()
                #expect(problems.isEmpty, "\(problems)")
            }
            group.cancelAll()
        }
        #expect(try await place.store().verify().isEmpty)
    }

    @Test(arguments: everyProtection) func theIndexIsMadeAnew(_ protection: FileProtection) async throws {
        let place = try Place()
        try await place.store(protection).say(["an elephant", "a giraffe"], in: "a")
        try RawDatabase(place.database).run("DELETE FROM record_words WHERE id = 1 << 32")
        let store = place.store(protection)
        #expect(try await store.search(ChappieThreadQuery("elephant")).isEmpty)
        #expect("\(try await store.verify())".contains("a search would not find its record 0"))
        #expect(try await store.repair() == ChappieThreadRepair(threads: 1))
        #expect(try await store.search(ChappieThreadQuery("elephant")).map(\.position) == [0])
        #expect(try await store.verify().isEmpty)
    }
}
