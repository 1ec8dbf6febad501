import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// The command `chappie search`, which searches the web or reads a page without a model's answer.
struct SearchWeb: ProgramCommand {
    var settingsUse: SettingsUse { .all }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "search",
        abstract: "Search the web, or read a page.",
        discussion: """
            Prints the title, the address and an excerpt of each page. In a pipe, each result is a line with the three \
            separated by tabs. To find words in your conversations, use chappie threads search.

              chappie search swift 6.4 release --domain swift.org --recent 30d
              chappie search --open https://www.swift.org/blog/

            The service reads the web; no page is loaded from this machine.

            With --json: {"text":…, "results":[{"title":…, "url":…, "domain":…, "excerpt":…},…]}.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(help: ArgumentHelp("Only pages of this domain (repeatable).", valueName: "domain"))
    var domain: [String] = []

    @Option(
        help: ArgumentHelp("Only pages since then: 7d, 4w, yesterday, 2026-11-01. Whole days count.", valueName: "when")
    )
    var recent: String?

    @Option(help: ArgumentHelp("Print the text of this page instead of searching.", valueName: "address"))
    var open: String?

    @Argument(help: "What to search for.")
    var words: [String] = []

    func validate() throws {
        guard open != nil else {
            if words.joined().trimmed.isEmpty { throw ValidationError("There is nothing to search for.") }
            return
        }
        guard words.isEmpty, domain.isEmpty, recent == nil else {
            throw ValidationError("--open reads one page. It takes no words, --domain or --recent.")
        }
    }

    func run(in program: Program) async throws {
        let recency = try recent.map { try Self.days(since: $0, now: Date()) }
        let console = program.console
        let client = try program.client()
        let search = ChappieSearchRequest(words.joined(separator: " "), domains: domain, recency: recency)
        let answer = try await WaitingStatus.showing(open == nil ? "Searching…" : "Opening the page…", on: console) {
            if let open { try await client.openPage(open) } else { try await client.search(search) }
        }
        guard !options.json else { return console.json(answer.json) }
        // The service may leave out the list of pages.
        guard open == nil, !answer.results.isEmpty else {
            let text = answer.text.trimmedEnd
            guard text.isEmpty else { return console.line(text) }
            return console.note(open == nil ? "Nothing was found." : "The page has no text.")
        }
        for result in answer.results {
            if console.terminals.output {
                Self.show(result, on: console)
            } else {
                console.line(Self.line(result))
            }
        }
    }

    /// Returns the number of whole days from a date of the command line until now, at least 1.
    static func days(since text: String, now: Date) throws -> Int {
        let days = (now.timeIntervalSince(try DateArgument.parse(text, now: now)) / 86_400).rounded(.up)
        guard days >= 0 else { throw CommandLineError.usage("--recent \(text) is in the future.") }
        return max(Int(days), 1)
    }

    /// Returns a result as a line for a pipe: title, address and excerpt, separated by tabs.
    static func line(_ result: ChappieSearchResult) -> String {
        [
            UntrustedText.message(result.title, limit: 200) ?? "", SourceList.shown(result.url),
            UntrustedText.message(result.excerpt, limit: 1000) ?? "",
        ].joined(separator: "\t")
    }

    /// Shows a result on a terminal, as a block under its title.
    private static func show(_ result: ChappieSearchResult, on console: Console) {
        let title = UntrustedText.message(result.title, limit: 200) ?? "(no title)"
        console.draw(console.terminals.styles ? "\u{1B}[1m\(title)\u{1B}[0m\n" : title + "\n")
        console.line("  \(SourceList.shown(result.url))")
        if let excerpt = UntrustedText.message(result.excerpt, limit: 300) { console.line("  \(excerpt)") }
        console.line()
    }
}

extension ChappieSearchAnswer {
    fileprivate var json: ChappieJSON {
        let pages = results.map { page -> ChappieJSON in
            [
                "title": .string(page.title), "url": .string(page.url), "domain": .optional(page.domain),
                "excerpt": .string(page.excerpt),
            ]
        }
        return ["text": .string(text), "results": .array(pages)]
    }
}
