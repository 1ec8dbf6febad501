@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
public import ChappieRuntime
import FoundationEssentials

/// Threads read from a file: an export, or another program's history.
///
/// ```swift
/// for read in try ChappieThreadImport.all(at: "/home/me/.codex/sessions") {
///     for thread in read.threads { try await store.import(thread) }      // a conflict: it is there already
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
    }

    /// How large a file may be, in bytes; a session of many months has some hundred megabytes.
    public static let byteLimit = 2 << 30

    /// The program that wrote the threads.
    public let source: Source
    /// The threads, as a store takes them.
    public var threads: [ChappieThread]
    /// The kinds of things that were left out, and how often.
    public var leftOut: [String: Int] = [:]

    /// Reads a file whole; blocks as long as the disk does.
    ///
    /// - Throws: ``ChappieThreadImportError``, which names the file, and the line or the table if it is damaged.
    public init(path: String) throws(ChappieThreadImportError) {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.contents(of: path, limit: Self.byteLimit)
        } catch {
            throw ChappieThreadImportError(.unreadable, path: path, reason: Self.reason(of: error))
        }
        do throws(ThreadFault) {
            self = bytes.starts(with: "SQLite format 3\0".utf8) ? try LLMLog.read(path) : try Self.read(bytes)
        } catch {
            throw ChappieThreadImportError(error.code, path: path, reason: error.sentence)
        }
    }

    /// Reads an export or a session. (``init(path:)`` also reads a database, which has to stay in its file.)
    ///
    /// - Throws: ``ChappieThreadImportError``, which names the line if one is damaged.
    public init(_ bytes: [UInt8]) throws(ChappieThreadImportError) {
        do throws(ThreadFault) {
            self = try Self.read(bytes)
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
    static func files(at path: String) -> [String] {
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

    private static func read(_ bytes: [UInt8]) throws(ThreadFault) -> ChappieThreadImport {
        if let json = try? ChappieJSON(parsing: bytes), json["format"]?.string == "chappie.thread",
            json["records"] != nil
        {
            return ChappieThreadImport(source: .chappie, threads: [try thread(json)])
        }
        let (values, tornLine) = try lines(bytes)
        guard let first = values.first?.json else { throw .unknown }
        if first["format"]?.string == "chappie.thread" {
            if let tornLine { throw .line(tornLine, "it is cut") }
            var document = first.object ?? [:]
            document["records"] = .array(values.dropFirst().map(\.json))
            return ChappieThreadImport(source: .chappie, threads: [try thread(.object(document))])
        }
        guard first["type"]?.string == "session_meta" else { throw .unknown }
        var session = try CodexSession.read(values)
        if tornLine != nil { session.leftOut["half a line at the end"] = 1 }
        return session
    }

    /// The lines of JSON, and the number of a last line that is half a line: its program ended while it wrote.
    private static func lines(
        _ bytes: [UInt8]
    ) throws(ThreadFault) -> (values: [(line: Int, json: ChappieJSON)], tornLine: Int?) {
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map(Array.init)
        let end = lines.popLast() ?? []
        let isTorn = !end.isEmpty && (try? ChappieJSON(parsing: end)) == nil
        if !end.isEmpty, !isTorn { lines.append(end) }
        var values: [(line: Int, json: ChappieJSON)] = []
        for (index, line) in lines.enumerated() where !line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) {
            guard let json = try? ChappieJSON(parsing: line), json.object != nil else {
                throw index == 0 ? .unknown : .line(index + 1, "it is not a JSON object")
            }
            values.append((index + 1, json))
        }
        return (values, isTorn ? lines.count + 1 : nil)
    }

    private static func thread(_ json: ChappieJSON) throws(ThreadFault) -> ChappieThread {
        let thread: ChappieThread
        do {
            thread = try ChappieThread(json: json)
        } catch {
            throw ThreadFault(error)
        }
        guard ForeignThread(id: thread.id) != nil else { throw .name }
        guard !thread.records.isEmpty else { throw .empty }
        return thread
    }

    private static func reason(of failure: WholeFile.Failure) -> String {
        switch failure {
        case .missing: "there is none."
        case .directory: "it is a folder."
        case .special, .open: "it is not a regular file."
        case .tooLarge: "it is over \(byteLimit >> 30) GiB."
        case .system(let reason): "\(reason)."
        }
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
        "It is neither a thread that chappie exported, nor a session of the Codex CLI, nor a log of llm.", .unknownForm)
    static let name = ThreadFault("The thread has an id that no thread can have.")
    static let empty = ThreadFault("The thread has no records.")
    static func line(_ number: Int, _ reason: String) -> ThreadFault {
        ThreadFault("Line \(number) is damaged: \(reason).")
    }
    static func table(_ name: String, _ reason: String) -> ThreadFault {
        ThreadFault("The table \(name) can't be read: \(reason).")
    }

    private init(_ sentence: String, _ code: ChappieThreadImportError.Code = .damaged) {
        self.code = code
        self.sentence = sentence
    }

    init(_ error: ChappieThreadStoreError) { self.init(error.errorDescription ?? "\(error)") }
}
