import ChappieCore
import ChappieRuntime
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// Searches, and what the index holds.
struct SearchTests {
    @Test(arguments: everyProtection) func phrasesAndBeginningsAreFound(_ protection: FileProtection) async throws {
        let store = try Place().store(protection)
        let word = String(repeating: "long", count: 12)
        let texts = ["one two three two four", "two one three", "one", "on \(word)er", "Ünïcode \(word)est and on"]
        for (number, text) in texts.enumerated() { try await store.say([text], in: "t\(number)") }
        for (query, expected) in [
            ("one two", [0, 1]), ("\"one two\"", [0]), ("\"two one\" thr", [1]), ("\"two four\"", [0]),
            ("\"one three\"", [1]), ("\"on\"", [3, 4]), ("on", [0, 1, 2, 3, 4]), ("\"o", [0, 1, 2, 3, 4]),
            ("\"tw\" one", []), ("\"\"", []), ("\"one two", [0, 1]), ("uni", [4]), (word, [3, 4]), (word + "es", [4]),
            (word + "er on", [3]), ("one three two four", [0]),
        ] as [(String, [Int])] {
            let found = try await store.search(ChappieThreadQuery(query)).map(\.thread.id).sorted()
            #expect(found == expected.map { "t\($0)" }, "\(query)")
        }
    }

    @Test func `tool arguments, tool results and summaries are found`() async throws {
        let store = try Place().store()
        try await store.say(["question"], in: "one")
        let call: ChappieJSON = [
            "type": "function_call", "name": "read_file", "arguments": #"{"path":"giraffe.txt"}"#, "call_id": "c",
        ]
        let reasoning: ChappieJSON = [
            "type": "reasoning", "summary": [["type": "summary_text", "text": "An okapi, perhaps"]],
            "encrypted_content": "secretplatypus",
        ]
        let output: ChappieJSON = ["type": "function_call_output", "call_id": "c", "output": "an elephant"]
        let answer: ChappieJSON = [
            "type": "message", "role": "assistant", "content": [["type": "output_text", "text": "a wombat"]],
        ]
        try await store.add(.toolsCalled, ["turn": "turn-0", "items": [reasoning, call]], to: "one")
        try await store.add(.turnFinished, ["turn": "turn-0", "items": [output, answer]], to: "one")
        try await store.add(.compacted, ["context": ["items": [], "summary": "about a zebra"]], to: "one")
        for (query, position) in [
            ("giraffe", 1), ("read_file", 1), ("okapi", 1), ("elephant", 2), ("wombat", 2), ("zebra", 3),
        ] {
            #expect(try await store.search(ChappieThreadQuery(query)).map(\.position) == [position], "\(query)")
        }
        #expect(try await store.search(ChappieThreadQuery("secretplatypus")).isEmpty)
    }

    @Test func `canonically equal text is found however it is written`() async throws {
        let store = try Place().store()
        // Composed and decomposed: Korean, kana, Hebrew; the singleton of an ideograph.
        let pairs = [
            ("\u{D55C}\u{AE00}", "\u{1112}\u{1161}\u{11AB}\u{1100}\u{1173}\u{11AF}"),
            ("\u{304C}\u{3071}", "\u{304B}\u{3099}\u{306F}\u{309A}"), ("\u{FB2E}x", "\u{5D0}\u{5B7}x"),
            ("\u{8C48}", "\u{F900}"),
        ]
        for (number, pair) in pairs.enumerated() {
            try await store.say([pair.0], in: "composed \(number)")
            try await store.say([pair.1], in: "decomposed \(number)")
        }
        for (number, pair) in pairs.enumerated() {
            for query in [pair.0, pair.1] {
                let found = try await store.search(ChappieThreadQuery(query)).map(\.thread.id)
                #expect(Set(found) == ["composed \(number)", "decomposed \(number)"])
            }
        }
    }

    /// Two messages with the same words, and one with others, look alike but for their size.
    @Test func `the index does not reveal which records share words`() async throws {
        let place = try Place()
        try await place.store().say(["an elephant", "an elephant", "a giraffe!!"], in: "one")
        let raw = try RawDatabase(place.database)
        let bodies = try (0..<3).map {
            try raw.text("SELECT hex(body) FROM record_words WHERE id = 1 << 32 | \($0)")
        }
        let parts = bodies.map { body in
            Set((0..<body.count / 8).map { body.dropFirst($0 * 8).prefix(8) })
        }
        #expect(Set(bodies).count == 3 && parts[0].isDisjoint(with: parts[1]) && parts[0].isDisjoint(with: parts[2]))
    }

    @Test func `only records since a date are searched`() async throws {
        let place = try Place()
        try await place.store().say(["an elephant", "a giraffe", "an elephant"], in: "one")
        // Without their bodies, older records are not read.
        try RawDatabase(place.database).run("UPDATE records SET body = zeroblob(9) WHERE id < 1 << 32 | 2")
        for (offset, positions) in [(1, [2]), (2, [2]), (3, [])] as [(Double, [Int])] {
            let start = Date(timeIntervalSince1970: 1_790_000_000 + offset)
            let found = try await place.store().readableHits(ChappieThreadQuery("elephant", since: start))
            #expect(found.hits.map(\.position) == positions && found.problems.isEmpty, "\(offset)")
        }
        for start in [Double.infinity, -.infinity, .nan] {
            let query = ChappieThreadQuery("giraffe", since: Date(timeIntervalSince1970: start))
            _ = try await place.store().readableHits(query)
        }
    }

    @Test(arguments: everyProtection)
    func `what was taken back is not found, also with a new key`(_ protection: FileProtection) async throws {
        let store = try Place().store(protection)
        try await store.say(["an elephant", "a giraffe", "a zebra"], in: "one")
        try await store.add(.turnTakenBack, ["turn": "turn-0", "records": [0, 1]], to: "one")
        try await store.say(["a giraffe"], in: "two")
        func check() async throws {
            #expect(try await store.verify().isEmpty)
            for (query, threads) in [("elephant", []), ("giraffe", ["two"]), ("zebra", ["one"])] {
                #expect(try await store.search(ChappieThreadQuery(query)).map(\.thread.id) == threads, "\(query)")
            }
        }
        try await check()
        try await store.rotateKey()
        try await check()
    }

    @Test(arguments: everyProtection) func changedWordsHideNothing(_ protection: FileProtection) async throws {
        let place = try Place()
        try await place.store(protection).say(["an elephant", "a giraffe"], in: "one")
        for change in ["body = zeroblob(40)", "key = 77"] {
            try RawDatabase(place.database).run("UPDATE record_words SET \(change) WHERE id = 1 << 32")
            let store = place.store(protection)
            #expect(try await store.search(ChappieThreadQuery("elephant")).map(\.position) == [0])
            #expect("\(try await store.verify())".contains("a search would not find its record 0"))
            #expect(try await store.repair() == ChappieThreadRepair(threads: 1))
            #expect(try await store.verify().isEmpty)
        }
    }
}
