import ChappieCore
import ChappiePostgres
@_spi(ChappieInternals) import ChappieRuntime

/// The statements, each of which applies only to the tenant's own rows.
extension PostgresSchema {
    // MARK: Reading

    var summaries: PostgresStatement {
        PostgresStatement("SELECT id, summary FROM \(prefix)threads WHERE tenant = $1", [.text(tenant)])
    }

    func summary(of thread: String) -> PostgresStatement {
        PostgresStatement(
            "SELECT summary FROM \(prefix)threads WHERE tenant = $1 AND id = $2", [.text(tenant), .text(thread)])
    }

    func count(of thread: String) -> PostgresStatement {
        PostgresStatement(
            "SELECT record_count FROM \(prefix)threads WHERE tenant = $1 AND id = $2", [.text(tenant), .text(thread)])
    }

    func records(of thread: String, from first: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT position, kind, date_ms, body FROM \(prefix)records
            WHERE tenant = $1 AND thread = $2 AND position >= $3 ORDER BY position
            """, [.text(tenant), .text(thread), .integer(first)])
    }

    /// Returns the statements of a search.
    ///
    /// - Returns: Two statements, of which the second returns the hits, or `nil` if there can't be a hit.
    func search(
        _ words: ChappieThreadWords, for query: ChappieThreadQuery
    ) throws(ChappieThreadStoreError) -> [PostgresStatement]? {
        guard let last = words.words.last, query.limit > 0 else { return nil }
        // The server compares each word of a query with each other one, and its stack is limited.
        guard words.words.count <= 1000 else { throw .unavailable("a search can have at most 1,000 words") }
        // Words consist of letters and digits, and can't contain a quote.
        let phrases = words.phrases.map { phrase in "(" + phrase.map { "'\($0)'" }.joined(separator: " <-> ") + ")" }
        let end = words.endsWithBeginning ? "'\(last)':*" : "'\(last)'"
        let sought = (words.words.dropLast().map { "'\($0)'" } + [end] + phrases).joined(separator: " & ")
        var since = Int.min
        if let date = query.since {
            since = try milliseconds(of: date)
            // Rounding must not include an earlier time.
            if Date(timeIntervalSince1970: Double(since) / 1000) < date { since += 1 }
        }
        return [
            PostgresStatement("SELECT set_config('chappie.query', $1, true)", [.text(sought)]),
            PostgresStatement(
                """
                SELECT hit.id, hit.summary, hit.position, record.kind, record.date_ms, record.body FROM (
                    SELECT thread.id, thread.summary, thread.updated_ms, best.position, best.rank FROM (
                        SELECT DISTINCT ON (thread) thread, position, ts_rank(words, $2::tsquery, 1) AS rank
                        FROM \(prefix)words WHERE tenant = $1 AND words @@ $2::tsquery AND date_ms >= $3
                        ORDER BY thread, rank DESC, position DESC) best
                    JOIN \(prefix)threads thread ON thread.tenant = $1 AND thread.id = best.thread
                    WHERE ($4 IS NULL OR thread.model = $4) AND ($5 OR NOT thread.is_archived)
                    ORDER BY best.rank DESC, thread.updated_ms DESC LIMIT $6) hit
                JOIN \(prefix)records record
                    ON record.tenant = $1 AND record.thread = hit.id AND record.position = hit.position
                ORDER BY hit.rank DESC, hit.updated_ms DESC
                """,
                [
                    .text(tenant), .text(sought), .integer(since), .text(query.model),
                    .bool(query.includesArchived), .integer(query.limit),
                ]),
        ]
    }

    /// The statement that returns the numbers of threads, records and bytes.
    var usage: PostgresStatement {
        PostgresStatement(
            """
            SELECT count(*), coalesce(sum(record_count), 0)::bigint, coalesce(sum(bytes), 0)::bigint
            FROM \(prefix)threads WHERE tenant = $1
            """, [.text(tenant)])
    }

    // MARK: Writing

    /// Returns the statement that creates the row of a thread, unless it exists.
    func row(for thread: String) -> PostgresStatement {
        PostgresStatement(
            """
            INSERT INTO \(prefix)threads (tenant, id, record_count, bytes, model, is_archived, updated_ms, summary)
            VALUES ($1, $2, 0, 0, '', false, 0, '') ON CONFLICT DO NOTHING
            """, [.text(tenant), .text(thread)])
    }

    /// Returns the statement that locks the row of a thread, and returns the number of the thread's records and of
    /// their bytes.
    func lock(_ thread: String) -> PostgresStatement {
        PostgresStatement(
            "SELECT record_count, bytes FROM \(prefix)threads WHERE tenant = $1 AND id = $2 FOR UPDATE",
            [.text(tenant), .text(thread)])
    }

    /// Returns the statement that finds a row if this call of append wrote the record at `position`.
    func record(of thread: String, at position: Int, by append: UUID) -> PostgresStatement {
        PostgresStatement(
            "SELECT 1::bigint FROM \(prefix)records WHERE tenant = $1 AND thread = $2 AND position = $3 AND append = $4",
            [.text(tenant), .text(thread), .integer(position), .uuid(append)])
    }

    /// Returns the statements that add records, and the number of bytes in their bodies.
    func writes(
        of records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int, _ key: UUID
    ) throws(ChappieThreadStoreError) -> ([PostgresStatement], Int) {
        var statements: [PostgresStatement] = []
        var bytes = 0
        for (offset, record) in records.enumerated() {
            let body = try record.storedBody()
            bytes += body.count
            let place: [PostgresStatement.Value] = [.text(tenant), .text(thread.id), .integer(position + offset)]
            let date = PostgresStatement.Value.integer(try milliseconds(of: record.date))
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO \(prefix)records (tenant, thread, position, kind, date_ms, append, body)
                    VALUES ($1, $2, $3, $4, $5, $6, $7)
                    """, place + [.text(record.kind.rawValue), date, .uuid(key), .bytes(body)]))
            let takenBack = record.positionsTakenBack
            if !takenBack.isEmpty { statements += removal(ofWordsAt: takenBack, in: thread.id) }
            guard let text = record.searchableText, let vector = vector(of: text) else { continue }
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO \(prefix)words (tenant, thread, position, date_ms, words)
                    VALUES ($1, $2, $3, $4, $5::tsvector)
                    """, place + [date, .text(vector)]))
        }
        guard let summary = try? JSONEncoder().encode(thread) else {
            throw .unavailable("the summary of the thread \(thread.id) can't be written")
        }
        statements.append(
            PostgresStatement(
                """
                UPDATE \(prefix)threads SET record_count = $3, bytes = bytes + $4, model = $5, is_archived = $6,
                    updated_ms = $7, summary = $8 WHERE tenant = $1 AND id = $2
                """,
                [
                    .text(tenant), .text(thread.id), .integer(position + records.count), .integer(bytes),
                    .text(thread.model), .bool(thread.isArchived),
                    .integer(try milliseconds(of: thread.updatedAt)), .bytes(Array(summary)),
                ]))
        return (statements, bytes)
    }

    /// Returns the statements that remove records from the search index. The policy of the index shows only rows that
    /// match the query. A query for the absence of a word that is in no text matches every row.
    private func removal(ofWordsAt positions: [Int], in thread: String) -> [PostgresStatement] {
        [
            PostgresStatement("SELECT set_config('chappie.query', $1, true)", [.text("!'-'")]),
            PostgresStatement(
                """
                DELETE FROM \(prefix)words WHERE tenant = $1 AND thread = $2
                    AND position IN (\(positions.map(String.init).joined(separator: ", ")))
                """, [.text(tenant), .text(thread)]),
        ]
    }

    func deletion(of thread: String) -> PostgresStatement {
        PostgresStatement(
            "DELETE FROM \(prefix)threads WHERE tenant = $1 AND id = $2", [.text(tenant), .text(thread)])
    }
}

extension PostgresResult {
    // MARK: Rows

    /// Returns the summary in a column of a row.
    func summary(of thread: String, _ row: Int, _ column: Int) throws(PostgresFailure) -> ChappieThreadSummary {
        guard let summary = try? JSONDecoder().decode(ChappieThreadSummary.self, from: Data(bytes(row, column))),
            summary.id == thread
        else { throw .answer(ChappieThreadStoreError.damaged(thread: thread, "its summary can't be read")) }
        return summary
    }

    /// Returns the record in four columns of a row, the first of which is the position.
    func record(of thread: String, _ row: Int, _ column: Int) throws(PostgresFailure) -> ChappieThreadRecord {
        let position = integer(row, column)
        guard let body = try? ChappieJSON(parsing: bytes(row, column + 3)) else {
            throw .answer(ChappieThreadStoreError.damaged(thread: thread, "its record \(position) can't be read"))
        }
        return ChappieThreadRecord(
            position: position, kind: .init(rawValue: text(row, column + 1)),
            date: Date(timeIntervalSince1970: Double(integer(row, column + 2)) / 1000), body: body)
    }
}

private func milliseconds(of date: Date) throws(ChappieThreadStoreError) -> Int {
    guard let milliseconds = Int(exactly: (date.timeIntervalSince1970 * 1000).rounded()) else {
        throw .unavailable("a date is beyond what can be stored")
    }
    return milliseconds
}

/// Returns a text's words with their positions, in the form that the server reads, such as `'to':1,4 'be':2`.
/// Returns `nil` if there are no words.
///
/// A tsvector has less than 1 MiB (https://www.postgresql.org/docs/15/textsearch-limitations.html). Later words are
/// omitted.
private func vector(of text: String) -> String? {
    var seen: Set<String> = []
    var room = 1_000_000
    var vector = ""
    for (index, word) in ChappieThreadWords(text).words.enumerated() {
        let isNew = !seen.contains(word)
        // The largest position is 16,383.
        guard isNew || index < 16_383 else { continue }
        room -= isNew ? word.utf8.count + 6 : 2
        guard room > 0 else { break }
        seen.insert(word)
        vector += "'\(word)':\(min(index + 1, 16_383)) "
    }
    return vector.isEmpty ? nil : vector
}
