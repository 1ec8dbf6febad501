import ChappieSQLite

/// A database of `llm`. It may come from an attacker.
struct LLMDatabase {
    private let database: SQLiteDatabase<SQLiteFailure>

    init(_ path: String) throws(ThreadFault) {
        do throws(SQLiteFailure) {
            database = try SQLiteDatabase(reading: path) { $0 }
        } catch {
            throw .table("sqlite_schema", error.words)
        }
    }

    /// Returns whether the database has this table, with stored rows and without computed columns.
    func has(_ table: String) throws(ThreadFault) -> Bool {
        let tables = try rows(
            """
            SELECT name FROM sqlite_schema AS found
            WHERE type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE%'
            AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(found.name) WHERE hidden > 1)
            """, of: "sqlite_schema")
        return tables.contains { $0["name"] == table }
    }

    /// Returns the rows of a query, with each value as text. NULL values are left out.
    func rows(_ query: String, of table: String) throws(ThreadFault) -> [[String: String]] {
        do throws(SQLiteFailure) {
            return try database.rows(query) { $0.texts }
        } catch {
            throw .table(table, error.words)
        }
    }

    /// Returns the content of an attachment, or `nil` if it is in another place or larger than `limit` bytes.
    func attachment(_ id: String, limit: Int) -> [UInt8]? {
        let query = "SELECT content FROM attachments WHERE id = ? AND length(content) BETWEEN 1 AND ?"
        return try? database.rows(query, .text(id), .integer(limit)) { $0.bytes(0) }.first
    }
}
