@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import TestFixtures
import Testing

@testable import ChappieCrypto

/// Processes that end at any moment: the old credential or the new one, never neither.
@Suite(.serialized, .tags(.slow))
struct KillTests {
    private struct Counts: Sendable {
        var old = 0
        var new = 0
        var leftovers = 0
        var saves = 0
        var wrong: [String] = []

        static func + (left: Counts, right: Counts) -> Counts {
            Counts(
                old: left.old + right.old, new: left.new + right.new, leftovers: left.leftovers + right.leftovers,
                saves: left.saves + right.saves, wrong: left.wrong + right.wrong)
        }
    }

    /// The content of the file, opened without a store: the thread must not wait for a task.
    private static func stored(in directory: String) throws -> String? {
        let place = try CredentialPlace(.writer, in: directory)
        guard let file = try place.read() else { return nil }
        return try CredentialSealer(parameters: .cheap).open(file, at: place, passphrase: Secret("correct horse")).text
    }

    /// The number of a document that is whole; `nil` of any other.
    private static func number(of document: String) -> Int? {
        let parts = document.split(separator: " ")
        guard parts.count == 3, let number = Int(parts[1]) else { return nil }
        return parts[2] == String(repeating: "L", count: 1 + number * 997 % 6000) ? number : nil
    }

    private static func killAtRandom(_ rounds: Int, in directory: String) throws -> Counts {
        var counts = Counts()
        for round in 0..<rounds {
            let before = try stored(in: directory).flatMap(number(of:)) ?? 0
            let writer = try FileStoreWriter.start(["endless", directory])
            guard writer.output?.line() == "ready" else {
                counts.wrong.append("round \(round): the writer does not begin")
                continue
            }
            // The random moment; a writer needs some ten milliseconds for a save on a disk, and less than one in memory.
            var moment = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<(round % 2 == 0 ? 30_000_000 : 2_000_000)))
            nanosleep(&moment, nil)
            writer.end()
            var saved = before
            while let line = writer.output?.line() { saved = Int(line.dropFirst("saved ".count)) ?? -1 }
            counts.saves += saved - before
            let text = try stored(in: directory)
            let names = text == nil && saved == 0 ? [] : try FileManager.default.contentsOfDirectory(atPath: directory)
            if names.contains(where: CredentialDirectory.isTemporaryName) { counts.leftovers += 1 }
            let found = text.flatMap(number(of:))
            if found == saved || (text == nil && saved == 0) {
                counts.old += 1
            } else if found == saved + 1 {
                counts.new += 1
            } else {
                counts.wrong.append("round \(round): \(text?.prefix(20) ?? "nothing") after \(saved)")
            }
        }
        return counts
    }

    @Test func killedAt500RandomMomentsTheOldOrTheNewCredentialIsThere() async throws {
        let folders = try (0..<4).map { _ in try PrivateFolder() }
        let counts = try await withThrowingTaskGroup(of: Counts.self) { group in
            for folder in folders {
                let directory = folder.credentials
                group.addTask { try await onOwnThread { try Self.killAtRandom(125, in: directory) } }
            }
            return try await group.reduce(Counts(), +)
        }
        #expect(counts.wrong.isEmpty, "\(counts.wrong.prefix(5))")
        #expect(counts.old + counts.new == 500)
        // They are gone with the next save.
        for folder in folders {
            try await EncryptedFileCredentialStore.cheap(folder).save(Secret("the end"), in: .writer)
            #expect(try folder.names().count == 1)
        }
        print(
            """
            kill -9: 500 random moments in \(counts.saves) saves; \(counts.old) times the old credential, \
            \(counts.new) times the new one, \(counts.wrong.count) times neither; \(counts.leftovers) times an \
            unfinished file lay beside it
            """)
    }

    @Test func twoProcessesThatSaveAtOnceNeverMix() async throws {
        let folder = try PrivateFolder()
        let directory = folder.credentials
        let (reads, wrong, end) = try await onOwnThread { () -> (Int, [String], String?) in
            let writers = try ["left", "right"].map { try FileStoreWriter.start(["race", directory, $0, "40"]) }
            for writer in writers where writer.output?.line() != "ready" { return (0, ["does not begin"], nil) }
            for writer in writers { writer.endInput() }
            var (reads, wrong): (Int, [String]) = (0, [])
            // A reader sees whole documents all the time.
            repeat {
                do {
                    guard let text = try Self.stored(in: directory) else { continue }
                    reads += 1
                    if Self.number(of: text) == nil { wrong.append("read \(text.prefix(20))") }
                } catch { wrong.append("\(error)") }
            } while !writers.allSatisfy(\.hasEnded)
            for writer in writers where writer.output?.line() != "done" { wrong.append("a writer failed") }
            return (reads, wrong, try Self.stored(in: directory))
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(5))")
        #expect(end?.hasPrefix("left 40 ") == true || end?.hasPrefix("right 40 ") == true)
        #expect(try folder.names().count == 1)
        print("two writers, 40 saves each: \(reads) reads in between, \(wrong.count) of them not whole")
    }

    /// Also with the signal that usually ends a program that writes beyond its limit: the store's thread doesn't get it.
    @Test(arguments: ["ignored", "default"])
    func aFullDiskLeavesTheOldCredential(signal: String) async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("old"), in: .writer)
        let (line, status) = try await onOwnThread { [directory = folder.credentials] in
            // Less than the document needs; the file is cut off in its middle.
            let writer = try FileStoreWriter.start(["limit", directory, "1000", signal])
            return (writer.output?.line(), writer.wait())
        }
        #expect(line?.hasPrefix("failed: ") == true)
        #expect(line?.contains("can't be written: File too large") == true)
        #expect(status == 0)
        #expect(try folder.names().count == 1)
        #expect(try await store.load(.writer)?.text == "old")
        try await store.save(Secret("new"), in: .writer)
        #expect(try await store.load(.writer)?.text == "new")
        #expect(try folder.names().count == 1)
    }
}
