@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) public import ChappieRuntime
import FoundationEssentials

/// A reader of threads in a file, which is an export or another program's history. It has one thread at a time in
/// memory, if the form of the file allows that.
///
/// ```swift
/// var reader = try ChappieThreadReader(path: "conversations.json")
/// while let thread = try reader.next() { try await store.update(thread) }    // also what has grown since
/// print(reader.leftOut)                                                      // kinds of things, and how often
/// ```
/// The threads have the ids from the file, so that a store notices a second import.
public struct ChappieThreadReader {
    private var form: any ThreadForm
    private let path: String?

    /// The program that wrote the threads.
    public var source: ChappieThreadImport.Source { form.source }
    /// The kinds of things that were left out so far, and the number of each. A damaged conversation is named.
    public var leftOut: [String: Int] { form.leftOut.counts }

    /// Opens a file, which may be a zip archive of files, or compressed with zstd. This call blocks as long as the disk
    /// does.
    ///
    /// - Throws: ``ChappieThreadImportError``, which names the file, and the line or the table if it is damaged.
    public init(path: String) throws(ChappieThreadImportError) {
        self.path = path
        do throws(ThreadFault) {
            let file = try ThreadFault.reading { () throws(WholeFile.Failure) in
                try FilePieces(path, limit: ChappieThreadImport.byteLimit)
            }
            let start = try ThreadFault.reading { () throws(WholeFile.Failure) in try file.start(16) }
            let attributes = try? FileManager.default.attributesOfItem(atPath: path)
            let date = attributes?[.modificationDate] as? Date ?? Date(timeIntervalSince1970: 0)
            switch FileKind(start) {
            case .database: form = try LLMLog(path, fileDate: date)
            case .archive: form = ZippedExport(file, fileDate: date)
            case .zstd: form = try Self.form(of: Self.decompressed(file), fileName: path, fileDate: date)
            case .other:
                let lines = try ImportLines { () throws(ThreadFault) in
                    try ThreadFault.reading { () throws(WholeFile.Failure) in try file.next() }
                }
                form = try Self.form(of: lines, fileName: path, fileDate: date)
            }
        } catch {
            throw ChappieThreadImportError(error.code, path: path, reason: error.sentence)
        }
    }

    /// Begins to read an export or a session. (``init(path:)`` also reads a database, which has to stay in its file.)
    ///
    /// - Throws: ``ChappieThreadImportError``, which names the line if one is damaged.
    public init(_ bytes: [UInt8]) throws(ChappieThreadImportError) {
        path = nil
        do throws(ThreadFault) {
            form = try Self.form(of: try ImportLines(bytes), fileName: nil, fileDate: Date(timeIntervalSince1970: 0))
        } catch {
            throw ChappieThreadImportError(error.code, reason: error.sentence)
        }
    }

    /// Returns the next thread, or `nil` at the end.
    ///
    /// - Throws: ``ChappieThreadImportError`` if the file can't be read any further. Damage of one conversation is no
    ///   error, but part of ``leftOut``.
    public mutating func next() throws(ChappieThreadImportError) -> ChappieThread? {
        do throws(ThreadFault) {
            return try form.next()
        } catch {
            throw ChappieThreadImportError(error.code, path: path, reason: error.sentence)
        }
    }

    // MARK: Forms

    private enum FileKind {
        case database
        case archive
        case zstd
        case other

        init(_ start: [UInt8]) {
            if start == Array("SQLite format 3\0".utf8) {
                self = .database
            } else if start.starts(with: Array("PK\u{3}\u{4}".utf8)) {
                self = .archive
            } else if start.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
                self = .zstd
            } else {
                self = .other
            }
        }
    }

    private static func decompressed(_ file: FilePieces) throws(ThreadFault) -> ImportLines {
        #if canImport(CZstd)
            let contents = ZstdFile(file)
            return try ImportLines { () throws(ThreadFault) in
                try ThreadFault.reading { () throws(WholeFile.Failure) in try contents.nextPiece() }
            }
        #else
            throw ThreadFault("It is compressed. Decompress it first with zstd -d.", .unknownForm)
        #endif
    }

    static func form(
        of lines: ImportLines, fileName: String?, fileDate: Date
    ) throws(ThreadFault) -> any ThreadForm {
        var lines = lines
        switch try lines.firstCharacter() {
        case "[": return ChatGPTExport(lines, fileDate: fileDate)
        case "{": break
        default: throw .unknown
        }
        guard let first = try lines.next() else {
            // A document may have its line feeds anywhere.
            guard let json = try? ChappieJSON(parsing: try lines.rest()) else { throw .unknown }
            return try document(json, fileName: fileName, fileDate: fileDate)
        }
        if first.json["format"]?.string == "chappie.thread", first.json["records"] == nil {
            return try ChappieExport(first.json, &lines)
        }
        if CodexSession.canBegin(with: first.json) {
            return CodexSession(first.json, lines, fileName: fileName, fileDate: fileDate)
        }
        guard try lines.next() == nil, lines.tornLine == nil else { throw .unknown }
        return try document(first.json, fileName: fileName, fileDate: fileDate)
    }

    /// Returns the form of a file that is one JSON object.
    private static func document(
        _ json: ChappieJSON, fileName: String?, fileDate: Date
    ) throws(ThreadFault) -> any ThreadForm {
        if json["format"]?.string == "chappie.thread", json["records"] != nil { return try ChappieExport(json) }
        if let export = try ChatGPTExport(document: json, fileDate: fileDate) { return export }
        // The first versions of the Codex CLI wrote a session as one document.
        guard let session = json["session"], let items = json["items"]?.array, CodexSession.canBegin(with: session)
        else { throw .unknown }
        let lines = items.map { $0.serialized() + "\n" }.joined()
        return CodexSession(session, try ImportLines(Array(lines.utf8)), fileName: fileName, fileDate: fileDate)
    }
}

extension ChappieThreadImport {
    /// Reads all threads of a file. See ``ChappieThreadReader`` for large files.
    public init(path: String) throws(ChappieThreadImportError) {
        try self.init(reading: try ChappieThreadReader(path: path))
    }

    /// Reads all threads of an export or a session.
    public init(_ bytes: [UInt8]) throws(ChappieThreadImportError) {
        try self.init(reading: try ChappieThreadReader(bytes))
    }

    private init(reading reader: ChappieThreadReader) throws(ChappieThreadImportError) {
        var reader = reader
        self.init(source: reader.source, threads: [])
        while let thread = try reader.next() { threads.append(thread) }
        leftOut = reader.leftOut
    }

    /// Returns the files that a path names: the path itself, or the files in a folder and below, in the order of their
    /// names. The names of sessions begin with their dates.
    public static func files(at path: String) -> [String] {
        var isFolder = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder else { return [path] }
        let all = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
        return all.sorted().map { path + "/" + $0 }.filter {
            !FileManager.default.fileExists(atPath: $0, isDirectory: &isFolder) || !isFolder
        }
    }
}

/// A thread that this program exported.
private struct ChappieExport: ThreadForm {
    let source = ChappieThreadImport.Source.chappie
    let leftOut = LeftOut()
    private var thread: ChappieThread?

    mutating func next() -> ChappieThread? {
        defer { thread = nil }
        return thread
    }

    init(_ json: ChappieJSON) throws(ThreadFault) { thread = try Self.thread(json) }

    /// Reads an export in lines.
    init(_ head: ChappieJSON, _ lines: inout ImportLines) throws(ThreadFault) {
        var records: [ChappieJSON] = []
        while let line = try lines.next() { records.append(line.json) }
        if let tornLine = lines.tornLine { throw .line(tornLine, "it is cut") }
        var document = head.object ?? [:]
        document["records"] = .array(records)
        try self.init(.object(document))
    }

    private static func thread(_ json: ChappieJSON) throws(ThreadFault) -> ChappieThread {
        let thread: ChappieThread
        do {
            thread = try ChappieThread(json: json)
        } catch {
            throw ThreadFault(error)
        }
        guard ChappieThread.canHaveID(thread.id) else { throw .name }
        guard !thread.records.isEmpty else { throw .empty }
        return try ImportedThread.checked(thread)
    }
}
