@_spi(ChappieInternals) import ChappieRuntime
import ChappieSQLite
import SystemPackage

/// The rows of a damaged database, which are copied into a new one without SQLite's help.
struct DamagedDatabase {
    let facts: ThreadDatabase.Facts
    private let folder: ThreadFolder
    private let pages: DatabasePages
    private let key: Int

    /// Examines the database in `folder`. Returns `nil` if nothing of it can be read.
    init?(in folder: ThreadFolder) throws(StoreError) {
        self.folder = folder
        do {
            pages = try DatabasePages(folder.database)
        } catch .noSuchFileOrDirectory {
            return nil
        } catch {
            throw .system("\(folder.database) can't be opened", error)
        }
        var store: (id: String, key: Int)?
        var keys: [Int: Int] = [:]
        pages.eachRow { row in
            switch Kind(row) {
            case .store(let id, let key): store = (id, key)
            case .thread(let entry): keys[entry.key, default: 0] += 1
            default: break
            }
        }
        // If the row of the store is lost, the folder has the id, and most threads have the key.
        let id = store?.id ?? folder.knownDatabase()
        guard let id, let key = store?.key ?? keys.max(by: { $0.value < $1.value })?.key else { return nil }
        self.key = key
        facts = ThreadDatabase.Facts(id: id, isSealed: key != ThreadProtection.plainKey)
    }

    /// The meaning of a row, which follows from the types of its values.
    private enum Kind {
        case record(id: Int, kind: String, date: Int, key: Int, body: [UInt8])
        case thread(ThreadDatabase.Entry)
        case words(record: Int, key: Int, body: [UInt8])
        case idOfThread(String, number: Int)
        case store(id: String, key: Int)
        case backup(version: Int, key: [UInt8])

        init?(_ row: DatabasePages.Row) {
            let values = row.values
            switch (row.number, values.count) {
            case (let number?, 5):
                guard case .null = values[0], case .text(let text) = values[1], case .integer(let count) = values[2],
                    case .integer(let key) = values[3], case .bytes(let bytes) = values[4], number > 0
                else { return nil }
                self =
                    number >> 32 > 0
                    ? .record(id: number, kind: text, date: count, key: key, body: bytes)
                    : .thread(ThreadDatabase.Entry(number: number, id: text, count: count, key: key, summary: bytes))
            case (let number?, 3):
                guard case .null = values[0], case .integer(let key) = values[1], case .bytes(let bytes) = values[2]
                else { return nil }
                self = .words(record: number, key: key, body: bytes)
            case (let number, 2):
                switch (values[0], values[1]) {
                case (.text(let id), .integer(let other)):
                    self = number == nil ? .idOfThread(id, number: other) : .store(id: id, key: other)
                case (.integer(let version), .bytes(let bytes)) where number != nil:
                    self = .backup(version: version, key: bytes)
                default: return nil
                }
            default: return nil
            }
        }
    }

    /// The key of a backup, and the version of its form.
    func keyOfBackup() -> (version: Int, key: [UInt8])? {
        var found: (version: Int, key: [UInt8])?
        pages.eachRow { row in
            if case .backup(let version, let key) = Kind(row) { found = (version, key) }
        }
        return found
    }

    /// Copies everything that can be read into an empty database.
    ///
    /// - Parameters:
    ///   - fileSystem: The kind of file system of the new database.
    ///   - isRepair: Whether a thread with a loss is kept without it. Otherwise only threads that have lost their entry
    ///     are written again, and reading another thread reports its loss.
    ///   - damage: The damage because of which the copy is made, if it is reported.
    func copy(
        into database: Database, on fileSystem: ThreadFileSystem, isRepair: Bool, damage: StoreError? = nil,
        _ protection: ThreadProtection
    ) throws(StoreError) -> ThreadDatabase {
        try ThreadDatabase.makeTables(facts, key: key, in: database, on: fileSystem)
        let copy = ThreadDatabase(copy: database, of: facts, in: folder, damage: damage)
        var entries: [ThreadDatabase.Entry] = []
        var ids: [Int: [String]] = [:]
        try database.transaction { () throws(StoreError) in
            try pages.eachRow { row throws(StoreError) in
                switch Kind(row) {
                case .record(let id, let kind, let date, let key, let body):
                    try database.run(
                        "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?)", .integer(id), .text(kind),
                        .integer(date), .integer(key), .bytes(body))
                case .words(let record, let key, let body):
                    try database.run(
                        "INSERT OR IGNORE INTO record_words VALUES (?, ?, ?)", .integer(record), .integer(key),
                        .bytes(body))
                case .thread(let entry):
                    entries.append(entry)
                    ids[entry.number, default: []].append(entry.id)
                case .idOfThread(let id, let number): ids[number, default: []].append(id)
                default: break
                }
            }
            for entry in entries {
                // The id in a row may be damaged, and the index may still have the right one.
                for id in ids[entry.number] ?? [] where try copy.summary(in: entry, as: id, protection) != nil {
                    try database.run(
                        "INSERT OR IGNORE INTO threads VALUES (?, ?, ?, ?, ?)", .integer(entry.number), .text(id),
                        .integer(entry.count), .integer(entry.key), .bytes(entry.summary))
                    ids[entry.number] = nil
                }
            }
        }
        for (number, ids) in ids.sorted(by: { $0.key < $1.key }) { try copy.rebuild(number, ids, protection) }
        guard isRepair else { return copy }
        for entry in try copy.entries() {
            do throws(StoreError) {
                try copy.check(entry.id, protection)
            } catch {
                guard case .damaged = error else { throw error }
                try copy.rebuild(entry.number, [entry.id], protection)
            }
        }
        return copy
    }
}
