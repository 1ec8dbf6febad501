import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Testing

struct ContractTests {
    @Test(arguments: ThreadStoreContract.cases, everyProtection)
    func keepsTheContract(_ contractCase: ThreadStoreContract.Case, _ protection: FileProtection) async throws {
        let place = try Place()
        try await contractCase.run(place.store(protection))
    }

    @Test(arguments: everyProtection) func `two stores of one folder keep the contract together`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        for contractCase in ThreadStoreContract.cases {
            try await contractCase.run(Alternating([place.store(protection), place.store(protection)]))
        }
    }

    /// Each finds no database, has a key stored for the one that it would make, and uses that of the fastest.
    @Test(arguments: everyProtection) func storesThatBeginAtOnceMakeOneDatabase(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask { try await place.store(protection).say(["first"], in: "thread-\(number)") }
            }
            try await group.waitForAll()
        }
        let store = place.store(protection)
        #expect(try await store.summaries().count == 8)
        for number in 0..<8 { #expect(try await store.words(of: "thread-\(number)") == ["first"]) }
        // Keys that were not needed are removed.
        let (saves, deletes) = (place.keys.calls.count { $0 == .save }, place.keys.calls.count { $0 == .delete })
        #expect(saves - deletes == (protection == .none ? 0 : 1))
    }
}
