@_spi(ChappieInternals) import ChappieCrypto
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// Files whose checksums are right, and whose numbers no store writes: a backup in plain text may come from anybody.
struct CraftedFileTests {
    /// The bytes as a store seals them for this place: texts with their lengths, then numbers.
    private func sealed(_ bytes: [UInt8], _ texts: [String], _ numbers: [Int]) throws -> String {
        func little(_ number: Int) -> [UInt8] { withUnsafeBytes(of: number.littleEndian, Array.init) }
        let context = texts.flatMap { little($0.utf8.count) + Array($0.utf8) } + numbers.flatMap(little)
        let all = try RecordSealer.checksum(of: context + bytes) + bytes
        return all.map { String(format: "%02x", $0) }.joined()
    }

    @Test(.timeLimit(.minutes(1))) func `a thread that claims four billion records takes no longer to read`()
        async throws
    {
        let place = try Place()
        try await place.store(.none).say(["first", "second"], in: "one")
        let raw = try RawDatabase(place.database)
        let id = try raw.text("SELECT id FROM store")
        let count = 0xFFFF_FFFF
        let summary = Array(try raw.text("SELECT CAST(substr(summary, 33) AS TEXT) FROM threads").utf8)
        let new = try sealed(summary, ["summary", id, "one"], [count, 0])
        try raw.run("UPDATE threads SET count = \(count), summary = x'\(new)'")
        let store = place.store(.none)
        #expect(try await !store.verify().isEmpty)
        await refusal("damaged", saying: "it has 2 records") { _ = try await store.words(of: "one") }
        #expect(try await store.repair().problems.count == 1)
        #expect(try await store.words(of: "one") == ["first", "second"])
        #expect(try await store.search(ChappieThreadQuery("second")).map(\.position) == [1])
    }
}
