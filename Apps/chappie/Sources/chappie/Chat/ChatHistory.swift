@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import FoundationEssentials

/// The entries for the arrow keys in a chat, in addition to the chat's own lines. They are the user's messages in the
/// latest threads. They are not stored a second time. The entries of a deleted thread disappear, and without threads
/// nothing outlives the chat.
struct ChatHistory: Sendable {
    /// The maximum number of entries.
    static let limit = 500
    /// The maximum length of an entry, in bytes. Longer messages were piped or pasted, and are left out.
    private static let entryLimit = 8 << 10
    /// The maximum number of threads that are read, and of records of each.
    private static let threadLimit = 50
    private static let recordLimit = 200
    /// The time in which threads are read while the user waits.
    private static let patience = Duration.seconds(1)

    private let store: (any ChappieThreadStore)?
    /// The end of the messages that are read. Later messages are already in the editor.
    private let end = Date()
    private let known = BlockingValue<[String]>()

    /// - Parameter store: `nil` if nothing is kept.
    init(store: (any ChappieThreadStore)?) { self.store = store }

    /// Returns whether the history keeps an entry. As in many shells, a line that begins with a blank is left out.
    static func remembers(_ entry: String) -> Bool { entry.first.map { $0 != " " } ?? false }

    /// Returns the entries from the oldest to the newest, or `nil` if the threads cannot be read now. It blocks the
    /// caller for at most two seconds.
    func entries() -> [String]? { known.value(within: 2, load) }

    /// Reads the entries.
    ///
    /// - Throws: ``ChappieThreadStoreError`` or `CancellationError`.
    func load() async throws -> [String] {
        guard let store else { return [] }
        let start = ContinuousClock.now
        var said: [(date: Date, text: String)] = []
        let threads = try await store.threads(includeArchived: true)
        for thread in threads.prefix(Self.threadLimit)
        where said.count < Self.limit && ContinuousClock.now - start < Self.patience {
            try Task.checkCancellation()
            // A thread that cannot be read or was deleted in the meantime has no entries.
            let from = max(thread.recordCount - Self.recordLimit, 0)
            let records = (try? await store.records(of: thread.id, from: from)) ?? []
            let takenBack = records.positionsTakenBack
            for record in records
            where [.turnStarted, .turnSteered].contains(record.kind) && record.date < end
                && !takenBack.contains(record.position)
            {
                said += Self.messages(in: record).map { (record.date, $0) }
            }
        }
        return said.sorted { $0.date < $1.date }.suffix(Self.limit).map(\.text)
    }

    private static func messages(in record: ChappieThreadRecord) -> [String] {
        (record.body["messages"]?.array ?? [record.body["message"]].compactMap(\.self)).compactMap { message in
            guard message["role"]?.string == "user" else { return nil }
            let text = (message["content"]?.array ?? []).compactMap { $0["text"]?.string }.joined(separator: "\n")
            // Piped or imported text may contain control sequences for a terminal.
            guard remembers(text), text.utf8.count <= entryLimit, UntrustedText.forTerminal(text) == text else {
                return nil
            }
            return text
        }
    }
}
