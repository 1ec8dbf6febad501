import CSQLite
import ChappieRuntime
@_spi(ChappieInternals) import ChappieSQLite

typealias StoreError = ChappieThreadStoreError
typealias Database = SQLiteDatabase<StoreError>

extension SQLiteDatabase<StoreError> {
    /// How long a statement waits for another process.
    static var patience: Duration { .seconds(5) }

    /// Opens the file at `path`; with an `example`, it is made if it is missing, with the mode of that file.
    convenience init(_ path: String, modeOf example: String? = nil) throws(StoreError) {
        try self.init(path, modeOf: example, patience: Self.patience, failure: Self.error)
    }

    /// Opens a file that may come from an attacker, to read it only.
    convenience init(reading path: String) throws(StoreError) { try self.init(reading: path, failure: Self.error) }

    /// The text in the first column of the first row; empty without a row.
    func text(_ sql: String) throws(StoreError) -> String { try rows(sql, read: { $0.text(0) }).first ?? "" }

    private static func error(_ failure: SQLiteFailure) -> StoreError {
        switch failure.code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED: .busy(patience)
        // Our own statements and values are right; if SQLite doubts it, the file has another form than it should.
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_SCHEMA,
            SQLITE_FORMAT, SQLITE_RANGE:
            .damaged(thread: nil, "SQLite says: \(failure.words)")
        default: .unavailable("SQLite says: \(failure.words)")
        }
    }
}
