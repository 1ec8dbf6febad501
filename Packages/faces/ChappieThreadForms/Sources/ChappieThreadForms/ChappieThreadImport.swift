@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
public import ChappieRuntime
import FoundationEssentials

/// Threads read from a file: an export, or another program's history.
///
/// ```swift
/// for file in ChappieThreadImport.files(at: "/home/me/.codex/sessions") {
///     let read = try ChappieThreadImport(path: file)
///     for thread in read.threads { try await store.update(thread) }      // also what has grown since the last import
///     print(read.leftOut)                                                // kinds of things, and how often
/// }
/// ```
/// Ids are the file's, so that a store notices a second import.
public struct ChappieThreadImport: Sendable {
    /// The program that wrote the threads. New cases may come: switch with a `default`.
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

    /// How large a file may be, in bytes; a session of many months has some hundred megabytes.
    public static let byteLimit = 2 << 30

    /// The program that wrote the threads.
    public let source: Source
    /// The threads, as a store takes them.
    public var threads: [ChappieThread]
    /// The kinds of things that were left out, and how often.
    public var leftOut: [String: Int] = [:]

    /// Reads a file; blocks as long as the disk does. Sessions and exports in lines are read line by line.
    ///
    /// - Throws: ``ChappieThreadImportError``, which names the file, and the line or the table if it is damaged.
    public init(path: String) throws(ChappieThreadImportError) {
        do throws(ThreadFault) {
            let file = try ThreadFault.reading { () throws(WholeFile.Failure) in
                try FileLines(path, limit: Self.byteLimit)
            }
            let start = try ThreadFault.reading { () throws(WholeFile.Failure) in try file.start(16) }
            self = try start == Array("SQLite format 3\0".utf8) ? LLMLog.read(path) : Self.read(ImportLines(file))
        } catch {
            throw ChappieThreadImportError(error.code, path: path, reason: error.sentence)
        }
    }

    /// Reads an export or a session. (``init(path:)`` also reads a database, which has to stay in its file.)
    ///
    /// - Throws: ``ChappieThreadImportError``, which names the line if one is damaged.
    public init(_ bytes: [UInt8]) throws(ChappieThreadImportError) {
        do throws(ThreadFault) {
            self = try Self.read(ImportLines(bytes))
        } catch {
            throw ChappieThreadImportError(error.code, reason: error.sentence)
        }
    }

    init(source: Source, threads: [ChappieThread], leftOut: [String: Int] = [:]) {
        self.source = source
        self.threads = threads
        self.leftOut = leftOut
    }

    /// Reads a file, or the session files in a folder and below, the oldest first. A file in a folder that can't be read is
    /// left out.
    ///
    /// - Throws: ``ChappieThreadImportError`` for a file that is named itself.
    public static func all(at path: String) throws(ChappieThreadImportError) -> [ChappieThreadImport] {
        var all: [ChappieThreadImport] = []
        for file in files(at: path) {
            do throws(ChappieThreadImportError) {
                all.append(try ChappieThreadImport(path: file))
            } catch {
                guard file != path else { throw error }
                all.append(
                    ChappieThreadImport(source: .codex, threads: [], leftOut: ["unreadable file \(file)": 1]))
            }
        }
        return all
    }

    /// The files that a path names: itself, or the session files in a folder and below, the oldest first.
    public static func files(at path: String) -> [String] {
        var isFolder = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder else { return [path] }
        let all = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
        let sessions = all.filter { name in
            let last = name.split(separator: "/").last ?? ""
            return last.hasPrefix("rollout-") && last.hasSuffix(".jsonl")
        }
        return sessions.sorted().map { path + "/" + $0 }
    }

    // MARK: Our own forms

    private static func read(_ lines: ImportLines) throws(ThreadFault) -> ChappieThreadImport {
        var lines = lines
        if try lines.isArray() { return try ChatGPTExport.read(try lines.rest()) }
        guard let first = try lines.next() else {
            // A document may have its line feeds anywhere.
            guard let json = try? ChappieJSON(parsing: try lines.rest()), isWhole(json) else { throw .unknown }
            return ChappieThreadImport(source: .chappie, threads: [try thread(json)])
        }
        if isWhole(first.json) {
            guard try lines.next() == nil, lines.tornLine == nil else { throw .unknown }
            return ChappieThreadImport(source: .chappie, threads: [try thread(first.json)])
        }
        if first.json["format"]?.string == "chappie.thread" {
            var records: [ChappieJSON] = []
            while let line = try lines.next() { records.append(line.json) }
            if let tornLine = lines.tornLine { throw .line(tornLine, "it is cut") }
            var document = first.json.object ?? [:]
            document["records"] = .array(records)
            return ChappieThreadImport(source: .chappie, threads: [try thread(.object(document))])
        }
        guard first.json["type"]?.string == "session_meta" else { throw .unknown }
        var session = try CodexSession(first)
        while let line = try lines.next() { try session.add(line) }
        var read = try session.finished()
        if lines.tornLine != nil { read.leftOut["half a line at the end"] = 1 }
        return read
    }

    /// Whether this is an export in one document.
    private static func isWhole(_ json: ChappieJSON) -> Bool {
        json["format"]?.string == "chappie.thread" && json["records"] != nil
    }

    private static func thread(_ json: ChappieJSON) throws(ThreadFault) -> ChappieThread {
        let thread: ChappieThread
        do {
            thread = try ChappieThread(json: json)
        } catch {
            throw ThreadFault(error)
        }
        guard ImportedThread(id: thread.id) != nil else { throw .name }
        guard !thread.records.isEmpty else { throw .empty }
        return try ImportedThread.checked(thread)
    }
}

/// The reason for which a file can't be imported, and the place of the damage in it.
public struct ChappieThreadImportError: ChappieError, Hashable {
    /// The kind of failure; unknown values survive.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The file is missing, too large, or can't be read.
        public static let unreadable = Code(rawValue: "unreadable")
        /// The file has an unknown form.
        public static let unknownForm = Code(rawValue: "unknownForm")
        /// The file has a known form, but a mistake in it.
        public static let damaged = Code(rawValue: "damaged")
    }

    /// The kind of failure.
    public let code: Code
    /// The file; `nil` for bytes that came from elsewhere.
    public let path: String?
    /// The problem, with the line or the table; it ends with a full stop.
    public let reason: String

    /// An error with the given properties.
    public init(_ code: Code, path: String? = nil, reason: String) {
        self.code = code
        self.path = path
        self.reason = reason
    }

    public var errorDescription: String? {
        "\(path ?? "This") can't be \(code == .unreadable ? "read" : "imported"): \(reason)"
    }

    /// Advice for the user.
    public var recoverySuggestion: String? { code == .unreadable ? "Check the path." : nil }
}

/// A problem in a file, before the file's name is known.
struct ThreadFault: Error, Equatable {
    let code: ChappieThreadImportError.Code
    let sentence: String

    static let unknown = ThreadFault(
        "It is neither a thread that chappie exported, nor a session of the Codex CLI, nor a log of llm, nor ChatGPT's conversations.json.",
        .unknownForm)
    static let name = ThreadFault("The thread has an id that no thread can have.")
    static let tooDeep = ThreadFault("One of the records is nested too deep to be kept.")
    static let empty = ThreadFault("The thread has no records.")
    static func line(_ number: Int, _ reason: String) -> ThreadFault {
        ThreadFault("Line \(number) is damaged: \(reason).")
    }
    static func conversation(_ number: Int, _ reason: String) -> ThreadFault {
        ThreadFault("Conversation \(number) is damaged: \(reason).")
    }
    static func table(_ name: String, _ reason: String) -> ThreadFault {
        ThreadFault("The table \(name) can't be read: \(reason).")
    }

    private init(_ sentence: String, _ code: ChappieThreadImportError.Code = .damaged) {
        self.code = code
        self.sentence = sentence
    }

    /// A failure to read the file, in words for the user.
    static func reading<Output>(
        _ body: () throws(WholeFile.Failure) -> Output
    ) throws(ThreadFault) -> Output {
        do throws(WholeFile.Failure) {
            return try body()
        } catch {
            let words =
                switch error {
                case .missing: "there is none."
                case .directory: "it is a folder."
                case .special, .open, .changeable: "it is not a regular file."
                case .tooLarge: "it is over \(ChappieThreadImport.byteLimit >> 30) GiB."
                case .system(let reason): "\(reason)."
                }
            throw ThreadFault(words, .unreadable)
        }
    }

    init(_ error: ChappieThreadStoreError) { self.init(error.errorDescription ?? "\(error)") }
}
