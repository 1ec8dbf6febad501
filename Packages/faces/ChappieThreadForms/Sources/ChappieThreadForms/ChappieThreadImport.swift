public import ChappieRuntime

/// Threads read from a file: an export, or another program's history.
///
/// The threads have the ids from the file, so that a store notices a second import. ``ChappieThreadReader`` reads one
/// thread at a time.
public struct ChappieThreadImport: Sendable {
    /// The program that wrote the threads. New cases may be added, so switch with a `default`.
    public enum Source: String, Sendable, CaseIterable {
        /// An export as ``ChappieThreadFormat/json`` or ``ChappieThreadFormat/jsonl``.
        case chappie
        /// A session file of the Codex CLI (`$CODEX_HOME/sessions/YYYY/MM/DD/rollout-….jsonl`).
        case codex
        /// The log database of the program `llm` (`llm logs path`).
        case llm
        /// `conversations.json` of the export that ChatGPT sends its users: the current branch of each conversation.
        case chatGPT
    }

    /// The largest size of a file, in bytes. A session of many months has some hundred megabytes.
    public static let byteLimit = 2 << 30

    /// The program that wrote the threads.
    public let source: Source
    /// The threads, as a store accepts them.
    public var threads: [ChappieThread]
    /// The kinds of things that were left out, and the number of each.
    public var leftOut: [String: Int] = [:]

    init(source: Source, threads: [ChappieThread], leftOut: [String: Int] = [:]) {
        self.source = source
        self.threads = threads
        self.leftOut = leftOut
    }
}
