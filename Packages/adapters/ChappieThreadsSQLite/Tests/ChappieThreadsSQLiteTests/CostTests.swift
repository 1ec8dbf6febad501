import ChappieCore
import ChappieRuntime
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// What a store costs as it grows; the long form has the numbers that count, in a release build.
@Suite(.serialized, .tags(.slow))
struct CostTests {
    /// A turn of some length, with words of its own.
    private static func text(_ number: Int) -> String {
        (0..<120).map { "word\((number &* 7919 &+ $0 &* 104_729) % 5000)" }.joined(separator: " ") + " turn\(number)"
    }

    private static func median(_ times: [Duration]) -> Duration { times.sorted()[times.count / 2] }

    @Test(arguments: [FileProtection.complete, .completeUntilFirstUserAuthentication, .none])
    func appendsCostTheSameHoweverLongTheThreadIs(_ protection: FileProtection) async throws {
        let place = try Place()
        let store = place.store(protection)
        let (count, samples) = (isLong ? 10_000 : 400, isLong ? 101 : 11)
        var times: [String: Duration] = [:]
        func measure(_ name: String, from position: Int) async throws {
            var found: [Duration] = []
            for number in position..<position + samples {
                let start = ContinuousClock.now
                try await store.say([Self.text(number)], in: "long", from: number)
                found.append(ContinuousClock.now - start)
            }
            times[name] = Self.median(found)
        }
        try await store.say((0..<10).map(Self.text), in: "long")
        try await measure("append at 10", from: 10)
        for start in stride(from: 10 + samples, to: count, by: 100) {
            let end = min(start + 100, count)
            try await store.say((start..<end).map(Self.text), in: "long", from: start)
        }
        try await measure("append at \(count)", from: count)
        let start = ContinuousClock.now
        let records = try await place.store(protection).records(of: "long", from: 0)
        times["open \(count)"] = ContinuousClock.now - start
        #expect(records.count == count + samples)
        #expect(records.last?.searchableText == Self.text(count + samples - 1))
        print("measured: \(protection): \(times), \(try await store.usage())")
    }

    @Test(arguments: [FileProtection.complete, .completeUntilFirstUserAuthentication, .none])
    func manyThreadsAreListedAndSearched(_ protection: FileProtection) async throws {
        let place = try Place()
        let store = place.store(protection)
        let count = isLong ? 10_000 : 200
        for number in 0..<count {
            try await store.say([Self.text(number), Self.text(-number)], in: "thread-\(number)")
        }
        var times: [String: Duration] = [:]
        func measure<Output>(_ name: String, _ body: () async throws -> Output) async rethrows -> Output {
            let start = ContinuousClock.now
            defer { times[name] = ContinuousClock.now - start }
            return try await body()
        }
        #expect(try await measure("list") { try await store.summaries() }.count == count)
        for (name, query) in [
            ("rare word", "turn\(count / 2)"), ("three words", "word17 word42 word9"), ("beginning", "word1"),
            ("one letter", "w"), ("nothing", "zebra"),
        ] {
            let hits = try await measure("search: \(name)") { try await store.search(ChappieThreadQuery(query)) }
            #expect(name != "rare word" || hits.first?.thread.id == "thread-\(count / 2)", "\(name)")
            #expect(name != "nothing" || hits.isEmpty)
        }
        let usage = try await store.usage()
        #expect(usage.threads == count && usage.records == 2 * count)
        print("measured: \(count) threads, \(protection): \(times), \(usage)")
    }
}
