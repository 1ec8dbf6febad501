import ArgumentParser
import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
import FoundationEssentials

extension ChappieThreadSummary {
    /// The thread in a question about it.
    fileprivate var line: String { "\(shortID)  \(updatedAt.localMinute)  \(shownName)\(mark)" }
}

// Changes to one thread.
extension Threads {
    struct Rename: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "rename", abstract: "Give a thread a title.",
            discussion: "With --json: {\"thread\":…,\"title\":…}.")

        @OptionGroup var options: GlobalOptions
        @Argument(help: "The thread.", completion: .threads) var thread: String
        @Argument(help: "The title; an empty one removes it.") var words: [String]

        func run(in program: Program) async throws {
            let title = words.joined(separator: " ")
            guard title.count <= Self.limit else {
                throw CommandLineError.usage(
                    "The title has \(title.count) characters.", suggestion: "Give one of at most \(Self.limit).")
            }
            let store = try Threads.store(program)
            let thread = try await store.thread(named: thread)
            try await store.rename(thread.id, to: title)
            program.say(["thread": .string(thread.id), "title": .string(title)], "Renamed.")
        }

        /// The most characters of a title. A longer one would hide the other threads in a list.
        private static let limit = 200
    }

    struct Archive: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "archive", abstract: "Hide a thread from the list, or put it back; search still finds it.",
            discussion: "With --json: {\"thread\":…}.")

        @OptionGroup var options: GlobalOptions
        @Flag(help: "Put an archived thread back into the list.") var undo = false
        @Argument(help: "The thread.", completion: .threads) var thread: String

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            let thread = try await store.thread(named: thread)
            if undo { try await store.unarchive(thread.id) } else { try await store.archive(thread.id) }
            program.say(
                ["thread": .string(thread.id)],
                undo
                    ? "It is in the list again."
                    : "Archived. chappie threads archive --undo \(thread.shortID) puts it back.")
        }
    }

    struct Delete: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "delete", abstract: "Remove threads for good.",
            discussion: "On a terminal it asks first; elsewhere it needs --force. With --json: {\"deleted\":[…]}.")

        @OptionGroup var options: GlobalOptions
        @Flag(name: .shortAndLong, help: "Don't ask.") var force = false
        @Option(
            help: ArgumentHelp(
                "All threads that have not changed since then, archived ones too: 90d, 12w, 2026-01-01.",
                valueName: "when"))
        var olderThan: String?
        @Argument(help: "The threads.", completion: .threads) var threads: [String] = []

        func validate() throws {
            if threads.isEmpty == (olderThan == nil) { throw ValidationError("Name threads, or give --older-than.") }
        }

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            var chosen: [Chosen] = []
            for thread in threads { chosen.append(try await Self.thread(thread, in: store)) }
            if let olderThan {
                let end = try DateArgument.parse(olderThan, now: Date())
                let all = try await store.readableThreads().threads.latestFirst(includeArchived: true)
                chosen = all.filter { $0.updatedAt < end }.map { ($0.id, $0.line) }
                guard !chosen.isEmpty || options.json else { return program.console.note("There are no such threads.") }
            }
            if !force, try await !confirms(chosen, program) { return program.console.note("Nothing was deleted.") }
            for thread in chosen { try await store.delete(thread.id) }
            program.say(["deleted": .array(chosen.map { .string($0.id) })], "Deleted: \(chosen.count).")
        }

        private typealias Chosen = (id: String, name: String)

        /// Returns the thread with this name. A damaged thread is also found, by the id that the damage names, or by
        /// its complete id.
        private static func thread(_ name: String, in store: ChappieFileThreadStore) async throws -> Chosen {
            do {
                let thread = try await store.thread(named: name)
                return (thread.id, thread.line)
            } catch let error as ChappieThreadStoreError {
                guard case .damaged(let id, _) = error else { throw error }
                // If the list itself is damaged, only a complete id can name a thread.
                guard let id = id ?? (ChappieThread.canHaveID(name) ? name : nil) else { throw error }
                return (id, "\(id)  (damaged)")
            }
        }

        private func confirms(_ chosen: [Chosen], _ program: Program) async throws -> Bool {
            guard program.console.terminals.input, program.console.terminals.error, !options.json else {
                throw CommandLineError.usage("Without a terminal nothing is deleted.", suggestion: "Add --force.")
            }
            for thread in chosen { program.console.note(thread.name) }
            return try await TerminalLineReader(console: program.console).confirms("Delete for good?") == true
        }
    }

    struct Fork: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "fork", abstract: "Copy a thread up to a turn into a new one.",
            discussion: "With --json: {\"thread\":…,\"from\":…}.")

        @OptionGroup var options: GlobalOptions

        @Option(help: "The last turn to copy, counted from 1 (default: all).")
        var at: Int?

        @Argument(help: "The thread.", completion: .threads)
        var thread: String

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            let original = try await store.thread(named: thread)
            let fork = try await store.fork(original.id, at: at)
            program.say(
                ["thread": .string(fork.id), "from": .string(original.id)],
                "The copy is \(fork.summary.shortID): chappie ask --thread \(fork.summary.shortID) …")
        }
    }
}
