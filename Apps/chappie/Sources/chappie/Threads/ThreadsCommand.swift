import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
import FoundationEssentials

/// The command `chappie threads` for the kept conversations.
struct Threads: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "threads", abstract: "List, read, find, export and tidy up the conversations that are kept.",
        discussion: """
            Conversations of ask and chat are kept in $XDG_STATE_HOME/chappie/threads (~/.local/state/chappie/threads), \
            for each account in a folder of its own, encrypted; the key is stored with the sign-in. ask -c continues the last one, --ephemeral keeps nothing. A \
            thread is named by its id, or enough of the id's end. They may take 512 MiB, or as many as \
            CHAPPIE_THREADS_LIMIT says. threads verify prints the folder.
            """,
        subcommands: [
            List.self, Show.self, Search.self, Export.self, Import.self, Rename.self, Archive.self, Delete.self,
            Fork.self, Resume.self, Backup.self, Restore.self, Verify.self,
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
            commandName: "list", abstract: "List the threads by the time of their latest change.",
            discussion: """
                Damaged threads are named after the others (exit status 65). With --json: \
                {"threads":[{"id":…,"title":…,"turns":…},…]}, and "problems":[…] if there are any. \
                --usage --json: {"threads":…,"records":…,"bytes":…,"limit":…}.
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(help: "Show only how much room the threads take.")
        var usage = false

        @Flag(help: "Also list archived threads.")
        var all = false

        @Option(name: .shortAndLong, help: "The most threads to list (default: 50 on a terminal, else all).")
        var limit: Int?

        @Option(
            help: ArgumentHelp(
                "Only threads that changed since then: 2026-11-01, yesterday, or 7d, 12h, 4w.", valueName: "when"))
        var since: String?

        @Option(help: ArgumentHelp("Only threads that changed until then, that day included.", valueName: "when"))
        var until: String?

        @Option(name: .shortAndLong, help: "Only threads whose last turn used this model.", completion: .models)
        var model: String?

        func validate() throws {
            guard usage, all || limit != nil || since != nil || until != nil || model != nil else { return }
            throw ValidationError("--usage counts all threads, and takes no other option of the list.")
        }

        func run(in program: Program) async throws {
            if usage { return try await showUsage(program) }
            let isTerminal = program.console.terminals.output
            let found = try await Threads.store(program).readableThreads()
            let start = try since.map { try DateArgument.parse($0, now: Date()) }
            let end = try until.map { try DateArgument.parse($0, now: Date(), isEnd: true) }
            let threads = found.threads.latestFirst(includeArchived: all).filter { thread in
                model.map { $0 == thread.model } ?? true && start.map { $0 <= thread.updatedAt } ?? true
                    && end.map { thread.updatedAt < $0 } ?? true
            }
            let problems = found.problems.map(\.words)
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
                    thread.shownName + thread.mark,
                ])
            }
            let width = isTerminal ? TerminalState.size()?.columns : nil
            for line in table.lines(isTerminal: isTerminal, width: width) { program.console.line(line) }
            if threads.isEmpty, problems.isEmpty {
                let isFiltered = start != nil || end != nil || model != nil
                program.console.note(isFiltered ? "There are no such threads." : "There are no threads yet.")
            }
            if shown.count < threads.count {
                program.console.note("… and \(threads.count - shown.count) more: --limit.")
            }
            try Threads.check(problems)
        }

        private func showUsage(_ program: Program) async throws {
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

    struct Search: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "search", abstract: "Find threads that contain all of the words, by relevance.",
            discussion: """
                Searches your messages, the model's answers, and the arguments and results of tools. Case and accents don't \
                matter, and the last word may be the beginning of a word. Words that follow one another: '"like these"'. \
                Archived threads are found too. Damage on the way is named after the hits (exit status 65). With --json: \
                {"hits":[{"thread":{…},"excerpt":…,"date":…},…]}, and "problems":[…] if there are any.
                """)

        @OptionGroup var options: GlobalOptions

        @Option(
            help: ArgumentHelp(
                "Only messages since then: 2026-11-01, yesterday, or 7d, 12h, 4w.", valueName: "when"))
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
            let problems = found.problems.map(\.words)
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
                let name = hit.thread.shownName + hit.thread.mark
                program.console.line("\(hit.thread.shortID)  \(hit.date.localMinute)  \(name)")
                program.console.line("    \(hit.excerpt.terminalLine(limit: 200))")
            }
            if hits.isEmpty { program.console.note("Nothing was found.") }
            try Threads.check(problems)
        }
    }

    // MARK: Shared by the commands

    static func check(_ problems: [String]) throws {
        if !problems.isEmpty { throw ExitCode(ExitStatus.badData.rawValue) }
    }

    static func read(_ name: String?, from store: ChappieFileThreadStore) async throws -> ChappieThread {
        try await store.thread(store.thread(named: name).id)
    }
}

extension String {
    /// Returns the text on one line of a terminal. The user's own text is shown unchanged, whatever it looks like.
    func terminalLine(limit: Int) -> String {
        // Most names begin with plain words, which are shown unchanged. There may be thousands of names.
        var before = UInt8(ascii: " ")
        let isPlain = utf8.prefix(limit).allSatisfy { byte in
            defer { before = byte }
            return (0x20...0x7E).contains(byte) && (byte != 0x20 || before != 0x20)
        }
        if isPlain, before != 0x20 {
            return utf8.count <= limit ? self : String(decoding: utf8.prefix(limit - 1), as: UTF8.self) + "…"
        }
        let words = unicodeScalars.split { $0.properties.isWhitespace }
        let line = UntrustedText.forTerminal(words.map { String($0) }.joined(separator: " "))
        guard !line.isEmpty else { return "…" }
        return line.count <= limit ? line : line.prefix(limit - 1) + "…"
    }
}

extension ChappieThreadSummary {
    /// The end of the id. Its beginning is the time, which is the same for threads of one day.
    var shortID: String { String(id.suffix(8)) }

    /// The mark after the name of an archived thread.
    var mark: String { isArchived ? " (archived)" : "" }

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
    /// Parses `2026-11-01`, `today` or `yesterday` (midnight, local time), `2026-11-01T12:00:00Z`, or a time in the past:
    /// `30m`, `12h`, `7d`, `4w`.
    ///
    /// - Parameter isEnd: whether a day means its end. Default `false`.
    static func parse(_ text: String, now: Date, isEnd: Bool = false) throws -> Date {
        let units = ["m": 60.0, "h": 3600, "d": 86_400, "w": 604_800]
        if let unit = text.last.flatMap({ units[String($0)] }), let count = Double(text.dropLast()), count >= 0,
            count < 1e6
        {
            return now - count * unit
        }
        if let date = try? Date.ISO8601FormatStyle().parse(text) { return date }
        let days = ["today": 0.0, "yesterday": 1]
        // Noon is within the right day, even if the day has 23 or 25 hours.
        func day(_ text: String, after days: Double = 0) -> Date? {
            Date.localDay(text).flatMap { Date.localDay(($0 + 43_200 + days * 86_400).local("%Y-%m-%d")) }
        }
        let name = days[text].flatMap { day(now.local("%Y-%m-%d"), after: -$0)?.local("%Y-%m-%d") } ?? text
        if let day = day(name, after: isEnd ? 1 : 0) { return day }
        throw CommandLineError.usage(
            "\(text) is not a date.", suggestion: "Write a day (2026-11-01, yesterday), or how long ago: 12h, 7d, 4w.")
    }
}
