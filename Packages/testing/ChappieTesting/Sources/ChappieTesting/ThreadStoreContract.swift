@_spi(ChappieInternals) import ChappieCore
public import ChappieRuntime

/// The behaviour of every `ChappieThreadStore`, as a list of cases that any testing framework can run.
///
/// ```swift
/// @Test(arguments: ThreadStoreContract.cases)
/// func keepsTheContract(_ contractCase: ThreadStoreContract.Case) async throws {
///     try await contractCase.run(MyStore())
/// }
/// ```
/// The cases write threads whose ids begin with `contract-`, and delete what they wrote.
public enum ThreadStoreContract {
    /// One requirement for a store.
    public struct Case: Sendable, CustomStringConvertible {
        /// The requirement as a fact: `records come back as they were`.
        public let name: String
        let check: @Sendable (_ store: any ChappieThreadStore) async throws -> Void

        /// Runs the case with a store.
        ///
        /// - Throws: ``ContractViolation`` if the requirement is not met, and any error that the store should not have
        ///   thrown.
        public func run(_ store: any ChappieThreadStore) async throws {
            for id in ThreadStoreContract.ids { try await store.delete(id) }
            do { try await check(store) } catch {
                for id in ThreadStoreContract.ids { try? await store.delete(id) }
                throw error
            }
            for id in ThreadStoreContract.ids { try await store.delete(id) }
        }

        /// The name.
        public var description: String { name }
    }

    private static let one = "contract-one"
    private static let two = "contract-two"
    private static let three = "contract-three"
    private static let ids = [one, two, three]
    private static let start = Date(timeIntervalSince1970: 1_790_000_000)

    /// Every case.
    public static let cases: [Case] = [
        Case(name: "records come back as they were, whatever JSON they hold") { store in
            let bodies: [ChappieJSON] = try samples.map { try ChappieJSON(parsing: $0) }
            let records = bodies.enumerated().map { index, body in
                ChappieThreadRecord(
                    position: index, kind: index == 0 ? .turnStarted : .init(rawValue: "of.tomorrow"),
                    date: start + Double(index) / 1000, body: body)
            }
            try await append(records, to: one, of: store)
            try await expect(records, in: one, of: store)
        },
        Case(name: "a record of 2 MiB comes back whole") { store in
            let text = String(repeating: "long, äöü 🌙 ", count: (2 << 20) / 16)
            let record = ChappieThreadRecord(
                position: 0, kind: .turnFinished, date: start, body: ["text": .string(text)])
            try await append([record], to: one, of: store)
            try await expect([record], in: one, of: store)
        },
        Case(name: "records are given from a position on; beyond the end there are none") { store in
            let records = (0..<10).map { said("word \($0)", at: $0) }
            try await append(Array(records[..<4]), to: one, of: store)
            try await append(Array(records[4...]), to: one, of: store)
            for from in [0, 3, 4, 9, 10, 99] {
                let found = try await store.records(of: one, from: from)
                try require(
                    found == Array(records.dropFirst(from)), "From \(from) on it gives \(found.map(\.position)).")
            }
        },
        Case(name: "a thread that is not there has no records and no summary; deleting it is no error") { store in
            do {
                _ = try await store.records(of: one, from: 0)
                throw ContractViolation("It gives records of a thread that is not there.")
            } catch ChappieThreadStoreError.notFound(thread: one) {}
            let summary = try await store.summary(of: one)
            try require(summary == nil, "It has a summary of a thread that is not there.")
            try await store.delete(one)
        },
        Case(name: "the summary is the one that was given last") { store in
            var records = [said("the first words", at: 0)]
            try await append(records, to: one, of: store)
            records.append(
                ChappieThreadRecord(position: 1, kind: .renamed, date: start + 5, body: ["title": "Ünïcode 🌙"]))
            records.append(ChappieThreadRecord(position: 2, kind: .archived, date: start + 6))
            try await append(Array(records[1...]), to: one, of: store)
            try await append([said("another", at: 0)], to: two, of: store)
            let expected = ChappieThreadSummary(id: one, records: records)
            let listed = try await store.summaries().filter { ids.contains($0.id) }
            try require(listed.count == 2, "It lists \(listed.count) threads of two.")
            try require(listed.first { $0.id == one } == expected, "The list has another summary: \(listed).")
            let found = try await store.summary(of: one)
            try require(found == expected, "It gives another summary: \(String(describing: found)).")
        },
        Case(name: "an append at another position is refused and adds nothing") { store in
            let records = [said("one", at: 0), said("two", at: 1)]
            try await append(records, to: one, of: store)
            for position in [0, 1, 3] {
                try await expectConflict(at: position, actual: 2) {
                    try await append([said("wrong", at: position)], to: one, of: store)
                }
            }
            try await expectConflict(at: 1, actual: 0) { try await append([said("wrong", at: 1)], to: two, of: store) }
            try await expect(records, in: one, of: store)
            let summary = try await store.summary(of: two)
            try require(summary == nil, "A refused append has made a thread.")
        },
        Case(name: "of appends at the same time at the same position one wins") { store in
            let winners = try await withThrowingTaskGroup(of: Int?.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        do {
                            try await append((0..<3).map { said("by \(number)", at: $0) }, to: one, of: store)
                            return number
                        } catch ChappieThreadStoreError.conflict { return nil }
                    }
                }
                return try await group.reduce(into: [Int]()) { if let number = $1 { $0.append(number) } }
            }
            try require(winners.count == 1, "\(winners.count) of eight appends at position 0 were taken.")
            try await expect((0..<3).map { said("by \(winners[0])", at: $0) }, in: one, of: store)
        },
        Case(name: "threads don't bleed, also with appends at the same time") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for id in ids {
                    group.addTask {
                        for position in 0..<20 {
                            try await append([said("\(id) \(position)", at: position)], to: id, of: store)
                        }
                    }
                }
                try await group.waitForAll()
            }
            for id in ids { try await expect((0..<20).map { said("\(id) \($0)", at: $0) }, in: id, of: store) }
        },
        Case(name: "a deleted thread is gone, and may begin again") { store in
            try await append([said("old elephant", at: 0), said("old", at: 1)], to: one, of: store)
            try await append([said("stays", at: 0)], to: two, of: store)
            try await store.delete(one)
            let gone = try await store.search(ChappieThreadQuery("elephant"))
            try require(gone.isEmpty, "A deleted thread is found.")
            try await append([said("new", at: 0)], to: one, of: store)
            try await expect([said("new", at: 0)], in: one, of: store)
            try await expect([said("stays", at: 0)], in: two, of: store)
        },
        Case(name: "a thread is replaced whole, or stays as it was") { store in
            let old = [said("old elephant", at: 0), said("old end", at: 1)]
            try await append(old, to: one, of: store)
            try await append([said("stays", at: 0)], to: two, of: store)
            func replace(_ new: [ChappieThreadRecord], expecting count: Int) async throws {
                let summary = ChappieThreadSummary(id: one, records: new) ?? .init(id: one, createdAt: start)
                try await store.replace(new, of: summary, expecting: count)
            }
            let new = [said("new giraffe", at: 0), said("longer end", at: 1), said("more", at: 2)]
            do {
                try await replace(new, expecting: 2)
            } catch ChappieThreadStoreError.unavailable {
                // A store that does not implement this requirement changes nothing.
                return try await expect(old, in: one, of: store)
            }
            for count in [0, 2, 4] {
                try await expectConflict(at: count, actual: 3) {
                    try await replace([said("wrong", at: 0)], expecting: count)
                }
            }
            try await expect(new, in: one, of: store)
            try await expect([said("stays", at: 0)], in: two, of: store)
            let summary = try await store.summary(of: one)
            try require(
                summary == ChappieThreadSummary(id: one, records: new), "It has another summary: \(summary as Any).")
            let gone = try await store.search(ChappieThreadQuery("elephant")).map(\.thread.id)
            try require(!gone.contains(one), "Words of the thread that was replaced are found.")
            let found = try await store.search(ChappieThreadQuery("longer")).map(\.thread.id)
            try require(found.contains(one), "Words of the new thread are not found.")
            try await append([said("and on", at: 3)], to: one, of: store)
            try await replace([said("short", at: 0)], expecting: 4)
            try await expect([said("short", at: 0)], in: one, of: store)
        },
        Case(name: "a search finds words in any order, case and accent, the beginning of the last one, and phrases") {
            store in
            try await append(
                [said("Das Café schließt um acht.", at: 0), said("Nothing here", at: 1)], to: one, of: store)
            try await append([said("the cafeteria, at 8 o'clock", at: 0)], to: two, of: store)
            try await append([said("東京 は大きい", at: 0), answered("It is big: Größe", at: 1)], to: three, of: store)
            for (text, expected) in [
                ("café", [one, two]), ("CAFE schliesst", [one]), ("acht CAFÉ", [one]), ("clock cafeteria", [two]),
                ("zebra", []),
                ("京", [three]), ("grosse", [three]), ("große", [three]), ("GRÖSSE", [three]), ("grö", [three]),
                ("hing noth", []),
                ("\"; DROP TABLE * OR (", []), ("", []), ("  ", []), ("\"", []), ("\"\"", []),
                ("\"schließt um acht\"", [one]), ("\"acht um\"", []), ("\"acht\" caf", [one]), ("\"ach\"", []),
                ("\"at 8\" \"the cafeteria\"", [two]),
            ] {
                let found = try await store.search(ChappieThreadQuery(text)).map(\.thread.id).filter(ids.contains)
                try require(Set(found) == Set(expected), "\(text) finds \(found), not \(expected).")
            }
        },
        Case(name: "a search finds text that would break out of quotes, and words without end") { store in
            // One text has a letter that forms one character with the next, and the other has more accents than any
            // letter.
            let texts = ["\u{0D4E}'\" x", "a" + String(repeating: "\u{301}", count: 2000)]
            for (index, text) in texts.enumerated() { try await append([said(text, at: index)], to: one, of: store) }
            for text in texts {
                let found = try await store.search(ChappieThreadQuery(text)).map(\.thread.id).filter(ids.contains)
                try require(found == [one], "\(text.prefix(10)) finds \(found).")
            }
        },
        Case(name: "a search keeps to its moment, model, limit and the archive") { store in
            try await append([said("shared needle", at: 0, model: "one-model")], to: one, of: store)
            try await append([said("shared needle", at: 0, after: 1000)], to: two, of: store)
            let archive = ChappieThreadRecord(position: 1, kind: .archived, date: start)
            try await append([said("shared needle", at: 0), archive], to: three, of: store)
            func found(_ query: ChappieThreadQuery) async throws -> [ChappieThreadHit] {
                try await store.search(query).filter { ids.contains($0.thread.id) }
            }
            let since = try await found(ChappieThreadQuery("needle", since: start + 999))
            try require(since.map(\.thread.id) == [two], "Since a moment it finds \(since.map(\.thread.id)).")
            let model = try await found(ChappieThreadQuery("needle", model: "one-model"))
            try require(model.map(\.thread.id) == [one], "For a model it finds \(model.map(\.thread.id)).")
            let open = try await found(ChappieThreadQuery("needle", includesArchived: false))
            try require(!open.contains { $0.thread.id == three }, "It finds an archived thread.")
            let limited = try await store.search(ChappieThreadQuery("needle", limit: 2))
            try require(limited.count == 2, "It gives \(limited.count) hits where two were asked for.")
            let all = try await found(ChappieThreadQuery("needle"))
            try require(all.count == 3, "It gives \(all.count) hits of three.")
            try require(
                all.allSatisfy { $0.excerpt == "shared needle" && $0.position == 0 }, "Its excerpts are others: \(all)."
            )
        },
        Case(name: "a search does not find what was taken back, and its records come back as they were") { store in
            func takenBack(_ positions: [Int], at position: Int) -> ChappieThreadRecord {
                ChappieThreadRecord(
                    position: position, kind: .turnTakenBack, date: start,
                    body: ["turn": "turn-0", "records": .array(positions.map { .integer($0) })])
            }
            func found(_ text: String) async throws -> [String] {
                try await store.search(ChappieThreadQuery(text)).map(\.thread.id).filter(ids.contains)
            }
            var records = [said("an elephant", at: 0), answered("a giraffe", at: 1), said("a zebra", at: 2)]
            try await append(records, to: one, of: store)
            try await append([said("another elephant", at: 0), said("a giraffe", at: 1)], to: two, of: store)
            records.append(takenBack([0, 1], at: 3))
            try await append([records[3]], to: one, of: store)
            try await append([said("a wombat", at: 0), takenBack([0], at: 1)], to: three, of: store)
            for (text, expected) in [("elephant", [two]), ("giraffe", [two]), ("zebra", [one]), ("wombat", [])] {
                let found = try await found(text)
                try require(found == expected, "\(text) finds \(found), not \(expected).")
            }
            try await expect(records, in: one, of: store)
        },
        Case(name: "the usage counts threads and records") { store in
            let before = try await store.usage()
            try await append((0..<3).map { said("word", at: $0) }, to: one, of: store)
            try await append([said(String(repeating: "w", count: 10_000), at: 0)], to: two, of: store)
            let after = try await store.usage()
            try require(
                after.threads == before.threads + 2 && after.records == before.records + 4,
                "It counts \(after.threads) threads and \(after.records) records, before \(before).")
            try require(after.bytes > before.bytes, "10,000 more characters take no more bytes.")
        },
    ]

    private static let samples = [
        #"{"turn":"t","z":1,"a":2,"model":"m","messages":[]}"#, #"{"big":123456789012345678901234567890,"exact":1.50}"#,
        #"{"text":"line\nbreak \u0000 \u001b[31m \ud83c\udf19 \u202e","quote":"\"\\"}"#, #"{"a":1,"a":2,"":{}}"#,
        "[]", "null", #""only text""#, "{}",
    ]

    private static func said(
        _ text: String, at position: Int, after seconds: Double = 0, model: String = "m"
    ) -> ChappieThreadRecord {
        ChappieThreadRecord(
            position: position, kind: .turnStarted, date: start + seconds,
            body: [
                "turn": .string("turn-\(position)"), "model": .string(model),
                "messages": [
                    ["type": "message", "role": "user", "content": [["type": "input_text", "text": .string(text)]]]
                ],
            ])
    }

    private static func answered(_ text: String, at position: Int) -> ChappieThreadRecord {
        ChappieThreadRecord(
            position: position, kind: .turnFinished, date: start,
            body: [
                "turn": "turn-0",
                "items": [
                    [
                        "type": "message", "role": "assistant",
                        "content": [["type": "output_text", "text": .string(text)]],
                    ]
                ],
            ])
    }

    private static func append(
        _ records: [ChappieThreadRecord], to id: String, of store: any ChappieThreadStore
    ) async throws {
        var summary = try await store.summary(of: id) ?? ChappieThreadSummary(id: id, createdAt: records[0].date)
        for record in records { summary.add(record) }
        try await store.append(records, to: summary, at: records[0].position)
    }

    private static func expect(
        _ expected: [ChappieThreadRecord], in id: String, of store: any ChappieThreadStore
    ) async throws {
        let found = try await store.records(of: id, from: 0)
        try require(found.count == expected.count, "It has \(found.count) records, not \(expected.count).")
        for (found, expected) in zip(found, expected) {
            try require(
                found == expected && found.body.serialized() == expected.body.serialized(),
                "The record \(expected.position) is another: \(found.body.serialized().prefix(200)).")
        }
    }

    private static func expectConflict(at position: Int, actual: Int, _ operation: () async throws -> Void) async throws
    {
        do { try await operation() } catch ChappieThreadStoreError.conflict(_, position, actual) { return }
        throw ContractViolation("An append at \(position) of \(actual) was taken.")
    }
}
