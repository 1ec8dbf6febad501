import CGtk4
import ChappieMarkdown
import ChappieSDK
import ChappieSDKRuntime
import FoundationEssentials

/// A list of the newest kept conversations, or of those that contain some words, with the problems of reading them.
struct KeptLines: Sendable {
    struct Line: Sendable {
        let id: String
        let name: String
        let detail: String
        let isArchived: Bool
    }

    private(set) var lines: [Line] = []
    /// The number of conversations that are not in the list.
    private(set) var left = 0
    private(set) var problems: [String] = []

    /// The maximum number of lines in a list and of hits in a search.
    private static let limits = (lines: 200, hits: 50)
    /// The maximum number of problems. A damaged store may have a problem with each entry.
    private static let problemLimit = 3

    /// Reads a list. The words of a search are also found in archived conversations.
    static func read(_ store: any ChappieThreadStore, _ words: String, includesArchived: Bool) async -> KeptLines {
        var found = KeptLines()
        do throws(ChappieThreadStoreError) {
            if words.allSatisfy(\.isWhitespace) {
                try await found.list(store, includesArchived: includesArchived)
            } else {
                try await found.search(store, words)
            }
        } catch {
            found.problems.append(error.explanation)
        }
        let more = found.problems.count - problemLimit
        if more > 0 { found.problems = found.problems.prefix(problemLimit) + ["There are \(more) more problems."] }
        return found
    }

    private mutating func list(
        _ store: any ChappieThreadStore, includesArchived: Bool
    ) async throws(ChappieThreadStoreError) {
        var threads: [ChappieThreadSummary]
        if let file = store as? ChappieFileThreadStore {
            let found = try await file.readableThreads()
            threads = found.threads
            problems = found.problems.map(\.explanation)
        } else {
            threads = try await store.summaries()
        }
        threads = threads.filter { includesArchived || !$0.isArchived }.sorted {
            ($0.updatedAt, $0.id) > ($1.updatedAt, $1.id)
        }
        left = max(0, threads.count - Self.limits.lines)
        lines = threads.prefix(Self.limits.lines).map { thread in
            let turns = thread.turnCount == 1 ? "1 turn" : "\(thread.turnCount) turns"
            return Self.line(thread, [Self.date(thread.updatedAt), turns])
        }
    }

    private mutating func search(
        _ store: any ChappieThreadStore, _ words: String
    ) async throws(ChappieThreadStoreError) {
        let query = ChappieThreadQuery(words, limit: Self.limits.hits)
        let hits: [ChappieThreadHit]
        if let file = store as? ChappieFileThreadStore {
            let found = try await file.readableHits(query)
            hits = found.hits
            problems = found.problems.map(\.explanation)
        } else {
            hits = try await store.search(query)
        }
        lines = hits.map { Self.line($0.thread, [Self.date($0.date), Self.oneLine($0.excerpt)]) }
    }

    private static func line(_ thread: ChappieThreadSummary, _ details: [String]) -> Line {
        let details = details + (thread.isArchived ? ["archived"] : [])
        // A title is the user's own text. Otherwise the name is the beginning of a message.
        let name = thread.title ?? MarkdownBlock.blocks(of: thread.name).map(\.text).joined(separator: " ")
        return Line(
            id: thread.id, name: oneLine(name), detail: details.joined(separator: " · "), isArchived: thread.isArchived)
    }

    /// Returns the time of a date of today, and otherwise the day.
    private static func date(_ date: Date) -> String {
        guard let time = g_date_time_new_from_unix_local(gint64(date.timeIntervalSince1970)),
            let now = g_date_time_new_now_local()
        else { return "" }
        defer { for one in [time, now] { g_date_time_unref(one) } }
        let isThisYear = g_date_time_get_year(time) == g_date_time_get_year(now)
        let isToday = isThisYear && g_date_time_get_day_of_year(time) == g_date_time_get_day_of_year(now)
        let text = g_date_time_format(time, isToday ? "%H:%M" : isThisYear ? "%-d %b" : "%-d %b %Y")
        defer { g_free(text) }
        return text.map { String(cString: $0) } ?? ""
    }

    /// Returns the beginning of a text as one line.
    private static func oneLine(_ text: String) -> String {
        text.prefix(400).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}

extension MarkdownBlock {
    /// The text without its marks.
    fileprivate var text: String {
        switch self {
        case .paragraph(let runs), .heading(_, let runs): runs.map(\.text).joined()
        case .code(_, let text), .verbatim(let text): text
        case .quote(let blocks): blocks.map(\.text).joined(separator: " ")
        case .list(let list): list.items.flatMap(\.blocks).map(\.text).joined(separator: " ")
        case .table(let table): table.rows.joined().joined().map(\.text).joined(separator: " ")
        case .rule: ""
        }
    }
}
