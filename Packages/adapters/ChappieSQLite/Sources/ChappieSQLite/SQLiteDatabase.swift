import CSQLite

/// SQLite's error for a call that failed.
public struct SQLiteFailure: Error, Sendable, Hashable {
    /// The result code, including its extension (https://www.sqlite.org/rescode.html).
    public let code: Int32
    /// SQLite's own message.
    public let words: String
}

/// A value for a statement's `?`.
public enum SQLiteValue {
    /// A number.
    case integer(Int)
    /// Text.
    case text(String)
    /// A blob.
    case bytes([UInt8])
}

/// The current row of a statement.
public struct SQLiteRow {
    fileprivate let statement: OpaquePointer

    /// Returns the number in a column, or 0 for NULL.
    public func integer(_ column: Int32) -> Int { Int(sqlite3_column_int64(statement, column)) }

    /// Returns the text in a column, or an empty string for NULL.
    public func text(_ column: Int32) -> String { found(column) ?? "" }

    /// Returns the bytes in a column, or an empty array for NULL.
    public func bytes(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(statement, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column))))
    }

    /// The text of each column by the column's name. A column with NULL is omitted.
    public var texts: [String: String] {
        var texts: [String: String] = [:]
        for column in 0..<sqlite3_column_count(statement) {
            guard let name = sqlite3_column_name(statement, column) else { continue }
            texts[String(cString: name)] = found(column)
        }
        return texts
    }

    private func found(_ column: Int32) -> String? {
        guard let start = sqlite3_column_text(statement, column) else { return nil }
        let count = Int(sqlite3_column_bytes(statement, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }
}

/// A connection to an SQLite database, for one thread at a time. Statements are prepared once and kept.
///
/// Its functions throw the error that its owner creates from SQLite's error. An error that the owner throws in a
/// transaction is passed on with its type.
public final class SQLiteDatabase<Failure: Error> {
    private let handle: OpaquePointer
    private let failure: (SQLiteFailure) -> Failure
    private var statements: [String: OpaquePointer] = [:]
    private let budget = StepBudget()

    private init(
        opening address: String, _ flags: Int32, failure: @escaping (SQLiteFailure) -> Failure
    ) throws(Failure) {
        var handle: OpaquePointer?
        let code = sqlite3_open_v2(address, &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard code == SQLITE_OK, let handle else {
            sqlite3_close_v2(handle)
            throw failure(SQLiteFailure(code: code, words: String(cString: sqlite3_errstr(code))))
        }
        self.handle = handle
        self.failure = failure
    }

    /// Opens the file at `path`. With an `example`, a missing file is created with the mode of that file. What a
    /// transaction writes survives a power failure, on Apple's systems as well.
    ///
    /// - Parameters:
    ///   - patience: The time that a statement waits for another process.
    ///   - failure: A closure that returns the owner's error for SQLite's error.
    public convenience init(
        _ path: String, modeOf example: String? = nil, patience: Duration,
        failure: @escaping (SQLiteFailure) -> Failure
    ) throws(Failure) {
        var flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI
        var address = "file:" + Self.escaped(path)
        if let example {
            flags |= SQLITE_OPEN_CREATE
            // SQLite gives its other two files the mode of the database file.
            address += "?modeof=" + Self.escaped(example)
        }
        try self.init(opening: address, flags, failure: failure)
        sqlite3_busy_timeout(handle, CInt(patience / .milliseconds(1)))
        // On Apple's systems fsync leaves the bytes in the cache of the drive. Elsewhere these have no effect.
        for setting in ["fullfsync", "checkpoint_fullfsync"] { try run("PRAGMA \(setting) = ON") }
    }

    /// Opens a file that no program changes, because its file system is read-only. SQLite takes no locks and ignores its
    /// log (https://www.sqlite.org/uri.html#uriimmutable).
    ///
    /// - Parameter failure: A closure that returns the owner's error for SQLite's error.
    public convenience init(
        unchanging path: String, failure: @escaping (SQLiteFailure) -> Failure
    ) throws(Failure) {
        let address = "file:\(Self.escaped(path))?immutable=1"
        try self.init(opening: address, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, failure: failure)
    }

    /// Opens a file only for reading. The file may come from an attacker. For this reason, nothing in its schema runs,
    /// no value may exceed 64 MiB, and its statements end after 500 million steps.
    ///
    /// - Parameter failure: A closure that returns the owner's error for SQLite's error.
    public convenience init(
        reading path: String, failure: @escaping (SQLiteFailure) -> Failure
    ) throws(Failure) {
        try self.init(opening: path, SQLITE_OPEN_READONLY, failure: failure)
        sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 64 << 20)
        // A damaged file may contain cycles.
        sqlite3_progress_handler(
            handle, StepBudget.unit,
            { context in
                guard let context else { return 1 }
                return Unmanaged<StepBudget>.fromOpaque(context).takeUnretainedValue().takes() ? 0 : 1
            }, Unmanaged.passUnretained(budget).toOpaque())
        for setting in ["trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"] {
            try run("PRAGMA \(setting)")
        }
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    /// Escapes a path for a URI (RFC 3986, section 2.1).
    private static func escaped(_ path: String) -> String {
        path.utf8.reduce(into: "") { escaped, byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"),
                UInt8(ascii: "_"):
                escaped.unicodeScalars.append(Unicode.Scalar(byte))
            default: escaped += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }
    }

    /// Whether the file was removed from its path, or replaced there.
    public var hasMoved: Bool {
        var moved: CInt = 0
        return sqlite3_file_control(handle, nil, SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0
    }

    /// Whether the database can't be written, for example because its header names a newer form.
    public var isReadOnly: Bool { sqlite3_db_readonly(handle, "main") == 1 }

    // MARK: Statements

    /// Runs a statement to its end, or until `body` returns `false` because it has seen enough rows.
    public func each(
        _ sql: String, _ values: [SQLiteValue] = [], _ body: (SQLiteRow) throws(Failure) -> Bool
    ) throws(Failure) {
        let statement = try prepared(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        for (index, value) in values.enumerated() { try check(bind(value, to: CInt(index + 1), of: statement)) }
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { throw error(code) }
            guard try body(SQLiteRow(statement: statement)) else { return }
        }
    }

    /// Runs a statement to its end. Its rows, if there are any, are ignored.
    public func run(_ sql: String, _ values: SQLiteValue...) throws(Failure) { try each(sql, values) { _ in true } }

    /// Returns the results of `read`, which is called with each row.
    public func rows<Output>(
        _ sql: String, _ values: SQLiteValue..., read: (SQLiteRow) throws(Failure) -> Output
    ) throws(Failure) -> [Output] {
        var rows: [Output] = []
        try each(sql, values) { row throws(Failure) in
            rows.append(try read(row))
            return true
        }
        return rows
    }

    /// Returns the number in the first column of the first row, or 0 if there is no row.
    public func integer(_ sql: String, _ values: SQLiteValue...) throws(Failure) -> Int {
        var found = 0
        try each(sql, values) { row in
            found = row.integer(0)
            return false
        }
        return found
    }

    private func prepared(_ sql: String) throws(Failure) -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v3(handle, sql, -1, CUnsignedInt(SQLITE_PREPARE_PERSISTENT), &statement, nil))
        guard let statement else { preconditionFailure("A statement without words.") }
        statements[sql] = statement
        return statement
    }

    private func bind(_ value: SQLiteValue, to index: CInt, of statement: OpaquePointer) -> CInt {
        // This is SQLITE_TRANSIENT, which makes SQLite copy the value.
        let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        switch value {
        case .integer(let number): return sqlite3_bind_int64(statement, index, sqlite3_int64(number))
        case .text(let text):
            var text = text
            return text.withUTF8 { text in
                text.withMemoryRebound(to: CChar.self) {
                    $0.isEmpty
                        ? sqlite3_bind_text(statement, index, "", 0, copied)
                        : sqlite3_bind_text64(
                            statement, index, $0.baseAddress, sqlite3_uint64($0.count), copied, UInt8(SQLITE_UTF8))
                }
            }
        case .bytes(let bytes):
            guard !bytes.isEmpty else { return sqlite3_bind_zeroblob(statement, index, 0) }
            return sqlite3_bind_blob64(statement, index, bytes, sqlite3_uint64(bytes.count), copied)
        }
    }

    // MARK: Transactions

    /// Runs `body` in a transaction that keeps all of its changes or none. No other process writes in the meantime.
    public func transaction<Output>(_ body: () throws(Failure) -> Output) throws(Failure) -> Output {
        try enclosed(by: "BEGIN IMMEDIATE", body)
    }

    /// Runs `body` in a transaction in which it sees one state of the database.
    public func snapshot<Output>(_ body: () throws(Failure) -> Output) throws(Failure) -> Output {
        try enclosed(by: "BEGIN", body)
    }

    private func enclosed<Output>(
        by begin: String, _ body: () throws(Failure) -> Output
    ) throws(Failure) -> Output {
        try run(begin)
        do throws(Failure) {
            let output = try body()
            try run("COMMIT")
            return output
        } catch {
            // SQLite may already have rolled back. In that case this fails, and the error is useless.
            try? run("ROLLBACK")
            throw error
        }
    }

    // MARK: Copies

    /// Copies this entire database, in its state at one moment, into the database of `target`
    /// (https://www.sqlite.org/backup.html). Other processes continue in the meantime.
    public func copy(into target: SQLiteDatabase) throws(Failure) {
        guard let backup = sqlite3_backup_init(target.handle, "main", handle, "main") else {
            throw target.error(sqlite3_errcode(target.handle))
        }
        let code = sqlite3_backup_step(backup, -1)
        let end = sqlite3_backup_finish(backup)
        guard code == SQLITE_DONE else { throw target.error(code) }
        guard end == SQLITE_OK else { throw target.error(end) }
    }

    // MARK: Errors

    private func check(_ code: CInt) throws(Failure) {
        guard code == SQLITE_OK else { throw error(code) }
    }

    private func error(_ code: CInt) -> Failure {
        failure(SQLiteFailure(code: code, words: String(cString: sqlite3_errmsg(handle))))
    }
}

/// The steps that the statements of a connection may still take.
private final class StepBudget {
    static let unit: CInt = 1_000_000
    private var rest = 500

    func takes() -> Bool {
        rest -= 1
        return rest >= 0
    }
}
