import CSQLite
import ChappieRuntime

typealias StoreError = ChappieThreadStoreError

/// A connection to an SQLite database, for one thread at a time. Statements are prepared once and kept.
final class Database {
    /// How long a statement waits for another process.
    static let patience = Duration.seconds(5)

    private let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]

    /// Opens the file at `path`; with an `example`, it is made where it is missing, with the mode of that file.
    init(_ path: String, modeOf example: String? = nil) throws(StoreError) {
        var handle: OpaquePointer?
        var flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        var address = "file:" + Self.escaped(path)
        if let example {
            flags |= SQLITE_OPEN_CREATE
            // SQLite gives its other two files the mode of the first.
            address += "?modeof=" + Self.escaped(example)
        }
        let code = sqlite3_open_v2(address, &handle, flags, nil)
        guard code == SQLITE_OK, let handle else {
            sqlite3_close_v2(handle)
            throw Self.error(code, String(cString: sqlite3_errstr(code)))
        }
        self.handle = handle
        sqlite3_busy_timeout(handle, CInt(Self.patience / .milliseconds(1)))
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    /// As a URI's path has it (RFC 3986, section 2.1).
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

    // MARK: Statements

    /// What is put in a statement's `?`.
    enum Value {
        case integer(Int)
        case text(String)
        case bytes([UInt8])
    }

    /// A row that a statement stands at.
    struct Row {
        fileprivate let statement: OpaquePointer

        func integer(_ column: CInt) -> Int { Int(sqlite3_column_int64(statement, column)) }

        func text(_ column: CInt) -> String { String(decoding: bytes(column), as: UTF8.self) }

        func bytes(_ column: CInt) -> [UInt8] {
            guard let start = sqlite3_column_blob(statement, column) else { return [] }
            return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column))))
        }
    }

    /// Runs a statement to its end, or until `body` says that it has seen enough rows.
    func each(
        _ sql: String, _ values: [Value] = [], _ body: (Row) throws(StoreError) -> Bool
    ) throws(StoreError) {
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
            guard try body(Row(statement: statement)) else { return }
        }
    }

    /// Runs a statement to its end; its rows, if it has any, are passed over.
    func run(_ sql: String, _ values: Value...) throws(StoreError) { try each(sql, values) { _ in true } }

    /// What `read` makes of each row.
    func rows<Output>(
        _ sql: String, _ values: Value..., read: (Row) throws(StoreError) -> Output
    ) throws(StoreError) -> [Output] {
        var rows: [Output] = []
        try each(sql, values) { row throws(StoreError) in
            rows.append(try read(row))
            return true
        }
        return rows
    }

    /// The number in the first column of the first row; 0 without a row.
    func integer(_ sql: String, _ values: Value...) throws(StoreError) -> Int {
        var found = 0
        try each(sql, values) { row in
            found = row.integer(0)
            return false
        }
        return found
    }

    private func prepared(_ sql: String) throws(StoreError) -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v3(handle, sql, -1, CUnsignedInt(SQLITE_PREPARE_PERSISTENT), &statement, nil))
        guard let statement else { preconditionFailure("A statement without words.") }
        statements[sql] = statement
        return statement
    }

    private func bind(_ value: Value, to index: CInt, of statement: OpaquePointer) -> CInt {
        // SQLITE_TRANSIENT: SQLite takes a copy.
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

    /// All of `body`'s changes, for good, or none. No other process writes meanwhile.
    func transaction<Output>(_ body: () throws(StoreError) -> Output) throws(StoreError) -> Output {
        try enclosed(by: "BEGIN IMMEDIATE", body)
    }

    /// `body` sees one state of the database.
    func snapshot<Output>(_ body: () throws(StoreError) -> Output) throws(StoreError) -> Output {
        try enclosed(by: "BEGIN", body)
    }

    private func enclosed<Output>(
        by begin: String, _ body: () throws(StoreError) -> Output
    ) throws(StoreError) -> Output {
        try run(begin)
        do throws(StoreError) {
            let output = try body()
            try run("COMMIT")
            return output
        } catch {
            // SQLite may have done so by itself; then this is an error that says nothing new.
            try? run("ROLLBACK")
            throw error
        }
    }

    // MARK: Errors

    private func check(_ code: CInt) throws(StoreError) {
        guard code == SQLITE_OK else { throw error(code) }
    }

    private func error(_ code: CInt) -> StoreError { Self.error(code, String(cString: sqlite3_errmsg(handle))) }

    private static func error(_ code: CInt, _ words: String) -> StoreError {
        switch code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED: .busy(patience)
        // Our own statements and values are right; where SQLite doubts it, the file has another form than it should.
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_SCHEMA,
            SQLITE_FORMAT, SQLITE_RANGE:
            .damaged(thread: nil, "SQLite says: \(words)")
        default: .unavailable("SQLite says: \(words)")
        }
    }
}
