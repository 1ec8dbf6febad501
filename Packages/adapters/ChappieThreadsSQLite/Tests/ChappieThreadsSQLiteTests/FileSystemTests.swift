import ChappieRuntime
import ChappieSQLite
import ChappieTesting
@_spi(ChappieInternals) import ChappieThreadsSQLite
import Testing

/// File systems of a network, which have no memory to share for SQLite's log.
struct FileSystemTests {
    @Test(arguments: everyProtection) func storesOnANetworkKeepTheContractTogether(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        for contractCase in ThreadStoreContract.cases {
            try await contractCase.run(
                Alternating([place.store(protection, on: .shared), place.store(protection, on: .shared)]))
        }
        #expect(try RawDatabase(place.database).text("PRAGMA journal_mode") == "delete")
        for end in ["-wal", "-shm"] { #expect(try !Files.names(in: place.directory).contains("threads.db" + end)) }
        #expect(try await place.store(protection, on: .shared).verify().isEmpty)
    }

    @Test func aDiskOfThisMachineHasALog() async throws {
        let place = try Place()
        try await place.store(on: .local).say(["first"], in: "one")
        #expect(try RawDatabase(place.database).text("PRAGMA journal_mode") == "wal")
    }

    /// On Apple's systems SQLite then waits until the drive has the bytes. Elsewhere the settings have no effect.
    @Test(arguments: ["fullfsync", "checkpoint_fullfsync"])
    func aConnectionThatWritesAsksTheDrive(_ setting: String) throws {
        let database = try SQLiteDatabase<SQLiteFailure>("", patience: .zero) { $0 }
        #expect(try database.integer("PRAGMA \(setting)") == 1)
    }

    /// Another machine may have the database open that was moved from a network to this machine's disk.
    @Test func `a database moved to a network gives up its log and keeps its threads`() async throws {
        let place = try Place()
        try await place.store(on: .local).say(["first"], in: "one")
        for kind in [ThreadFileSystem.shared, .local] {
            let store = place.store(on: kind)
            #expect(try await store.words(of: "one").first == "first")
            #expect(try RawDatabase(place.database).text("PRAGMA journal_mode") == "delete")
        }
        try await place.store(on: .shared).say(["second"], in: "one", from: 1)
        #expect(try await place.store(on: .shared).words(of: "one") == ["first", "second"])
    }

    @Test(
        arguments: [
            (0x6969, ThreadFileSystem.shared), (0xFF53_4D42, .shared), (0xFE53_4D42, .shared), (0x0102_1997, .shared),
            (0x6573_5546, .shared), (0x1983_0326, .shared), (0xAAD7_AAEA, .shared), (0x2003_0528, .shared),
            (0x7C7C_6673, .shared), (0xEF53, .local), (0x9123_683E, .local), (0x5846_5342, .local),
            (0x0102_1994, .local), (0x794C_7630, .local),
        ] as [(UInt32, ThreadFileSystem)])
    func theNumberOfAFileSystemTellsItsKind(_ number: UInt32, _ kind: ThreadFileSystem) {
        #expect(ThreadFileSystem(number: number) == kind)
    }
}
