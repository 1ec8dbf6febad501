import ChappieCore
import ChappieRuntime
import ChappieThreadsSQLite
import Foundation
import Glibc
import TestFixtures
import Testing

/// Processes that end at any moment, and disks that take no more: what was acknowledged is there.
@Suite(.serialized, .tags(.slow))
struct CrashTests {
    private static let names = ["ann", "bob", "cid", "dot"]

    /// Starts four that append to one thread and to one of their own each, and kills them at random moments. What each
    /// said was kept: thread, position, number.
    private static func appendAndKill(
        _ directory: String, _ protection: FileProtection, _ fileSystem: String
    ) throws -> [[(String, Int, Int)]] {
        let writers = try names.map { try startWriter(["append", directory, protection.rawValue, $0, fileSystem]) }
        for writer in writers where writer.output?.line() != "ready" { throw FixtureFailure("a writer does not begin") }
        for writer in writers.shuffled() {
            var moment = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<150_000_000))
            nanosleep(&moment, nil)
            writer.end()
        }
        return try writers.map { writer in
            var kept: [(String, Int, Int)] = []
            while let line = writer.output?.line() {
                let parts = line.split(separator: " ")
                guard parts.count == 3, let position = Int(parts[1]), let number = Int(parts[2]) else {
                    throw FixtureFailure("a writer said \(line)")
                }
                kept.append((String(parts[0]), position, number))
            }
            return kept
        }
    }

    @Test(arguments: [(FileProtection.complete, "local"), (.none, "local"), (.complete, "shared")])
    func `kills at random moments lose no acknowledged turn`(
        _ protection: FileProtection, _ fileSystem: String
    ) async throws {
        let folder = try TemporaryDirectory()
        let directory = folder.path("threads")
        let store = ChappieFileThreadStore(
            directory: directory, storagePolicy: .init(fileProtection: protection), keys: try writersKeys(of: directory)
        )
        let rounds = isLong ? 125 : 5
        var (ends, acknowledged, unacknowledged): ([String: Int], Int, Int) = ([:], 0, 0)
        for round in 0..<rounds {
            let kept = try await onOwnThread { try Self.appendAndKill(directory, protection, fileSystem) }
            var expected: [String: [Int: String]] = [:]
            for (name, turns) in zip(Self.names, kept) {
                for (thread, position, number) in turns {
                    expected[thread, default: [:]][position] = "\(name) \(number)"
                }
            }
            acknowledged += kept.reduce(0) { $0 + $1.count }
            var extra: [String: Int] = [:]
            for thread in Self.names + ["shared"] {
                let start = ends[thread] ?? 0
                guard try await store.summary(of: thread) != nil else {
                    #expect(expected[thread] == nil, "round \(round): \(thread) is missing")
                    continue
                }
                let records = try await store.records(of: thread, from: start)
                ends[thread] = start + records.count
                for record in records {
                    let words = (record.searchableText ?? "").split(separator: " ")
                    let number = words.count == 3 ? Int(words[1]) ?? 0 : 0
                    let isWhole = words.last?.count == 1 + number * 997 % 6000
                    #expect(number > 0 && isWhole, "round \(round): \(thread) \(record.position)")
                    let name = words.prefix(2).joined(separator: " ")
                    let wanted = expected[thread]?.removeValue(forKey: record.position)
                    guard wanted == nil else {
                        #expect(name == wanted, "round \(round): \(thread) \(record.position)")
                        continue
                    }
                    // Kept, and killed before it was said: the last one of its writer.
                    let writer = Self.names.firstIndex { name.hasPrefix($0) } ?? 0
                    #expect(number == (kept[writer].last?.2 ?? 0) + 1, "round \(round): \(thread) \(record.position)")
                    extra[Self.names[writer], default: 0] += 1
                }
                #expect(expected[thread]?.isEmpty ?? true, "round \(round): \(expected[thread] ?? [:]) of \(thread)")
            }
            #expect(extra.values.allSatisfy { $0 == 1 }, "round \(round)")
            unacknowledged += extra.count
        }
        #expect(try await store.summaries().allSatisfy { ends[$0.id] == $0.recordCount })
        #expect(try await store.verify().isEmpty)
        #expect(acknowledged > 0)
        print(
            "measured: kill -9 at \(rounds * 4) moments, \(protection), \(fileSystem): \(acknowledged) acknowledged, "
                + "\(unacknowledged) kept and not said")
    }

    @Test func aRotationThatIsKilledLosesNothing() async throws {
        let folder = try TemporaryDirectory()
        let directory = folder.path("threads")
        let store = ChappieFileThreadStore(directory: directory, keys: try writersKeys(of: directory))
        let words = (0..<300).map { "word\($0)" }
        try await store.say(words, in: "one")
        for round in 0..<(isLong ? 100 : 6) {
            try await onOwnThread {
                let rotator = try startWriter(["rotate", directory, "complete"])
                guard rotator.output?.line() == "ready" else { throw FixtureFailure("it does not begin") }
                var moment = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<200_000_000))
                nanosleep(&moment, nil)
                rotator.end()
            }
            #expect(try await store.words(of: "one").prefix(300) == words[...], "round \(round)")
            try await store.say(["new"], in: "one", from: 300 + round)
            #expect(try await store.search(ChappieThreadQuery("word299")).map(\.position) == [299], "round \(round)")
        }
        try await store.rotateKey()
        #expect(try await store.verify().isEmpty)
    }

    /// Beyond the limit of a file's size, with SIGXFSZ ignored, writing fails in the middle of the log or the database.
    @Test(arguments: [FileProtection.complete, .none], [150_000, 400_000])
    func aFileThatCantGrowIsATypedError(_ protection: FileProtection, bytes: Int) async throws {
        let folder = try TemporaryDirectory()
        let line = try await onOwnThread {
            let writer = try startWriter(["full", folder.path("threads"), protection.rawValue, "\(bytes)"])
            defer { writer.wait() }
            return writer.output?.line()
        }
        #expect(line?.hasPrefix("some unavailable(") == true, "\(line ?? "nothing")")
    }

    @Test(arguments: [2000, 6000]) func aStoreThatCannotBeMadeLeavesNoKey(bytes: Int) async throws {
        let folder = try TemporaryDirectory()
        let directory = folder.path("threads")
        for _ in 0..<2 {
            let line = try await onOwnThread {
                let writer = try startWriter(["starve", directory, "complete", "\(bytes)"])
                defer { writer.wait() }
                return writer.output?.line()
            }
            #expect(line?.hasPrefix("unavailable(") == true, "\(line ?? "nothing")")
        }
        let keys = try Files.names(in: directory + "-keys").filter { $0.hasSuffix(".credential") }
        #expect(keys.isEmpty, "\(bytes)")
        // Once there is room, all is well.
        let store = ChappieFileThreadStore(directory: directory, keys: try writersKeys(of: directory))
        try await store.say(["first"], in: "one")
        #expect(try await store.words(of: "one") == ["first"])
    }

    /// Its answer is paid for.
    @Test func `the end of a turn is retried while another process is slow`() async throws {
        let place = try Place()
        let (store, other) = (place.store(), place.store())
        try await store.say(["question"], in: "one")
        let raw = try RawDatabase(place.database)
        try raw.run("BEGIN IMMEDIATE")
        async let end: Void = store.add(.turnFinished, ["turn": "turn-0"], to: "one")
        await refusal("busy") { try await other.say(["question"], in: "two") }
        try raw.run("COMMIT")
        try await end
        #expect(try await store.records(of: "one", from: 1).map(\.kind) == [.turnFinished])
    }

    private static let hasMounts: Bool = {
        let arguments = ["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return (try? RunningProgram("/usr/bin/unshare", arguments, output: .pipe, errors: .withOutput).wait()) == 0
    }()

    /// A disk of 1 MiB, in a namespace of the writer's own.
    @Test(.enabled(if: hasMounts), arguments: [FileProtection.complete, .none])
    func aFullDiskIsATypedErrorAndNothingIsLost(_ protection: FileProtection) async throws {
        let folder = try TemporaryDirectory()
        let mount = #"mount -t tmpfs -o size=1m,mode=700 tmpfs "$0" && exec "$@""#
        let line = try await onOwnThread {
            let writer = try startWriter(
                ["full", folder.path + "/threads", protection.rawValue, "0"],
                under: ["/usr/bin/unshare", "-rm", "/bin/sh", "-c", mount, folder.path])
            defer { writer.wait() }
            return writer.output?.line()
        }
        #expect(line?.hasPrefix("some deleted unavailable(") == true, "\(line ?? "nothing")")
        #expect(line?.contains("full") == true, "\(line ?? "nothing")")
    }

    /// The file system with the store becomes read-only, with and without a log that a killed process left behind.
    @Test(.enabled(if: hasMounts), arguments: ["list", "leave", "leave; rm threads/threads.db-shm"])
    func `threads can be read on a read-only file system`(_ before: String) async throws {
        let folder = try TemporaryDirectory()
        let script = """
            mount -t tmpfs -o size=8m,mode=700 tmpfs "$0" && cd "$0" && "$1" mask "$0/threads" complete 077
            "$1" \(before.split(separator: ";")[0]) "$0/threads" complete >&2
            \(before.split(separator: ";").dropFirst().joined()) :
            mount -o remount,ro "$0" && exec "$1" read "$0/threads" complete
            """.replacingOccurrences(of: "db-shm :", with: "db-shm")
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let writer = URL(filePath: tests).deletingLastPathComponent().path + "/ThreadStoreWriter"
        let line = try await onOwnThread {
            let program = try RunningProgram(
                "/usr/bin/unshare", ["-rm", "/bin/sh", "-c", script, folder.path, writer], output: .pipe,
                errors: .inherited)
            defer { program.wait() }
            return program.output?.line()
        }
        #expect(line == (before == "list" ? "1 1 1 0" : "2 1 1 0"))
    }
}
