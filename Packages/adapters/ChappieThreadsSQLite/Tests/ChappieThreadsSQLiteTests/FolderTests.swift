import CSQLite
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import ChappieTesting
import Foundation
import Glibc
import TestFixtures
import Testing

@testable import ChappieThreadsSQLite

/// Folder and files: whose they are, what form they have, how much they hold.
struct FolderTests {
    @Test(arguments: ["000", "077", "022", "177"])
    func `only their owner can open the files, whatever the umask is`(mask: String) async throws {
        let place = try Place()
        let status = try await onOwnThread { try startWriter(["mask", place.directory, "complete", mask]).wait() }
        #expect(status == 0)
        #expect(try Files.mode(of: place.directory) == 0o700)
        let names = try Files.names(in: place.directory)
        #expect(Set(names).isSuperset(of: ["CACHEDIR.TAG", "threads.db", "threads.lock"]))
        // The tag has no secret, and the mask may take rights from it.
        for name in names where name != "CACHEDIR.TAG" {
            #expect(try Files.mode(of: "\(place.directory)/\(name)") == 0o600, "\(name)")
        }
    }

    @Test func theLogIsForItsOwnerAlone() async throws {
        let place = try Place()
        let store = place.store()
        try await store.say(["first"], in: "one")
        for name in ["threads.db-wal", "threads.db-shm", "CACHEDIR.TAG"] {
            #expect(try Files.mode(of: "\(place.directory)/\(name)") == 0o600)
        }
    }

    /// What a backup program sees: the tag, and the attribute, which a file system may not have.
    private func isLeftOutOfBackups(_ directory: String) throws -> Bool {
        let hasTag = try Files.names(in: directory).contains("CACHEDIR.TAG")
        var value = [UInt8](repeating: 0, count: 16)
        let count = getxattr(directory, "user.xdg.robots.backup", &value, value.count)
        if count >= 0 || errno != ENOTSUP { #expect(value.starts(with: "false".utf8) == hasTag) }
        return hasTag
    }

    @Test func backupProgramsAreToldToLeaveTheFolderOut() async throws {
        let place = try Place()
        try await place.store().say(["first"], in: "one")
        #expect(try isLeftOutOfBackups(place.directory))
        let tag = try Files.read(place.directory + "/CACHEDIR.TAG")
        #expect(tag.starts(with: "Signature: 8a477f597d28d172789f06886806bc55\n".utf8))
    }

    @Test func `the folder follows the policy of the store that opens it`() async throws {
        let place = try Place()
        func store(_ protection: FileProtection = .complete, isExcluded: Bool) -> ChappieFileThreadStore {
            ChappieFileThreadStore(
                directory: place.directory,
                storagePolicy: .init(fileProtection: protection, isExcludedFromBackup: isExcluded), keys: place.keys)
        }
        try await store(isExcluded: false).say(["first"], in: "one")
        #expect(try !isLeftOutOfBackups(place.directory))
        for isExcluded in [true, false, true] {
            #expect(try await store(isExcluded: isExcluded).words(of: "one") == ["first"])
            #expect(try isLeftOutOfBackups(place.directory) == isExcluded)
        }
        await refusal("locked") { _ = try await store(.none, isExcluded: false).summaries() }
        #expect(try isLeftOutOfBackups(place.directory), "a store that is refused changes nothing")
    }

    /// With `complete` a turn keeps its answer although the screen is locked meanwhile: its files stay open.
    @Test(
        arguments: [
            (.complete, .completeUnlessOpen),
            (.completeUntilFirstUserAuthentication, .completeUntilFirstUserAuthentication), (.none, .none),
        ] as [(FileProtection, FolderProtection)])
    func applesPlatformsProtectTheFilesByThePolicy(_ policy: FileProtection, _ folder: FolderProtection) {
        #expect(ChappieFileThreadStoreStoragePolicy(fileProtection: policy).folderProtection == folder)
    }

    @Test func readingMakesNothing() async throws {
        let place = try Place()
        let store = place.store()
        #expect(try await store.summaries().isEmpty)
        #expect(try await store.search(ChappieThreadQuery("word")).isEmpty)
        #expect(try await store.usage() == ChappieThreadStoreUsage(bytes: 0, limit: 512 << 20, threads: 0, records: 0))
        #expect(try await store.verify().isEmpty)
        try await store.rotateKey()
        await refusal("notFound") { _ = try await store.records(of: "one", from: 0) }
        #expect(!FileManager.default.fileExists(atPath: place.directory))
        #expect(place.keys.calls.isEmpty)
    }

    @Test func whatOthersCanTouchIsRefused() async throws {
        let place = try Place()
        try await place.store().say(["first"], in: "one")
        for (path, fine) in [(place.database, 0o600), (place.directory, 0o700)] {
            for mode in [0o1, 0o2, 0o4, 0o10, 0o20, 0o40].map({ fine | $0 }) {
                try Files.set(mode, of: path)
                let error = await refusal("unsafeFile", saying: path) { _ = try await place.store().summaries() }
                #expect(error?.recoverySuggestion?.contains("chmod -R go-rwx ") == true)
            }
            try Files.set(fine, of: path)
        }
        let elsewhere = place.folder.path("elsewhere")
        for path in [place.database, place.directory] {
            try FileManager.default.moveItem(atPath: path, toPath: elsewhere)
            #expect(symlink(elsewhere, path) == 0)
            await refusal("unsafeFile", saying: "\(path) is a symbolic link") {
                _ = try await place.store().summaries()
            }
            await refusal("unsafeFile") { try await place.store().say(["second"], in: "one", from: 1) }
            #expect(unlink(path) == 0)
            try FileManager.default.moveItem(atPath: elsewhere, toPath: path)
        }
        #expect(try await place.store().words(of: "one") == ["first"])
        // For real: root gives its folder away, anybody else looks into one of root's.
        if geteuid() == 0 { #expect(chown(place.directory, 65534, 65534) == 0) }
        let foreign = ChappieFileThreadStore(
            directory: geteuid() == 0 ? place.directory : "/usr", storagePolicy: .init(), keys: place.keys)
        await refusal("unsafeFile", saying: "belongs to user") { _ = try await foreign.summaries() }
    }

    @Test func aPathMustBeAbsolute() async throws {
        let store = ChappieFileThreadStore(directory: "threads", keys: try Place().keys)
        await refusal("unavailable", saying: "absolute path") { _ = try await store.summaries() }
    }

    @Test func aPathMayHaveAnyCharacter() async throws {
        let place = try Place()
        let directory = place.folder.path("ä ?%41#&=file:\n")
        let store = ChappieFileThreadStore(directory: directory, keys: place.keys)
        try await store.say(["first"], in: "one")
        #expect(try Files.names(in: directory).contains("threads.db"))
    }

    @Test func aNewerFileIsRefusedAndStaysAsItWas() async throws {
        let place = try Place()
        try await place.store().say(["first"], in: "one")
        try RawDatabase(place.database).run("PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE)")
        let before = try Files.read(place.database)
        await refusal("tooNew(found: 2, known: 1)", saying: "newer version") { _ = try await place.store().summaries() }
        await refusal("tooNew") { try await place.store().say(["second"], in: "one", from: 1) }
        #expect(try Files.read(place.database) == before)
    }

    @Test func `a file that is not a store is refused and stays unchanged`() async throws {
        for content in ["a database", "text"] {
            let place = try Place()
            #expect(mkdir(place.directory, 0o700) == 0)
            if content == "text" {
                try Files.write(Array(String(repeating: "This is a letter. ", count: 99).utf8), to: place.database)
            } else {
                try RawDatabase(place.database).run("CREATE TABLE letters (text)")
            }
            try Files.set(0o600, of: place.database)
            let before = try Files.read(place.database)
            await refusal("damaged") { _ = try await place.store().summaries() }
            await refusal("damaged") { try await place.store().say(["first"], in: "one") }
            #expect(try Files.read(place.database) == before)
        }
    }

    @Test func anEmptyFileBecomesAStore() async throws {
        let place = try Place()
        #expect(mkdir(place.directory, 0o700) == 0)
        try Files.write([], to: place.database)
        try Files.set(0o600, of: place.database)
        #expect(try await place.store().summaries().isEmpty)
        try await place.store().say(["first"], in: "one")
        #expect(try await place.store().words(of: "one") == ["first"])
    }

    @Test(arguments: everyProtection) func `nothing is lost beyond the limit, and deleting frees space`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        let store = place.store(protection, limits: .init(maximumBytes: 400 << 10))
        let text = String(repeating: "word ", count: 2000)
        for thread in ["old", "new"] { try await store.say([text, text], in: thread) }
        var count = 2
        while (try? await store.say([text], in: "new", from: count)) != nil { count += 1 }
        await refusal("full", saying: "of the 409600 they may have") {
            try await store.say([text], in: "new", from: count)
        }
        await refusal("full") { try await store.say([String(repeating: text, count: 99)], in: "huge") }
        #expect(try await store.words(of: "new") == Array(repeating: text, count: count))
        #expect(try await store.words(of: "old").count == 2)
        let usage = try await store.usage()
        #expect(
            usage.bytes <= 400 << 10 && usage.limit == 400 << 10 && usage.threads == 2 && usage.records == count + 2)
        try await store.delete("old")
        #expect(try await store.usage().bytes < usage.bytes)
        try await store.say([text], in: "new", from: count)
        #expect(try await store.verify().isEmpty)
    }
}
