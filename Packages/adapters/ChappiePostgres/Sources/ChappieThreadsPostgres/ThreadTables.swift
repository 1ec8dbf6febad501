public import ChappiePostgres

extension ChappiePostgresPart {
    /// The tables of threads.
    public static let threads = ChappiePostgresPart(
        "threads", format: "format", tables: ["threads", "records", "words"]
    ) { prefix in
        // The second version finds the threads that nobody has changed for a long time.
        [first(in: prefix), ["CREATE INDEX threads_updated_ms ON \(prefix)threads (updated_ms)"]]
    }

    /// The statements that create the tables of version 1.
    ///
    /// - `threads` has a row for each thread, which is locked while records are added to it.
    /// - `records` contains the bodies byte for byte. `append` identifies the call that wrote them.
    /// - `words` is the index for searches. Its policy contains the query. For a condition in the query itself, other
    ///   than a comparison, the server would use an index only after it has checked the policy for each row.
    private static func first(in prefix: String) -> [String] {
        let key = "tenant text COLLATE \"C\" NOT NULL, thread text COLLATE \"C\" NOT NULL, position bigint NOT NULL"
        let isOwn = "tenant = current_setting('chappie.tenant', true)"
        let texts = [
            """
            CREATE TABLE \(prefix)threads (
                tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''), id text COLLATE "C" NOT NULL,
                record_count bigint NOT NULL, bytes bigint NOT NULL, model text COLLATE "C" NOT NULL,
                is_archived boolean NOT NULL, updated_ms bigint NOT NULL, summary bytea NOT NULL,
                PRIMARY KEY (tenant, id))
            """,
            """
            CREATE TABLE \(prefix)records (
                \(key), kind text COLLATE "C" NOT NULL, date_ms bigint NOT NULL, append uuid NOT NULL,
                body bytea NOT NULL, PRIMARY KEY (tenant, thread, position),
                FOREIGN KEY (tenant, thread) REFERENCES \(prefix)threads ON DELETE CASCADE)
            """,
            """
            CREATE TABLE \(prefix)words (
                \(key), date_ms bigint NOT NULL, words tsvector NOT NULL, PRIMARY KEY (tenant, thread, position),
                FOREIGN KEY (tenant, thread) REFERENCES \(prefix)threads ON DELETE CASCADE)
            """,
            "CREATE INDEX words_words ON \(prefix)words USING gin (words)",
            "CREATE POLICY own ON \(prefix)threads USING (\(isOwn))",
            "CREATE POLICY own ON \(prefix)records USING (\(isOwn))",
            "CREATE POLICY written ON \(prefix)words FOR INSERT WITH CHECK (\(isOwn))",
            "CREATE POLICY removed ON \(prefix)words FOR DELETE USING (\(isOwn))",
            """
            CREATE POLICY found ON \(prefix)words FOR SELECT
                USING (\(isOwn) AND words @@ current_setting('chappie.query', true)::tsquery)
            """,
        ]
        let security = ["threads", "records", "words"].map { table in
            "ALTER TABLE \(prefix)\(table) ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        }
        return texts + security
    }
}
