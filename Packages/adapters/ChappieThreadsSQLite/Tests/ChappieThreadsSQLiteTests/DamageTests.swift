import ChappieCore
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
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

        /// What a store says whose file has these bytes; each answer is counted.
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
            try? await store.rebuildIndex()
            for id in (try? await store.salvageableThreads()) ?? [] {
                guard let salvaged = try? await store.salvage(id) else { continue }
                counts["salvaged", default: 0] += salvaged.records.count
                guard let texts = threads[id] else {
                    #expect(salvaged.records.isEmpty, "\(what)")
                    continue
                }
                #expect(salvaged.records.allSatisfy { $0.searchableText == texts[$0.position] }, "\(what)")
            }
        }

        private static func name(_ error: any Error) -> String { String("\(error)".prefix { $0 != "(" }) }
    }

    @Test(arguments: [FileProtection.complete, .none])
    func flippedBitsLoseNothingInSilence(_ protection: FileProtection) async throws {
        let sample = try await Sample(protection)
        let rounds = isLong ? 10_000 : 150
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
        #expect(counts["damaged", default: 0] > 0)
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
            let saved = try? await store.salvage("thread-3").records.count
            #expect(saved == nil || saved == 4, "byte \(place), \(protection)")
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
        #expect(counts["salvaged", default: 0] > 0)
        print("measured: cut at each page, \(protection): \(counts)")
    }

    @Test(arguments: everyProtection) func `intact records are salvaged, and the rest of the store still works`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        try await place.store(protection).say(["zero", "one", "two", "three"], in: "a")
        try await place.store(protection).say(["other"], in: "b")
        #expect(try await place.store(protection).verify().isEmpty)
        try RawDatabase(place.database).run("UPDATE records SET body = zeroblob(50) WHERE id = 1 << 32 | 2")
        let store = place.store(protection)
        let problems = try await store.verify()
        #expect(problems.count == 1 && "\(problems)".contains("Optional(\"a\")"))
        #expect(try await store.salvageableThreads() == ["a", "b"])
        let salvaged = try await store.salvage("a")
        #expect(salvaged.records.map(\.searchableText) == ["zero", "one", "three"])
        #expect(salvaged.lost == [2] && !salvaged.isEndUnknown)
        try RawDatabase(place.database).run("UPDATE threads SET summary = zeroblob(50) WHERE id = 'a'")
        #expect(try await store.salvage("a").isEndUnknown)
        #expect(try await store.salvage("a").records.map(\.position) == [0, 1, 3])
        await refusal("damaged(thread: Optional(\"a\")") { _ = try await store.summaries() }
        try await store.delete("a")
        #expect(try await store.words(of: "b") == ["other"])
        try await store.rebuildIndex()
        #expect(try await store.verify().isEmpty)
        await refusal("notFound") { _ = try await store.salvage("a") }
    }

    @Test(arguments: everyProtection) func `an outdated thread is still noticed after a damaged one is deleted`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        for thread in ["rolled back", "damaged"] { try await place.store(protection).say(["first"], in: thread) }
        let raw = try RawDatabase(place.database)
        try raw.run("CREATE TEMP TABLE old AS SELECT * FROM threads WHERE id = 'rolled back'")
        try await place.store(protection).say(["second"], in: "rolled back", from: 1)
        try raw.run(
            """
            INSERT OR REPLACE INTO threads SELECT * FROM old;
            DELETE FROM records WHERE id = 1 << 32 | 1;
            DELETE FROM record_words WHERE id = 1 << 32 | 1;
            UPDATE threads SET summary = zeroblob(50) WHERE id = 'damaged'
            """)
        let store = place.store(protection)
        let problems = try await store.verify()
        #expect(problems.count == 1 && "\(problems)".contains("an older state of another"))
        try await store.delete("damaged")
        for _ in 0..<2 {
            #expect("\(try await store.verify())".contains("one is older than it was"))
            #expect(try await store.readableThreads().problems.count == 1)
            // It is noticed also after the next change.
            try await store.say(["new"], in: "new", from: (try? await store.records(of: "new", from: 0).count) ?? 0)
        }
        try await store.rebuildIndex()
        #expect(try await store.verify().isEmpty)
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
            for _ in 0..<(isLong ? 2000 : 60) {
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
        try await store.rebuildIndex()
        #expect(try await store.search(ChappieThreadQuery("elephant")).map(\.position) == [0])
        #expect(try await store.verify().isEmpty)
    }
}
