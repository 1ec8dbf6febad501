public import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import ChappieThreadsSQLite
import FoundationEssentials
import Glibc

/// The command `chappie threads` for the kept conversations.
struct Threads: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "threads", abstract: "List, read, find, export and tidy up the conversations that are kept.",
        discussion: """
            Conversations of ask and chat are kept in $XDG_STATE_HOME/chappie/threads (~/.local/state/chappie/threads), \
            for each account in a folder of its own, encrypted; the key is stored with the sign-in. ask -c continues the last one, --ephemeral keeps nothing. A \
            thread is named by its id, or enough of the id's end. They may take 512 MiB, or as many as \
            CHAPPIE_THREADS_LIMIT says.
            """,
        subcommands: [
            List.self, Show.self, Path.self, Search.self, Export.self, Import.self, Rename.self, Archive.self,
            Unarchive.self,
            Delete.self, Fork.self, Resume.self, Compact.self, Backup.self, Restore.self, ThreadsUsage.self,
            Verify.self,
            Salvage.self, Rekey.self,
        ], defaultSubcommand: List.self)

    /// Returns the store for a command that only uses threads.
    static func store(_ program: Program) throws -> ChappieFileThreadStore {
        guard let store = try program.threads() else {
            throw CommandLineError.usage(
                "No threads are kept here: the credential store is memory.", suggestion: "Choose another store.")
        }
        return store
    }

    struct List: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the threads, the latest change first.",
            discussion: """
                Damaged threads are named after the others (exit status 65). With --json: \
                {"threads":[{"id":…,"title":…,"turns":…},…]}, and "problems":[…] if there are any.
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(help: "Also list archived threads.")
        var all = false

        @Option(name: .shortAndLong, help: "The most threads to list (default: 50 on a terminal, else all).")
        var limit: Int?

        @Option(
            help: ArgumentHelp("Only threads that changed since then: 2026-11-01, or 7d, 12h, 4w.", valueName: "when"))
        var since: String?

        @Option(name: .shortAndLong, help: "Only threads whose last turn used this model.", completion: .models)
        var model: String?

        func run(in program: Program) async throws {
            let isTerminal = program.console.terminals.output
            let found = try await Threads.store(program).readableThreads()
            let start = try since.map { try DateArgument.parse($0, now: Date()) }
            let threads = found.threads.latestFirst(includeArchived: all).filter { thread in
                model.map { $0 == thread.model } ?? true && start.map { $0 <= thread.updatedAt } ?? true
            }
            let problems = found.problems.map { $0.errorDescription ?? "\($0)" }
            let shown = threads.prefix(max(limit ?? (isTerminal && !options.json ? 50 : .max), 0))
            defer { for problem in problems { program.console.note("chappie: \(problem)") } }
            guard !options.json else {
                var json: ChappieJSONObject = ["threads": .array(shown.map(\.json))]
                if !problems.isEmpty { json["problems"] = .array(problems.map { .string($0) }) }
                program.console.json(.object(json))
                return try Threads.check(problems)
            }
            var table = Table(["Thread", "Changed", "Turns", "Model", "Name"])
            for thread in shown {
                table.rows.append([
                    thread.shortID, thread.updatedAt.localMinute, "\(thread.turnCount)", thread.model,
                    thread.shownName + (thread.isArchived ? " (archived)" : ""),
                ])
            }
            let width = isTerminal ? TerminalState.size()?.columns : nil
            for line in table.lines(isTerminal: isTerminal, width: width) { program.console.line(line) }
            if threads.isEmpty, problems.isEmpty {
                let isFiltered = start != nil || model != nil
                program.console.note(isFiltered ? "There are no such threads." : "There are no threads yet.")
            }
            if shown.count < threads.count {
                program.console.note("… and \(threads.count - shown.count) more: --limit.")
            }
            try Threads.check(problems)
        }
    }

    struct Path: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "path", abstract: "Print the folder in which this account's threads are kept.",
            discussion: "Its content is encrypted. The folder need not exist. With --json: {\"path\":…}.")

        @OptionGroup var options: GlobalOptions

        func run(in program: Program) async throws {
            guard let path = try Threads.store(program).directory else {
                throw CommandLineError.usage("There is no home directory for threads.", suggestion: "Set HOME.")
            }
            program.say(["path": .string(path)], path)
        }
    }

    struct Search: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "search", abstract: "Find threads in which all of some words occur, best first.",
            discussion: """
                Searches your messages, the model's answers, and the arguments and results of tools. Case and accents don't \
                matter, and the last word may be the beginning of a word. Words that follow one another: '"like these"'. \
                Archived threads are found too. Damage on the way is named after the hits (exit status 65). With --json: \
                {"hits":[{"thread":{…},"excerpt":…,"date":…},…]}, and "problems":[…] if there are any.
                """)

        @OptionGroup var options: GlobalOptions

        @Option(
            help: ArgumentHelp("Only messages since then: 2026-11-01, or 7d, 12h, 4w.", valueName: "when"))
        var since: String?

        @Option(name: .shortAndLong, help: "Only threads whose last turn used this model.", completion: .models)
        var model: String?

        @Option(name: .shortAndLong, help: "The most hits to show.")
        var limit = 20

        @Argument(help: "The words.")
        var words: [String]

        func run(in program: Program) async throws {
            let query = ChappieThreadQuery(
                words.joined(separator: " "), since: try since.map { try DateArgument.parse($0, now: Date()) },
                model: model,
                limit: limit)
            let found = try await Threads.store(program).readableHits(query)
            let hits = found.hits
            let problems = found.problems.map { $0.errorDescription ?? "\($0)" }
            defer { for problem in problems { program.console.note("chappie: \(problem)") } }
            guard !options.json else {
                let list = hits.map { hit -> ChappieJSON in
                    [
                        "thread": hit.thread.json, "excerpt": .string(hit.excerpt),
                        "date": .string(hit.date.formatted(.iso8601)),
                    ]
                }
                var json: ChappieJSONObject = ["hits": .array(list)]
                if !problems.isEmpty { json["problems"] = .array(problems.map { .string($0) }) }
                program.console.json(.object(json))
                return try Threads.check(problems)
            }
            for hit in hits {
                program.console.line("\(hit.thread.shortID)  \(hit.date.localMinute)  \(hit.thread.shownName)")
                program.console.line("    \(hit.excerpt.terminalLine(limit: 200))")
            }
            if hits.isEmpty { program.console.note("Nothing was found.") }
            try Threads.check(problems)
        }
    }

    struct Export: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "export", abstract: "Write a thread as JSON, JSON lines, Markdown or a page for browsers.",
            discussion: """
                json and jsonl are complete, and import reads them. An export is not encrypted; a file is for you \
                alone. Without --format its name decides: .json, .jsonl, .md, .html. --all writes a file for each \
                thread into the folder of -o, or prints one after the other.
                """)

        @OptionGroup var options: GlobalOptions

        @Option(help: "json, jsonl, markdown or html (default: by the file's name, else json).")
        var format: ChappieThreadFormat?

        @Option(
            name: .shortAndLong,
            help: ArgumentHelp("Write into this file instead of printing.", valueName: "file"), completion: .file())
        var output: String?

        @Flag(help: "Every thread, including archived ones.")
        var all = false

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func validate() throws {
            if all, thread != nil { throw ValidationError("--all and a thread name different things.") }
        }

        func run(in program: Program) async throws {
            if all { return try await exportAll(program) }
            let target = try output.flatMap { $0 == "-" ? nil : try OutputFile($0, isPrivate: true) }
            let thread = try await Threads.read(thread, from: Threads.store(program))
            let text = (format ?? output.flatMap(ChappieThreadFormat.init(fileName:)) ?? .json).text(of: thread)
            guard let target else { return program.console.write(text) }
            try await target.write(text)
            program.console.note("The thread is in \(target.path), not encrypted.")
        }

        private func exportAll(_ program: Program) async throws {
            let store = try Threads.store(program)
            let format = format ?? .json
            let folder = output.flatMap { $0 == "-" ? nil : $0 }
            if let folder, mkdir(folder, 0o700) != 0, errno != EEXIST {
                throw CommandLineError.usage("\(folder) can't be created: \(String(cString: strerror(errno))).")
            }
            let found = try await store.readableThreads()
            var problems = found.problems
            var count = 0
            defer {
                if let folder { program.console.note("\(count) threads are in \(folder), not encrypted.") }
                for problem in problems {
                    program.console.note("chappie: \(problem.errorDescription ?? "\(problem)")")
                }
            }
            for summary in found.threads.latestFirst(includeArchived: true) {
                try Task.checkCancellation()
                let thread: ChappieThread
                do {
                    thread = try await store.thread(summary.id)
                } catch {
                    guard error.concernsOneThread else { throw error }
                    problems.append(error)
                    continue
                }
                let text = format.text(of: thread)
                if let folder {
                    let name = ChappieThread.canHaveID(thread.id) ? thread.id : "unusual-id-\(count + 1)"
                    try await OutputFile("\(folder)/\(name).\(format.fileExtension)", isPrivate: true).write(text)
                } else {
                    program.console.write(text)
                }
                count += 1
            }
            if !problems.isEmpty { throw ExitCode(ExitStatus.badData.rawValue) }
        }
    }

    struct Import: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "import", abstract: "Import exported threads, or threads of other programs.",
            discussion: """
                Takes what export gives as json or jsonl, sessions of the Codex CLI (~/.codex/sessions), the log database \
                of llm (logs.db), and ChatGPT's own export (its zip file, or conversations.json). A folder is searched for \
                these files. \
                Conversations are imported one by one, and what can't be read is left out and named. A thread that you \
                imported before gets its new messages. If you continued it here, that copy is kept next to it. A path \
                that gives no thread is an error. \
                With --json: {"imported":[…],"updated":[…],"present":[…],"left_out":{…}}.
                """)

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The files, or folders with them.", completion: .file())
        var files: [String]

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            var report = ImportReport()
            defer { report.say(program) }
            var problems: [ChappieThreadImportError] = []
            for path in files {
                do {
                    try await report.keep(path, in: store)
                } catch let error as ChappieThreadImportError {
                    problems.append(error)
                }
            }
            for problem in problems.dropLast() { program.console.note("chappie: \(problem.errorDescription ?? "")") }
            if let last = problems.last { throw last }
        }
    }

    struct Resume: ProgramCommand {
        var settingsUse: SettingsUse { .network }
        static let configuration = CommandConfiguration(
            commandName: "resume", abstract: "Continue a turn that was interrupted or waits for an approval.",
            discussion: """
                Tools that may have run already are not run again, and the model learns that. The turn keeps its model \
                and its effort. With --json: the lines of chappie ask.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var answerOptions: AnswerOptions

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func run(in program: Program) async throws {
            let approval = ToolApproval(
                approvesAll: answerOptions.approveTools, reader: TerminalLineReader(console: program.console))
            let client = try program.client(answerOptions, approval: approval)
            let (runtime, thread) = try await Threads.open(thread, with: client, in: program)
            try await answerOptions.show(
                runtime.streamResumingTurn(), program, approval, keeping: AnswerKeeping(thread: thread.id))
        }
    }

    struct Compact: ProgramCommand {
        var settingsUse: SettingsUse { .network }
        static let configuration = CommandConfiguration(
            commandName: "compact", abstract: "Sum a thread up, so that its next question takes less room.",
            discussion: """
                The model writes the summary, which counts against your plan. The thread keeps all its messages; the next \
                question is sent with the summary in their place, and without earlier pictures. ask, chat and mcp do it \
                by themselves when a conversation becomes too long. With --json: {"thread":…,"tokens_before":…,"tokens":…}.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var answerOptions: AnswerOptions

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func run(in program: Program) async throws {
            let (runtime, thread) = try await Threads.open(thread, with: program.client(answerOptions), in: program)
            let before = thread.context
            guard before.messageCount > 0 else {
                throw CommandLineError.usage("The thread has nothing to sum up yet.")
            }
            for try await event in runtime.begin(.compaction, endsWithItsStream: true).events {
                if case .notice(let notice) = event { program.note(notice) }
            }
            let after = await runtime.currentThread?.context ?? before
            program.say(
                [
                    "thread": .string(thread.id), "tokens_before": .integer(before.estimatedTokens),
                    "tokens": .integer(after.estimatedTokens),
                ],
                "The conversation is summed up; it takes about \(after.estimatedTokens) tokens now.")
        }
    }

    // MARK: Shared by the commands

    static func check(_ problems: [String]) throws {
        if !problems.isEmpty { throw ExitCode(ExitStatus.badData.rawValue) }
    }

    /// Opens the thread for a separate turn. A missing sign-in is reported before the turn begins, so that the turn
    /// does not fail.
    static func open(
        _ name: String?, with client: ChappieClient, in program: Program
    ) async throws -> (ChappieRuntime, ChappieThread) {
        let store = try Threads.store(program)
        _ = try await client.accountInfo()
        let runtime = program.runtime(client, store)
        return (runtime, try await runtime.openThread(try await store.thread(named: name).id))
    }

    static func read(_ name: String?, from store: ChappieFileThreadStore) async throws -> ChappieThread {
        try await store.thread(store.thread(named: name).id)
    }
}

extension ChappieThreadFormat: @retroactive ExpressibleByArgument {
    /// The file name extension for this form.
    fileprivate var fileExtension: String { self == .markdown ? "md" : rawValue }
}

extension String {
    /// Returns the text on one line of a terminal. The user's own text is shown unchanged, whatever it looks like.
    fileprivate func terminalLine(limit: Int) -> String {
        let words = unicodeScalars.split { $0.properties.isWhitespace }
        let line = UntrustedText.forTerminal(words.map { String($0) }.joined(separator: " "))
        guard !line.isEmpty else { return "…" }
        return line.count <= limit ? line : line.prefix(limit - 1) + "…"
    }
}

extension ChappieThreadSummary {
    /// The end of the id. Its beginning is the time, which is the same for threads of one day.
    var shortID: String { String(id.suffix(8)) }

    /// The name on one line of a terminal.
    var shownName: String { name.terminalLine(limit: 80) }

    var json: ChappieJSON {
        [
            "id": .string(id), "title": title.map { .string($0) } ?? .null, "preview": .string(preview),
            "model": .string(model), "created_at": .string(createdAt.formatted(.iso8601)),
            "updated_at": .string(updatedAt.formatted(.iso8601)), "is_archived": .bool(isArchived),
            "turns": .integer(turnCount),
        ]
    }
}

/// A parser for a date on the command line.
enum DateArgument {
    /// Parses `2026-11-01` (midnight, local time), `2026-11-01T12:00:00Z`, or a time in the past: `30m`, `12h`, `7d`,
    /// `4w`.
    static func parse(_ text: String, now: Date) throws -> Date {
        let units = ["m": 60.0, "h": 3600, "d": 86_400, "w": 604_800]
        if let unit = text.last.flatMap({ units[String($0)] }), let count = Double(text.dropLast()), count >= 0,
            count < 1e6
        {
            return now - count * unit
        }
        if let date = try? Date.ISO8601FormatStyle().parse(text) { return date }
        if let day = Date.localDay(text) { return day }
        throw CommandLineError.usage(
            "\(text) is not a date.", suggestion: "Write a day (2026-11-01), or how long ago: 12h, 7d, 4w.")
    }
}
