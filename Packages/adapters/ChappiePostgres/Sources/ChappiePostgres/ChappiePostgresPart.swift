/// The tables of one kind of store. Their version is independent of other parts.
///
/// `ChappieThreadsPostgres` has the part `threads`, and `ChappieCredentialsPostgres` the part `credentials`.
public struct ChappiePostgresPart: Sendable, Hashable {
    /// The part's name, such as `threads`.
    public let name: String
    /// The newest version that this program knows.
    public let version: Int
    /// The table with the version.
    let format: String
    /// The tables whose rows a store reads and changes.
    private let tables: [String]
    /// The statements that lead from each version to the next, for the prefix of a schema. A published list never
    /// changes. New lists are added.
    private let migrations: @Sendable (_ prefix: String) -> [[String]]

    package init(
        _ name: String, format: String, tables: [String],
        migrations: @escaping @Sendable (_ prefix: String) -> [[String]]
    ) {
        self.name = name
        self.format = format
        self.tables = tables
        self.migrations = migrations
        version = migrations("").count
    }

    public static func == (one: Self, other: Self) -> Bool { one.name == other.name }

    public func hash(into hasher: inout Hasher) { hasher.combine(name) }

    // MARK: Statements

    /// Returns a schema's quoted name with its dot, such as `"chappie".`
    static func prefix(of schema: String) -> String { quoted(schema) + "." }

    private static func quoted(_ name: String) -> String { "\"\(name.replacing("\"", with: "\"\""))\"" }

    private static func literal(_ text: String) -> String { "'\(text.replacing("'", with: "''"))'" }

    /// Returns the statement that returns whether the table with the version exists.
    func presence(in schema: String) -> PostgresStatement {
        PostgresStatement("SELECT to_regclass($1) IS NOT NULL", [.text(Self.prefix(of: schema) + format)])
    }

    /// Returns the statement that returns the version of the tables.
    func storedVersion(in schema: String) -> PostgresStatement {
        PostgresStatement("SELECT max(version) FROM \(Self.prefix(of: schema))\(format)")
    }

    /// Returns the statements of a transaction that creates the tables, or changes them to this version, and lets roles
    /// use them. It has no effect on tables of this version or a newer one.
    ///
    /// The first statement waits for other processes that do the same. The lock of the table with the version waits for
    /// transactions that use the tables.
    func migration(in schema: String, granting roles: [String]) -> [String] {
        let prefix = Self.prefix(of: schema)
        let steps = migrations(prefix).enumerated().map { version, statements in
            "    IF version_found <= \(version) THEN\n" + statements.map { "\($0);\n" }.joined() + "    END IF;\n"
        }
        let change = """
            DO $chappie$
            DECLARE version_found bigint;
            BEGIN
                IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = \(Self.literal(schema))) THEN
                    CREATE SCHEMA \(prefix.dropLast());
                END IF;
                IF to_regclass(\(Self.literal(prefix + format))) IS NULL THEN
                    CREATE TABLE \(prefix)\(format) (version bigint NOT NULL);
                    INSERT INTO \(prefix)\(format) VALUES (0);
                END IF;
                SELECT version INTO version_found FROM \(prefix)\(format);
                IF version_found >= \(version) THEN RETURN; END IF;
                LOCK TABLE \(prefix)\(format) IN ACCESS EXCLUSIVE MODE;
            \(steps.joined())    UPDATE \(prefix)\(format) SET version = \(version);
            END
            $chappie$
            """
        let all = tables.map { prefix + $0 }.joined(separator: ", ")
        let grants = roles.map(Self.quoted).flatMap { role in
            [
                "GRANT USAGE ON SCHEMA \(prefix.dropLast()) TO \(role)",
                "GRANT SELECT ON \(prefix)\(format) TO \(role)",
                "GRANT SELECT, INSERT, UPDATE, DELETE ON \(all) TO \(role)",
            ]
        }
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended(\(Self.literal("chappie tables " + schema)), 0))"
        return [lock, change] + grants
    }
}
