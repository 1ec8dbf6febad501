import ChappieSDK
import ChappieSDKRuntime
import FoundationEssentials

/// A list of the newest kept conversations, or of those that contain some words, with the problems of reading them.
struct KeptLines: Sendable {
    struct Line: Sendable {
        let id: String
        let name: String
        let detail: String
    }

    private(set) var lines: [Line] = []
    /// The number of conversations that are not in the list.
    private(set) var left = 0
    private(set) var problems: [String] = []

    /// The maximum number of lines in a list and of hits in a search.
    private static let limits = (lines: 200, hits: 50)
    /// The maximum number of problems. A damaged store may have a problem with each entry.
    private static let problemLimit = 3

    /// Reads a list outside the window's thread.
    @concurrent
    static func read(_ store: any ChappieThreadStore, _ words: String) async -> KeptLines {
        var found = KeptLines()
        do throws(ChappieThreadStoreError) {
            if words.allSatisfy(\.isWhitespace) {
                try await found.list(store)
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

    private mutating func list(_ store: any ChappieThreadStore) async throws(ChappieThreadStoreError) {
        var threads: [ChappieThreadSummary]
        if let file = store as? ChappieFileThreadStore {
            let found = try await file.readableThreads()
            threads = found.threads
            problems = found.problems.map(\.explanation)
        } else {
            threads = try await store.summaries()
        }
        threads = threads.filter { !$0.isArchived }.sorted { ($0.updatedAt, $0.id) > ($1.updatedAt, $1.id) }
        left = max(0, threads.count - Self.limits.lines)
        lines = threads.prefix(Self.limits.lines).map { thread in
            let turns = thread.turnCount == 1 ? "1 turn" : "\(thread.turnCount) turns"
            return Line(id: thread.id, name: Self.oneLine(thread.name), detail: turns)
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
        lines = hits.map {
            Line(id: $0.thread.id, name: Self.oneLine($0.thread.name), detail: Self.oneLine($0.excerpt))
        }
    }

    /// Returns the beginning of a text as one line.
    private static func oneLine(_ text: String) -> String {
        text.prefix(400).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
