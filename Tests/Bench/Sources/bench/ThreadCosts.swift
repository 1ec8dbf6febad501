import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieRuntime
import ChappieThreadsSQLite
import Foundation

/// What a thread store in a file costs as it grows. Each step is a process, so that its memory is its own.
///
/// The key is in an encrypted file that costs nothing to open: what a keyring takes to give it is not measured.
struct ThreadCosts {
    let folder: String
    let protection: ChappieFileThreadStoreStoragePolicy.FileProtection

    /// `bench threads FOLDER PROTECTION append|open|fill|list|search [WORDS]`, in this order. 10,000 turns and 10,000 threads.
    static func measure(_ arguments: [String]) async throws {
        guard arguments.count >= 3,
            let protection = ChappieFileThreadStoreStoragePolicy.FileProtection(rawValue: arguments[1])
        else { fatalError("usage: bench threads FOLDER PROTECTION STEP [WORDS]") }
        let costs = ThreadCosts(folder: arguments[0], protection: protection)
        switch arguments[2] {
        case "append": try await costs.append()
        case "fill": try await costs.fill()
        case "open":
            try await costs.once("long") { try await $0.records(of: "long", from: 0).count }
        case "list": try await costs.once("many") { try await $0.summaries().count }
        default:
            try await costs.once("many") { try await $0.search(ChappieThreadQuery(arguments[3])).count }
        }
    }

    private static let many = 10_000

    /// In turns to a thread of 10 turns and to one of 10,000, each in a store of its own, so that both meet the same noise.
    private func append() async throws {
        let long = try store("long")
        try await say(0..<Self.many, "long", in: long)
        var (late, early) = ([Interval](), [Interval]())
        for round in 0..<30 {
            let short = try store("short-\(round)")
            try await say(0..<10, "short", in: short)
            for number in 0..<10 {
                early.append(try await timed { try await say(10 + number..<11 + number, "short", in: short) })
                let position = Self.many + 10 * round + number
                late.append(try await timed { try await say(position..<position + 1, "long", in: long) })
            }
        }
        let size = try await long.usage()
        print(
            #"{"early_ms": \#(rounded(median(early.map(\.wall)))), "late_ms": \#(rounded(median(late.map(\.wall)))), "#
                + #""early_cpu_ms": \#(rounded(median(early.map(\.cpu)))), "late_cpu_ms": \#(rounded(median(late.map(\.cpu)))), "#
                + #""bytes": \#(size.bytes), "records": \#(size.records)}"#)
    }

    private func fill() async throws {
        let store = try store("many")
        let time = try await timed {
            for number in 0..<Self.many {
                try await say(2 * number..<2 * number + 2, "thread-\(number)", in: store, from: 0)
            }
        }
        let usage = try await store.usage()
        print(#"{"ms": \#(rounded(time.wall)), "bytes": \#(usage.bytes), "found": \#(usage.threads)}"#)
    }

    private func once(_ name: String, _ body: (ChappieFileThreadStore) async throws -> Int) async throws {
        let store = try store(name)
        try await store.prepare()
        let before = peakMemory
        var found = 0
        let time = try await timed { found = try await body(store) }
        print(
            #"{"ms": \#(rounded(time.wall)), "cpu_ms": \#(rounded(time.cpu)), "found": \#(found), "#
                + #""memory": \#(rounded(peakMemory)), "memory_before": \#(rounded(before))}"#)
    }

    // MARK: Parts

    private func store(_ name: String) throws -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: "\(folder)/\(name)", storagePolicy: .init(fileProtection: protection),
            limits: .init(maximumBytes: 4 << 30),
            keys: try EncryptedFileCredentialStore(
                directory: "\(folder)/keys", passphrase: FixedPassphrase(Secret("correct horse")),
                parameters: ScryptParameters(costExponent: 1, blockSize: 1) ?? .default))
    }

    /// Appends a question of 120 words for each number; more than a few in pieces of a hundred.
    private func say(
        _ numbers: Range<Int>, _ thread: String, in store: ChappieFileThreadStore, from start: Int? = nil
    ) async throws {
        for piece in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 100) {
            let piece = piece..<min(piece + 100, numbers.upperBound)
            let first = start ?? piece.lowerBound
            let records = piece.enumerated().map { offset, number in
                ChappieThreadRecord(
                    position: first + offset, kind: .turnStarted,
                    date: Date(timeIntervalSince1970: 1_790_000_000 + Double(number)),
                    body: [
                        "turn": .string("turn-\(number)"), "model": "m",
                        "messages": [
                            [
                                "type": "message", "role": "user",
                                "content": [["type": "input_text", "text": .string(Self.text(number))]],
                            ]
                        ],
                    ])
            }
            // As the runtime does it: a thread that begins is not looked for.
            let known = first == 0 ? nil : try await store.summary(of: thread)
            var summary = known ?? ChappieThreadSummary(id: thread, createdAt: records[0].date)
            for record in records { summary.add(record) }
            try await store.append(records, to: summary, at: first)
        }
    }

    private static func text(_ number: Int) -> String {
        (0..<120).map { "word\((number &* 7919 &+ $0 &* 104_729) % 5000)" }.joined(separator: " ") + " turn\(number)"
    }

    private func timed(_ body: () async throws -> Void) async rethrows -> Interval {
        let begin = Interval.now
        try await body()
        return Interval.now - begin
    }

    /// Megabytes. `getrusage` would count the parent's too.
    private var peakMemory: Double {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return (line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Double($0) } ?? 0) / 1024
    }
}
