import ChappieAuth
import ChappieCore
import ChappieCrypto
import ChappieRuntime
@_spi(ChappieInternals) import ChappieThreadsSQLite

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A process that appends to a thread store, for tests that kill it, starve it, or run several of it.
///
/// `ThreadStoreWriter append DIRECTORY PROTECTION NAME [shared]`, as on a file system of a network if it is `shared`: prints `ready`, then appends one record after the other to the
/// thread `shared` and to the thread NAME in turns, and prints `THREAD POSITION NUMBER` after each, until it is killed.
/// `ThreadStoreWriter rotate DIRECTORY PROTECTION`: prints `ready`, gives the store one new key after the other.
/// `ThreadStoreWriter list DIRECTORY PROTECTION`: prints `ready`, then lists the threads.
/// `ThreadStoreWriter full DIRECTORY PROTECTION BYTES`: appends until the disk is full, or a file has BYTES where that is
/// not 0; looks whether everything is there; deletes the thread where the disk is full to the last byte; prints the error.
/// `ThreadStoreWriter leave DIRECTORY PROTECTION`: appends one record and is killed, so that the log stays.
/// `ThreadStoreWriter read DIRECTORY PROTECTION`: prints how many threads, hits, records and problems it finds.
/// `ThreadStoreWriter starve DIRECTORY PROTECTION BYTES`: appends one record where no file can have more than BYTES, and prints
/// the error.
/// `ThreadStoreWriter mask DIRECTORY PROTECTION OCTAL`: appends one record under this file mode creation mask.
@main
enum ThreadStoreWriter {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let store = try store(arguments[2], arguments[3], on: arguments.last == "shared" ? .shared : nil)
        switch arguments[1] {
        case "append":
            say("ready")
            var number = 0
            while true {
                number += 1
                let thread = number % 2 == 0 ? "shared" : arguments[4]
                say("\(thread) \(try await append(number, by: arguments[4], to: thread, of: store)) \(number)")
            }
        case "rotate":
            say("ready")
            while true {
                try await store.rotateKey()
                say("rotated")
            }
        case "list":
            say("ready")
            _ = try await store.summaries()
        case "leave":
            _ = try await append(1, by: "left", to: "left", of: store)
            kill(getpid(), SIGKILL)
        case "read":
            let threads = try await store.readableThreads()
            let hits = try await store.search(ChappieThreadQuery("mask"))
            let records = try await store.records(of: "mask", from: 0)
            let problems = try await store.verify() + threads.problems
            say("\(threads.threads.count) \(hits.count) \(records.count) \(problems.count)")
        case "starve":
            limitFiles(to: rlim_t(arguments[4]) ?? 0)
            do {
                _ = try await append(1, by: "first", to: "first", of: store)
                say("kept")
            } catch let error as ChappieThreadStoreError { say("\(error)") }
        case "full": try await fill(store, arguments[2], arguments[3], limit: rlim_t(arguments[4]) ?? 0)
        default:
            umask(mode_t(arguments[4], radix: 8) ?? 0)
            _ = try await append(1, by: "mask", to: "mask", of: store)
        }
    }

    private static func store(
        _ directory: String, _ protection: String, on fileSystem: ThreadFileSystem? = nil
    ) throws -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: directory, on: fileSystem,
            storagePolicy: .init(fileProtection: .init(rawValue: protection) ?? .complete), keys: try keys(directory))
    }

    private static func keys(_ directory: String) throws -> EncryptedFileCredentialStore {
        try EncryptedFileCredentialStore(
            directory: directory + "-keys", passphrase: FixedPassphrase(Secret("correct horse")),
            parameters: ScryptParameters(costExponent: 1, blockSize: 1) ?? .default)
    }

    /// The position that it got.
    private static func append(
        _ number: Int, by name: String, to thread: String, of store: ChappieFileThreadStore
    ) async throws -> Int {
        while true {
            let date = Date(timeIntervalSince1970: 1_790_000_000)
            var summary = try await store.summary(of: thread) ?? ChappieThreadSummary(id: thread, createdAt: date)
            let position = summary.recordCount
            // How many L follow from the number, so that a part can't be taken for the whole.
            let text = "\(name) \(number) " + String(repeating: "L", count: 1 + number * 997 % 6000)
            let record = ChappieThreadRecord(
                position: position, kind: .turnStarted, date: date,
                body: ["messages": [["content": [["text": .string(text)]]]]])
            summary.add(record)
            do throws(ChappieThreadStoreError) {
                try await store.append([record], to: summary, at: position)
                return position
            } catch {
                guard case .conflict = error else { throw error }
            }
        }
    }

    private static func fill(
        _ store: ChappieFileThreadStore, _ directory: String, _ protection: String, limit: rlim_t
    ) async throws {
        _ = try await append(1, by: "first", to: "first", of: store)
        if limit > 0 { limitFiles(to: limit) }
        var count = 0
        do {
            while true { count = try await append(count, by: "filler", to: "filler", of: store) + 1 }
        } catch let error as ChappieThreadStoreError {
            let other = try Self.store(directory, protection)
            for store in [store, other] {
                let found = try await store.records(of: "filler", from: 0).count
                let first = try await store.records(of: "first", from: 0).count
                guard found == count, first == 1 else {
                    return say("\(count) records were acknowledged and \(found) are there")
                }
            }
            if limit == 0 {
                // Not one byte is left.
                let rest = open(directory + "/rest", O_WRONLY | O_CREAT, 0o600)
                for size in [1 << 16, 1 << 12, 1] {
                    while write(rest, [UInt8](repeating: 1, count: size), size) > 0 {}
                }
                close(rest)
                try await store.delete("filler")
                guard try await other.summaries().map(\.id) == ["first"] else { return say("it is still there") }
            }
            say("\(count > 0 ? "some" : "none")\(limit == 0 ? " deleted" : "") \(error)")
        }
    }

    private static func limitFiles(to limit: rlim_t) {
        signal(SIGXFSZ, SIG_IGN)
        var bytes = rlimit(rlim_cur: limit, rlim_max: limit)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &bytes)
    }

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }
}
