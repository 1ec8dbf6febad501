@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSDK
import FoundationEssentials

/// The entries that the arrow keys go through in a chat, in addition to its own lines: the user's messages in the
/// latest threads. They are not stored a second time: entries of a deleted thread are gone, and without threads nothing
/// outlives the chat.
struct ChatHistory: Sendable {
    /// How many entries there are at most.
    static let limit = 500
    /// Longer messages were piped or pasted, and are left out. In bytes.
    private static let entryLimit = 8 << 10
    /// How many threads are read, and how many records of each.
    private static let threadLimit = 50
    private static let recordLimit = 200
    /// The user waits for the threads that can be read in this time.
    private static let patience = Duration.seconds(1)

    private let store: (any ChappieThreadStore)?
    /// Later messages are in the editor already.
    private let end = Date()
    private let known = BlockingValue<[String]>()

    /// - Parameter store: `nil` if nothing is kept.
    init(store: (any ChappieThreadStore)?) { self.store = store }

    /// Whether the history has this entry. As in many shells, a line that begins with a blank is left out.
    static func remembers(_ entry: String) -> Bool { entry.first.map { $0 != " " } ?? false }

    /// Returns the entries, the newest last, or `nil` if the threads can't be read now. It blocks the caller for two
    /// seconds at most.
    func entries() -> [String]? { known.value(within: 2, load) }

    /// Reads the entries.
    ///
    /// - Throws: ``ChappieThreadStoreError``; `CancellationError`.
    func load() async throws -> [String] {
        guard let store else { return [] }
        let start = ContinuousClock.now
        var said: [(date: Date, text: String)] = []
        let threads = try await store.threads(includeArchived: true)
        for thread in threads.prefix(Self.threadLimit)
        where said.count < Self.limit && ContinuousClock.now - start < Self.patience {
            try Task.checkCancellation()
            // A thread that can't be read, or was just deleted, has no entries.
            let from = max(thread.recordCount - Self.recordLimit, 0)
            let records = (try? await store.records(of: thread.id, from: from)) ?? []
            for record in records where record.kind == .turnStarted && record.date < end {
                said += Self.messages(in: record).map { (record.date, $0) }
            }
        }
        return said.sorted { $0.date < $1.date }.suffix(Self.limit).map(\.text)
    }

    private static func messages(in record: ChappieThreadRecord) -> [String] {
        (record.body["messages"]?.array ?? []).compactMap { message in
            guard message["role"]?.string == "user" else { return nil }
            let text = (message["content"]?.array ?? []).compactMap { $0["text"]?.string }.joined(separator: "\n")
            // Piped or imported text may hold control sequences for a terminal.
            guard remembers(text), text.utf8.count <= entryLimit, UntrustedText.forTerminal(text) == text else {
                return nil
            }
            return text
        }
    }
}
