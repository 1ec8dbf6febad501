import ArgumentParser
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

// Maintenance of the stored threads.
extension Threads {
    struct Verify: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify", abstract: "Print the store's folder, read every thread and report damage.",
            discussion: """
                The first line is the folder of this account's threads, also if there are none yet. The exit status is 65 \
                if something is damaged.

                --repair writes everything that can be read into a new file, and keeps the damaged file next to it if \
                something was lost. --new-key encrypts the threads with a new key. The new key is stored first and the old \
                one is removed last, so the next call finishes an interrupted one.

                With --json: {"path":…,"problems":[…]}, after --repair also "threads":…,"lost":[…] and, if something was \
                lost, "damaged_file":…
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(help: "Write everything that can be read into a new file.")
        var repair = false

        @Flag(help: "Encrypt the threads with a new key.")
        var newKey = false

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            guard let path = store.directory else {
                throw CommandLineError.usage("There is no home directory for threads.", suggestion: "Set HOME.")
            }
            var json: ChappieJSONObject = ["path": .string(path)]
            if !options.json { program.console.line(path) }
            if repair { Self.report(try await store.repair(), &json, program) }
            if newKey {
                try await store.rotateKey()
                if !options.json { program.console.line("The threads have a new key.") }
            }
            let problems = try await store.verify().map(\.words)
            json["problems"] = .array(problems.map { .string($0) })
            program.say(.object(json), problems.isEmpty ? "Everything is whole." : problems.joined(separator: "\n"))
            try Threads.check(problems)
        }

        private static func report(_ repair: ChappieThreadRepair, _ json: inout ChappieJSONObject, _ program: Program) {
            let lost = repair.problems.map(\.words)
            json["threads"] = .integer(repair.threads)
            json["lost"] = .array(lost.map { .string($0) })
            json["damaged_file"] = repair.damagedFile.map(ChappieJSON.string)
            guard !program.options.json else { return }
            program.console.line("Kept: \(repair.threads).")
            for problem in lost { program.console.line("Lost: \(problem)") }
            if let file = repair.damagedFile { program.console.line("The damaged file is now \(file).") }
        }
    }
}

extension ChappieThreadStoreError {
    /// The sentence for the user.
    var words: String { errorDescription ?? "\(self)" }
}
