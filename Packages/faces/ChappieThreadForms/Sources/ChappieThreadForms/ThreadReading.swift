@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieRuntime
import FoundationEssentials

extension ChappieThreadImport {
    /// Reads a file. This call blocks as long as the disk does. Sessions and exports in lines are read line by line.
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

    /// Reads a file, or the session files in a folder and below, from the oldest to the newest. A file in a folder that
    /// cannot be read is left out.
    ///
    /// - Throws: ``ChappieThreadImportError`` for a file that `path` itself names.
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

    /// Returns the files that a path names: the path itself, or the session files in a folder and below, from the
    /// oldest to the newest.
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

    /// Returns whether this is an export in one document.
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
