import CSQLite
import ChappieRuntime
import ChappieSQLite

typealias StoreError = ChappieThreadStoreError
typealias Database = SQLiteDatabase<StoreError>

extension SQLiteDatabase<StoreError> {
    /// The time that a statement waits for another process.
    static var patience: Duration { .seconds(5) }

    /// Opens the file at `path`. With an `example`, a missing file is created with the mode of that file.
    convenience init(_ path: String, modeOf example: String? = nil) throws(StoreError) {
        try self.init(path, modeOf: example, patience: Self.patience, failure: Self.error)
    }

    /// Opens a file that no program changes, because its file system is read-only.
    convenience init(unchanging path: String) throws(StoreError) {
        try self.init(unchanging: path, failure: Self.error)
    }

    /// Opens a file that may come from an attacker, for reading only.
    convenience init(reading path: String) throws(StoreError) { try self.init(reading: path, failure: Self.error) }

    /// Returns the text in the first column of the first row, or an empty string without a row.
    func text(_ sql: String) throws(StoreError) -> String { try rows(sql, read: { $0.text(0) }).first ?? "" }

    private static func error(_ failure: SQLiteFailure) -> StoreError {
        switch failure.code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED: .busy(patience)
        // Our own statements and values are correct. If SQLite rejects them, the file has a wrong form.
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_SCHEMA,
            SQLITE_FORMAT, SQLITE_RANGE:
            .damaged(thread: nil, "SQLite says: \(failure.words)")
        default: .unavailable("SQLite says: \(failure.words)")
        }
    }
}
