@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime

/// The threads of files that this program exported. A file may have several threads, in one line each, or with a line
/// for each record.
struct ChappieExport: ThreadForm {
    let source = ChappieThreadImport.Source.chappie
    private(set) var leftOut = LeftOut()
    private var lines: ImportLines
    /// The line with which the next thread begins.
    private var head: ChappieJSON?
    private var records: [ChappieJSON] = []
    private var count = 0
    private var fault: ThreadFault?

    /// Begins to read.
    ///
    /// - Parameters:
    ///   - first: The first line. If it is a record, the line before it was damaged, and the file's name is the id.
    ///   - fileName: The name of the file, or `nil` if it is unknown.
    init(_ first: ChappieJSON, _ lines: ImportLines, fileName: String?) {
        self.lines = lines
        if Self.isHead(first) {
            head = first
        } else {
            let name = fileName?.split(separator: ".").first.map { String($0) }
            let id = ImportedThread(id: name, facts: first.serialized()).id
            head = ["format": "chappie.thread", "version": 1, "id": .string(id)]
            records = [first]
        }
    }

    /// Returns whether the line begins a thread, or is a record.
    static func canBegin(with line: ChappieJSON) -> Bool {
        isHead(line) || line["position"] != nil && line["kind"] != nil && line["body"] != nil
    }

    private static func isHead(_ line: ChappieJSON) -> Bool { line["format"]?.string == "chappie.thread" }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        while var document = head?.object {
            head = nil
            if document["records"] == nil {
                while let line = lines.next() {
                    if Self.isHead(line) {
                        head = line
                        break
                    }
                    records.append(line)
                }
                document["records"] = .array(records)
                records = []
            } else {
                head = lines.next()
            }
            do throws(ThreadFault) {
                let thread = try thread(.object(document))
                count += 1
                return thread
            } catch {
                fault = error
                let kind = error.code == .tooNew ? "thread" : "damaged thread"
                leftOut.add(damage: "\(kind) \(document["id"]?.string ?? ""), because \(error.reason)")
            }
        }
        leftOut.add(damage: "unreadable line", lines.damagedCount + (lines.isTorn ? 1 : 0))
        if let failure = lines.failure { leftOut.add(damage: "rest of the file, because \(failure.reason)") }
        lines = try ImportLines()
        // A file with only one thread is refused with the reason.
        if count == 0, let fault { throw fault }
        return nil
    }

    private mutating func thread(_ json: ChappieJSON) throws(ThreadFault) -> ChappieThread {
        let thread: ChappieThread
        do {
            thread = try ChappieThread(json: json)
        } catch {
            guard case .damaged = error, let rest = readableRecords(of: json) else { throw ThreadFault(error) }
            thread = rest
        }
        guard ChappieThread.canHaveID(thread.id) else { throw .name }
        guard !thread.records.isEmpty else { throw .empty }
        return try ImportedThread.checked(thread)
    }

    /// Returns a thread of the records that can be read, or `nil` if there are none.
    private mutating func readableRecords(of json: ChappieJSON) -> ChappieThread? {
        let list = json["records"]?.array ?? []
        var document = json.object ?? [:]
        let records = list.compactMap { record -> ChappieThreadRecord? in
            guard var members = record.object, let position = members["position"]?.int else { return nil }
            members["position"] = 0
            document["records"] = [.object(members)]
            guard let found = (try? ChappieThread(json: .object(document)))?.records.first else { return nil }
            return ChappieThreadRecord(position: position, kind: found.kind, date: found.date, body: found.body)
        }
        guard !records.isEmpty, let id = json["id"]?.string else { return nil }
        leftOut.add(damage: "damaged record", list.count - records.count)
        return try? ChappieThread(id: id, records: records.renumbered)
    }
}
