import ArgumentParser
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
import FoundationEssentials
import Glibc
import SystemPackage

// Maintenance of the stored threads.
extension Threads {
    struct ThreadsUsage: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "usage", abstract: "Show how much room the threads take.",
            discussion: "With --json: {\"threads\":…,\"records\":…,\"bytes\":…,\"limit\":…}.")

        @OptionGroup var options: GlobalOptions

        func run(in program: Program) async throws {
            let usage = try await Threads.store(program).usage()
            var json: ChappieJSONObject = [
                "threads": .integer(usage.threads), "records": .integer(usage.records), "bytes": .integer(usage.bytes),
            ]
            json["limit"] = usage.limit.map(ChappieJSON.integer)
            let limit = usage.limit.map { " of \(Self.size($0))" } ?? ""
            program.say(
                .object(json), "\(usage.threads) threads, \(usage.records) records, \(Self.size(usage.bytes))\(limit)")
        }

        private static func size(_ bytes: Int) -> String {
            bytes < 1 << 20 ? "\((bytes + 1023) >> 10) KiB" : "\((bytes + (1 << 20) - 1) >> 20) MiB"
        }
    }

    struct Verify: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify", abstract: "Read every thread and report damage (exit status 65 if there is any).",
            discussion: """
                --repair rebuilds the search index, which loses nothing, and accepts the threads that are there if each is \
                whole and some are missing or older than they were. chappie threads salvage saves the readable parts of a \
                damaged thread. With --json: {"problems":[…]}.
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(help: "Rebuild the search index, and accept the threads that are there.")
        var repair = false

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            if repair { try await store.rebuildIndex() }
            let problems = try await store.verify().map { $0.errorDescription ?? "\($0)" }
            program.say(
                ["problems": .array(problems.map { .string($0) })],
                problems.isEmpty ? "Everything is whole." : problems.joined(separator: "\n"))
            if !problems.isEmpty { throw ExitCode(ExitStatus.badData.rawValue) }
        }
    }

    struct Salvage: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "salvage", abstract: "Write what can be read of damaged threads into files.",
            discussion: """
                A file for each thread, ID.json, which import takes; not encrypted, for you alone. No file is replaced: \
                a name that is taken gets a number. The store stays as it is: delete the damaged threads afterwards, and \
                accept the others (threads verify --repair) if that is asked for. \
                With --json: {"threads":[{"id":…,"file":…,"records":…,"lost":…},…]}.
                """)

        @OptionGroup var options: GlobalOptions

        @Argument(help: "A folder for the files; it is created.", completion: .directory)
        var folder: String

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
                throw CommandLineError.usage("\(folder) can't be created: \(Errno.latest).")
            }
            var written: [ChappieJSON] = []
            for id in try await store.salvageableThreads() {
                let salvaged = try await store.salvage(id)
                let records = salvaged.records.renumbered
                guard !records.isEmpty else { continue }
                let file = try Self.write(records, of: id, into: folder)
                written.append([
                    "id": .string(id), "file": .string(file), "records": .integer(records.count),
                    "lost": .integer(salvaged.lost.count),
                ])
                if !options.json {
                    program.console.line(
                        "\(file): \(records.count) records, \(salvaged.lost.count) lost"
                            + (salvaged.isEndUnknown ? ", maybe more at its end" : ""))
                }
            }
            if options.json { program.console.json(["threads": .array(written)]) }
            if written.isEmpty { program.console.note("There is nothing to read.") }
        }

        /// Writes a new file.
        ///
        /// - Returns: the file's name in the folder.
        static func write(_ records: [ChappieThreadRecord], of id: String, into folder: String) throws -> String {
            // The id may also be damaged. It names a file here, and import does not accept every id.
            let isUsable = ChappieThread.canHaveID(id)
            let thread = try ChappieThread(id: isUsable ? id : UUID().uuidString.lowercased(), records: records)
            let text = Array((thread.json.serialized() + "\n").utf8)
            let stem = isUsable ? id : "damaged-id"
            var name = "\(stem).json"
            var number = 1
            while true {
                do {
                    try PrivateFile.create("\(folder)/\(name)", with: text)
                    return name
                } catch .fileExists {
                    number += 1
                    name = "\(stem)-\(number).json"
                } catch {
                    throw CommandLineError(
                        .unavailable, code: "output_failed", "\(folder)/\(name) can't be written: \(error).",
                        suggestion: "Name a folder that you may write to.")
                }
            }
        }
    }

    struct Rekey: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "rekey", abstract: "Encrypt the threads with a new key.",
            discussion: """
                The new key is stored first and the old one removed last; the next call finishes an \
                interrupted one. With --json: {"rekeyed":true}.
                """)

        @OptionGroup var options: GlobalOptions

        func run(in program: Program) async throws {
            try await Threads.store(program).rotateKey()
            program.say(["rekeyed": true], "The threads have a new key.")
        }
    }
}
