@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import ChappieSDK
import FoundationEssentials
import Glibc

/// The entries that the arrow keys go through in a chat, beside its own lines: the user's messages in the latest
/// threads. They are not stored a second time: entries of a deleted thread are gone, and without threads nothing
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
    private let oldLines: [String]
    /// Later messages are in the editor already.
    private let end = Date()
    private let known = BlockingValue<[String]>()

    /// - Parameters:
    ///   - store: `nil` if nothing is kept.
    ///   - oldLines: what an earlier version kept in a file.
    init(store: (any ChappieThreadStore)?, oldLines: [String] = []) {
        self.store = store
        self.oldLines = oldLines
    }

    /// Whether the history has this entry. As in many shells, a line that begins with a blank is left out.
    static func remembers(_ entry: String) -> Bool { entry.first.map { $0 != " " } ?? false }

    /// The entries, the newest last; `nil` if the threads can't be read now. It blocks the caller for two seconds at most.
    func entries() -> [String]? { known.value(within: 2, load) }

    /// Reads the entries.
    ///
    /// - Throws: ``ChappieThreadStoreError``; `CancellationError`.
    func load() async throws -> [String] {
        guard let store else { return oldLines }
        let start = ContinuousClock.now
        var said: [(date: Date, text: String)] = []
        let threads = try await store.threads(includeArchived: true)
        for thread in threads.prefix(Self.threadLimit)
        where said.count < Self.limit && ContinuousClock.now - start < Self.patience {
            try Task.checkCancellation()
            // A thread that can't be read, or was deleted just now, has no entries.
            let from = max(thread.recordCount - Self.recordLimit, 0)
            let records = (try? await store.records(of: thread.id, from: from)) ?? []
            for record in records where record.kind == .turnStarted && record.date < end {
                said += Self.messages(in: record).map { (record.date, $0) }
            }
        }
        let lines = said.sorted { $0.date < $1.date }.suffix(Self.limit).map(\.text)
        let kept = Set(lines)
        return oldLines.filter { !kept.contains($0) } + lines
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

    // MARK: The file of earlier versions

    /// Takes the lines out of the file in which an earlier version kept them as plain text, and removes it.
    ///
    /// - Returns: the lines, for this chat; none of a file that others can read or that makes no sense.
    static func takeOldLines(_ environment: ProgramEnvironment, _ console: Console) -> [String] {
        guard let path = environment.folders.state.map({ $0 + "/chat-history.jsonl" }), SmallFile.exists(path),
            PathOwner.refusal(of: path) == nil
        else { return [] }
        let bytes = (try? SmallFile.read(path, isPrivate: true)) ?? []
        if unlink(path) != 0, errno != ENOENT {
            console.note(
                "chappie: \(path) holds what was typed in earlier chats, as plain text, and can't be removed: "
                    + "\(String(cString: strerror(errno))). Remove it.")
        }
        let lines = bytes.split(separator: UInt8(ascii: "\n")).suffix(limit)
        return lines.compactMap { (try? ChappieJSON(parsing: Array($0)))?.string }
    }
}
