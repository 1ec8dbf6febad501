@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import TestFixtures
import Testing

@testable import ChappieCrypto

/// Processes that end at any moment: the old credential or the new one, never neither.
@Suite(.serialized, .tags(.slow))
struct KillTests {
    /// The content of the file, opened without a store: the thread must not wait for a task.
    private static func stored(in directory: String) throws -> String? {
        let place = try CredentialPlace(.writer, in: directory)
        guard let file = try place.read() else { return nil }
        return try CredentialSealer(parameters: .cheap).open(
            file, at: place, with: .passphrase(PrivateStore.passphrase)
        ).text
    }

    /// The number of a document that is whole; `nil` of any other.
    private static func number(of document: String) -> Int? {
        let parts = document.split(separator: " ")
        guard parts.count == 3, let number = Int(parts[1]) else { return nil }
        return parts[2] == String(repeating: "L", count: 1 + number * 997 % 6000) ? number : nil
    }

    /// How often the old and the new credential were there, unfinished files beside them, and everything that was
    /// wrong.
    private static func killAtRandom(_ rounds: Int, in directory: String) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for round in 0..<rounds {
            let before = try stored(in: directory).flatMap(number(of:)) ?? 0
            let writer = try startWriter(["endless", directory])
            guard writer.output?.line() == "ready" else { throw FixtureFailure("the writer does not begin") }
            // The random moment; a writer needs some ten milliseconds for a save on a disk, and less than one in
            // memory.
            var moment = timespec(tv_sec: 0, tv_nsec: Int.random(in: 0..<(round % 2 == 0 ? 30_000_000 : 2_000_000)))
            nanosleep(&moment, nil)
            writer.end()
            var saved = before
            while let line = writer.output?.line() { saved = Int(line.dropFirst("saved ".count)) ?? -1 }
            let text = try stored(in: directory)
            let kind =
                switch text.map(number(of:)) ?? 0 {
                case saved: "old"
                case saved + 1: "new"
                default: "round \(round): \(text?.prefix(20) ?? "nothing") after \(saved)"
                }
            counts[kind, default: 0] += 1
            let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
            if names.contains(where: CredentialPlace.isDraftName) { counts["unfinished", default: 0] += 1 }
        }
        return counts
    }

    @Test func `a kill at 500 random moments leaves the old or the new credential`() async throws {
        var places: [PrivateStore] = []
        for _ in 0..<4 { places.append(try await PrivateStore()) }
        let counts = try await withThrowingTaskGroup(of: [String: Int].self) { group in
            for place in places {
                group.addTask { try await onOwnThread { try Self.killAtRandom(125, in: place.credentials) } }
            }
            return try await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
        }
        #expect(counts["old", default: 0] + counts["new", default: 0] == 500, "\(counts)")
        // They are gone with the next save.
        for place in places {
            try await place.store.save(Secret("the end"), in: .writer)
            #expect(try place.names.count == 1)
        }
        print("kill -9 at 500 random moments: \(counts)")
    }

    @Test func twoProcessesThatSaveAtOnceNeverMix() async throws {
        let it = try await PrivateStore()
        let directory = it.credentials
        let (reads, end) = try await onOwnThread { () -> (Int, String?) in
            let writers = try ["left", "right"].map { try startWriter(["race", directory, $0, "40"]) }
            for writer in writers where writer.output?.line() != "ready" { throw FixtureFailure("does not begin") }
            for writer in writers { writer.endInput() }
            var reads = 0
            // A reader sees whole documents all the time.
            repeat {
                guard let text = try Self.stored(in: directory) else { continue }
                reads += 1
                guard Self.number(of: text) != nil else { throw FixtureFailure("read \(text.prefix(20))") }
            } while !writers.allSatisfy(\.hasEnded)
            for writer in writers where writer.output?.line() != "done" { throw FixtureFailure("a writer failed") }
            return (reads, try Self.stored(in: directory))
        }
        #expect(end?.hasPrefix("left 40 ") == true || end?.hasPrefix("right 40 ") == true)
        #expect(try it.names.count == 1)
        print("two writers, 40 saves each: \(reads) reads in between")
    }

    /// Also with the signal that usually ends a program that writes beyond its limit: the store's thread doesn't get
    /// it.
    @Test(arguments: ["ignored", "default"])
    func `a full disk is detected before a save and leaves the old credential`(signal: String) async throws {
        let it = try await PrivateStore()
        try await it.store.save(Secret("old"), in: .writer)
        let (lines, status) = try await onOwnThread {
            // Less than the document needs; the file is cut off in its middle.
            let writer = try startWriter(["limit", it.credentials, "1000", signal])
            let lines = (0..<2).map { _ in writer.output?.line() ?? "" }
            return (lines, writer.wait())
        }
        for line in lines {
            #expect(line.hasPrefix("failed(") && line.contains("be written: File too large"), "\(lines)")
        }
        #expect(status == 0)
        #expect(try await it.store.load(.writer)?.text == "old")
        try await it.store.save(Secret("new"), in: .writer)
        #expect(try await it.store.load(.writer)?.text == "new")
        #expect(try it.names.count == 1)
    }
}
