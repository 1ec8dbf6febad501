import CSQLite
import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieRuntime
import ChappieTesting
@_spi(ChappieInternals) import ChappieThreadsSQLite
import Foundation
import TestFixtures

/// A folder for one test, removed with it, and stores in it whose keys are in memory.
struct Place: Sendable {
    let folder: TemporaryDirectory
    let keys = InMemoryCredentialStore()

    init() throws { folder = try TemporaryDirectory() }

    var directory: String { folder.path("threads") }
    var database: String { directory + "/threads.db" }

    func store(
        _ protection: ChappieFileThreadStoreStoragePolicy.FileProtection = .complete,
        limits: ChappieFileThreadStoreLimits = .init(), on fileSystem: ThreadFileSystem? = nil
    ) -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: directory, on: fileSystem, storagePolicy: .init(fileProtection: protection), limits: limits,
            keys: keys)
    }
}

typealias FileProtection = ChappieFileThreadStoreStoragePolicy.FileProtection

let everyProtection: [FileProtection] = [.complete, .completeUntilFirstUserAuthentication, .none]

/// A turn's first record, with these words of the user.
func said(_ text: String, at position: Int = 0) -> ChappieThreadRecord {
    ChappieThreadRecord(
        position: position, kind: .turnStarted, date: Date(timeIntervalSince1970: 1_790_000_000 + Double(position)),
        body: [
            "turn": .string("turn-\(position)"), "model": "m",
            "messages": [
                ["type": "message", "role": "user", "content": [["type": "input_text", "text": .string(text)]]]
            ],
        ])
}

extension ChappieThreadStore {
    /// Appends these words, each as a record; at the position 0 they begin a thread. (Asking for one that is not there
    /// reads the entries of all.)
    func say(_ texts: [String], in thread: String, from position: Int = 0) async throws {
        let records = texts.enumerated().map { said($1, at: position + $0) }
        let known = position == 0 ? nil : try await summary(of: thread)
        var summary = known ?? ChappieThreadSummary(id: thread, createdAt: records[0].date)
        for record in records { summary.add(record) }
        try await append(records, to: summary, at: position)
    }

    /// Appends a record to a thread that is there.
    func add(_ kind: ChappieThreadRecord.Kind, _ body: ChappieJSONValue, to thread: String) async throws {
        guard var summary = try await summary(of: thread) else { throw FixtureFailure("\(thread) is not there") }
        let record = ChappieThreadRecord(
            position: summary.recordCount, kind: kind, date: summary.updatedAt, body: body)
        summary.add(record)
        try await append([record], to: summary, at: record.position)
    }

    /// The words of a thread.
    func words(of thread: String) async throws -> [String] {
        try await records(of: thread, from: 0).map { $0.searchableText ?? "" }
    }
}

/// The database behind a store's back. Closed at the end.
final class RawDatabase {
    private let handle: OpaquePointer

    init(_ path: String) throws {
        var handle: OpaquePointer?
        guard sqlite3_open(path, &handle) == SQLITE_OK, let handle else {
            throw FixtureFailure("\(path) does not open")
        }
        self.handle = handle
        // A store that nobody needs any more closes its file in its own time.
        sqlite3_busy_timeout(handle, 30_000)
    }

    deinit { sqlite3_close_v2(handle) }

    /// The first column of the first row.
    func text(_ sql: String) throws -> String {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, sqlite3_step(statement) == SQLITE_ROW,
            let text = sqlite3_column_text(statement, 0)
        else { throw FixtureFailure("\(sql): \(String(cString: sqlite3_errmsg(handle)))") }
        return String(cString: text)
    }

    func run(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else {
            throw FixtureFailure("\(sql): \(String(cString: sqlite3_errmsg(handle)))")
        }
    }
}

enum Files {
    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path))) }

    static func write(_ bytes: [UInt8], to path: String) throws { try Data(bytes).write(to: URL(filePath: path)) }

    static func mode(of path: String) throws -> Int? {
        (try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber)?.intValue
    }

    static func set(_ mode: Int, of path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    static func names(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }
}

/// The program `ThreadStoreWriter`, running.
func startWriter(_ arguments: [String], under prefix: [String] = []) throws -> RunningProgram {
    // SwiftPM puts the programs of a package beside its tests.
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let program = URL(filePath: tests).deletingLastPathComponent().path + "/ThreadStoreWriter"
    let words = prefix + [program] + arguments
    return try RunningProgram(words[0], Array(words.dropFirst()), input: .held, output: .pipe, errors: .inherited)
}

/// The keys that `ThreadStoreWriter` uses.
func writersKeys(of directory: String) throws -> EncryptedFileCredentialStore {
    try EncryptedFileCredentialStore(
        directory: directory + "-keys", passphrase: FixedPassphrase(Secret("correct horse")),
        parameters: ScryptParameters(costExponent: 1, blockSize: 1) ?? .default)
}

/// Whether the long forms are wanted: thousands of kills and flipped bits.
let isLong = ProcessInfo.processInfo.environment["CHAPPIE_LONG_TESTS"] != nil
