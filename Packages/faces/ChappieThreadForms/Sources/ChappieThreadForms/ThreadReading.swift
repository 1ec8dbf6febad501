@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) public import ChappieRuntime
import FoundationEssentials

/// A reader of threads in a file or a folder, which is an export or another program's history. It has one thread at a
/// time in memory, if the form of the file allows that.
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

    /// The program that wrote the threads. In a folder, this is the program of the last thread.
    public var source: ChappieThreadImport.Source { form.source }
    /// The kinds of things that were left out so far, and the number of each. A damaged conversation is named, and so
    /// is a file without threads in a folder or an archive.
    public var leftOut: [String: Int] { form.leftOut.counts }
    /// Whether something was left out because it cannot be read, and not because threads have no place for it.
    public var hasDamage: Bool { form.leftOut.hasDamage }

    /// Opens a file, which may be a zip archive of files, or compressed with zstd, or opens a folder with such files.
    /// This call blocks as long as the disk does.
    ///
    /// - Parameters:
    ///   - path: The file or folder.
    ///   - skips: Returns whether a file of the folder is not opened, for example a file of the store. By default, all
    ///     are opened.
    /// - Throws: ``ChappieThreadImportError``, which names the file, and the table if one is damaged.
    public init(
        path: String, skipping skips: @escaping (String) -> Bool = { _ in false }
    ) throws(ChappieThreadImportError) {
        self.path = path
        do throws(ThreadFault) {
            var isFolder = false
            if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder {
                form = SeveralFiles(inFolder: path, skipping: skips)
            } else {
                form = try Self.form(ofFile: path)
            }
        } catch {
            throw ChappieThreadImportError(error, path: path)
        }
    }

    /// Begins to read an export or a session. (``init(path:skipping:)`` also reads a database, which has to stay in its
    /// file.)
    ///
    /// - Throws: ``ChappieThreadImportError``.
    public init(_ bytes: [UInt8]) throws(ChappieThreadImportError) {
        path = nil
        do throws(ThreadFault) {
            form = try Self.form(of: try ImportLines(bytes), fileName: nil, fileDate: Date(timeIntervalSince1970: 0))
        } catch {
            throw ChappieThreadImportError(error, path: nil)
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
            throw ChappieThreadImportError(error, path: path)
        }
    }

    // MARK: Forms

    /// Returns the form of a file.
    ///
    /// - Parameter assets: the files that a conversation of ChatGPT's export names.
    static func form(
        ofFile path: String, _ assets: ChatGPTAssets = ChatGPTAssets()
    ) throws(ThreadFault) -> any ThreadForm {
        let file = try ThreadFault.reading { () throws(WholeFile.Failure) in
            try FilePieces(path, limit: ChappieThreadImport.byteLimit)
        }
        let start = try ThreadFault.reading { () throws(WholeFile.Failure) in try file.start(16) }
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        let date = attributes?[.modificationDate] as? Date ?? Date(timeIntervalSince1970: 0)
        if start == Array("SQLite format 3\0".utf8) { return try LLMLog(path, fileDate: date) }
        if start.starts(with: Array("PK\u{3}\u{4}".utf8)) {
            return SeveralFiles(inArchive: file, at: path, fileDate: date)
        }
        let lines: ImportLines
        if start.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
            lines = try decompressed(file)
        } else {
            lines = try ImportLines { () throws(ThreadFault) in
                try ThreadFault.reading { () throws(WholeFile.Failure) in try file.next() }
            }
        }
        let name = path.split(separator: "/").last.map { String($0) }
        return try form(of: lines, fileName: name, fileDate: date, assets)
    }

    private static func decompressed(_ file: FilePieces) throws(ThreadFault) -> ImportLines {
        #if canImport(CZstd)
            let contents = ZstdFile(file)
            return try ImportLines { () throws(ThreadFault) in
                try ThreadFault.reading { () throws(WholeFile.Failure) in try contents.nextPiece() }
            }
        #else
            throw ThreadFault("it is compressed. Decompress it first with zstd -d", .unknownForm)
        #endif
    }

    static func form(
        of lines: ImportLines, fileName: String?, fileDate: Date, _ assets: ChatGPTAssets = ChatGPTAssets()
    ) throws(ThreadFault) -> any ThreadForm {
        var lines = lines
        switch lines.firstCharacter() {
        case "[": return ChatGPTExport(lines, fileDate: fileDate, assets)
        case "{": break
        // The first line of a session may be cut at its start.
        default: guard fileName?.contains(".jsonl") == true else { throw .unknown }
        }
        guard let first = lines.first() else {
            // A document may have its line feeds anywhere.
            guard let json = try? ChappieJSON(parsing: try lines.rest()) else { throw .unknown }
            return try document(json, fileName: fileName, fileDate: fileDate, assets)
        }
        if ChappieExport.canBegin(with: first) { return ChappieExport(first, lines, fileName: fileName) }
        if CodexSession.canBegin(with: first) {
            return CodexSession(first, lines, fileName: fileName, fileDate: fileDate)
        }
        guard lines.damagedCount == 0, lines.next() == nil, !lines.isTorn else { throw .unknown }
        return try document(first, fileName: fileName, fileDate: fileDate, assets)
    }

    /// Returns the form of a file that is one JSON object.
    private static func document(
        _ json: ChappieJSON, fileName: String?, fileDate: Date, _ assets: ChatGPTAssets
    ) throws(ThreadFault) -> any ThreadForm {
        if ChappieExport.canBegin(with: json) { return ChappieExport(json, try ImportLines(), fileName: fileName) }
        if let export = try ChatGPTExport(document: json, fileDate: fileDate, assets) { return export }
        // The first versions of the Codex CLI wrote a session as one document.
        guard let session = json["session"], let items = json["items"]?.array, CodexSession.canBegin(with: session)
        else { throw .unknown }
        let lines = items.map { $0.serialized() + "\n" }.joined()
        return CodexSession(session, try ImportLines(Array(lines.utf8)), fileName: fileName, fileDate: fileDate)
    }
}

extension ChappieThreadImport {
    /// Reads all threads of a file or a folder. See ``ChappieThreadReader`` for large files.
    public init(path: String) throws(ChappieThreadImportError) {
        try self.init(reading: try ChappieThreadReader(path: path))
    }

    /// Reads all threads of an export or a session.
    public init(_ bytes: [UInt8]) throws(ChappieThreadImportError) {
        try self.init(reading: try ChappieThreadReader(bytes))
    }

    private init(reading reader: ChappieThreadReader) throws(ChappieThreadImportError) {
        var reader = reader
        var threads: [ChappieThread] = []
        while let thread = try reader.next() { threads.append(thread) }
        self.init(source: reader.source, threads: threads, leftOut: reader.leftOut)
    }
}
