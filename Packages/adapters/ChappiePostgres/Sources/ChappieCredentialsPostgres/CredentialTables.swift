import ChappieAuth
import ChappieCore
public import ChappiePostgres

extension ChappiePostgresPart {
    /// The table of sign-ins.
    public static let credentials = ChappiePostgresPart(
        "credentials", format: "credentials_format", tables: ["credentials"]
    ) { [first(in: $0)] }

    /// The statements that create the table of version 1. All its times are the server's.
    ///
    /// - `generation` is one more after each change of the credential. It is the fence of a lease that has ended, and,
    ///   with `announced`, the mark by which other machines see a change.
    /// - `sealed` is the credential, encrypted with the key `key_id`. It is null if there is none. The row stays, so that
    ///   its generation does.
    /// - `note` is the encrypted note of a sign-out, and `note_key_id` its key.
    /// - `holder` has the lease until `held_until`.
    private static func first(in prefix: String) -> [String] {
        [
            """
            CREATE TABLE \(prefix)credentials (
                service text COLLATE "C" NOT NULL, account text COLLATE "C" NOT NULL,
                access_group text COLLATE "C" NOT NULL, issuer text COLLATE "C" NOT NULL,
                generation bigint NOT NULL DEFAULT 0, announced bigint NOT NULL DEFAULT 0,
                key_id bigint, sealed bytea, note_key_id bigint, note bytea, holder uuid, held_until timestamptz,
                changed timestamptz NOT NULL DEFAULT clock_timestamp(),
                PRIMARY KEY (service, account, access_group, issuer))
            """,
            "CREATE INDEX credentials_changed ON \(prefix)credentials (changed)",
            "CREATE INDEX credentials_key_id ON \(prefix)credentials (key_id)",
        ]
    }
}

/// The statements over a slot's row, whose names are the first four values.
extension PostgresSchema {
    private var names: String { "service, account, access_group, issuer" }
    private var isRow: String { "service = $1 AND account = $2 AND access_group = $3 AND issuer = $4" }

    private func statement(
        _ text: String, _ slot: CredentialSlot, _ values: [PostgresStatement.Value] = []
    ) -> PostgresStatement {
        // A missing name and an empty one are different slots.
        func stored(_ name: String?) -> String { name.map { $0.isEmpty ? "\u{1}" : $0 } ?? "" }
        return PostgresStatement(
            text,
            [
                .text(slot.service), .text(slot.account), .text(stored(slot.accessGroup)), .text(stored(slot.issuer)),
            ] + values)
    }

    // MARK: Credentials

    func credential(of slot: CredentialSlot) -> PostgresStatement {
        statement(
            "SELECT sealed, coalesce(key_id, 0), generation FROM \(prefix)credentials WHERE \(isRow) AND sealed IS NOT NULL",
            slot)
    }

    /// Stores a credential over the generation that the holder of the lease knows. The row keeps its lease for a moment,
    /// unless another process has it.
    func save(
        _ sealed: [UInt8], _ keyID: Int, in slot: CredentialSlot, over hold: RowLeases.Hold, keeping rest: Duration
    ) -> PostgresStatement {
        statement(
            """
            UPDATE \(prefix)credentials SET sealed = $5, key_id = $6, generation = generation + 1,
                changed = clock_timestamp(),
                held_until = CASE WHEN holder = $8 THEN \(moment("$9")) ELSE held_until END
            WHERE \(isRow) AND generation = $7 RETURNING generation, announced
            """, slot,
            [
                .bytes(sealed), .integer(keyID), .integer(hold.generation), .uuid(hold.holder),
                .integer(rest.milliseconds),
            ])
    }

    /// Stores a credential, whatever the row has.
    func save(_ sealed: [UInt8], _ keyID: Int, in slot: CredentialSlot) -> PostgresStatement {
        statement(
            """
            INSERT INTO \(prefix)credentials AS known (\(names), sealed, key_id, generation)
            VALUES ($1, $2, $3, $4, $5, $6, 1) ON CONFLICT (\(names)) DO UPDATE
            SET sealed = $5, key_id = $6, generation = known.generation + 1, changed = clock_timestamp()
            RETURNING generation, announced
            """, slot, [.bytes(sealed), .integer(keyID)])
    }

    /// Removes a credential, if the row still has the generation `known`. `nil` means any generation.
    func removal(of slot: CredentialSlot, over known: Int?) -> PostgresStatement {
        let isKnown = known == nil ? "sealed IS NOT NULL" : "generation = $5"
        return statement(
            """
            UPDATE \(prefix)credentials SET sealed = NULL, key_id = NULL, generation = generation + 1,
                changed = clock_timestamp()
            WHERE \(isRow) AND \(isKnown) RETURNING generation, announced
            """, slot, known.map { [.integer($0)] } ?? [])
    }

    // MARK: Leases

    /// Takes the lease, if no other process has it.
    func take(_ slot: CredentialSlot, as holder: UUID, for time: Duration) -> PostgresStatement {
        statement(
            """
            INSERT INTO \(prefix)credentials AS known (\(names), holder, held_until)
            VALUES ($1, $2, $3, $4, $5, \(moment("$6"))) ON CONFLICT (\(names)) DO UPDATE
            SET holder = $5, held_until = \(moment("$6"))
            WHERE known.holder IS NULL OR known.holder = $5 OR known.held_until < clock_timestamp()
            RETURNING generation
            """, slot, [.uuid(holder), .integer(time.milliseconds)])
    }

    /// Makes the lease last, if the process still has it, and nobody has changed the credential since.
    func extend(_ slot: CredentialSlot, _ hold: RowLeases.Hold, for time: Duration) -> PostgresStatement {
        statement(
            """
            UPDATE \(prefix)credentials SET held_until = \(moment("$7"))
            WHERE \(isRow) AND holder = $5 AND generation = $6 RETURNING generation
            """, slot, [.uuid(hold.holder), .integer(hold.generation), .integer(time.milliseconds)])
    }

    func release(_ slot: CredentialSlot, _ holder: UUID) -> PostgresStatement {
        statement(
            "UPDATE \(prefix)credentials SET holder = NULL, held_until = NULL WHERE \(isRow) AND holder = $5", slot,
            [.uuid(holder)])
    }

    /// Returns whether the role may change the table, and whether the server is a stand-by server, which can only be
    /// read.
    var readiness: PostgresStatement {
        PostgresStatement(
            """
            SELECT has_table_privilege($1, 'INSERT') AND has_table_privilege($1, 'UPDATE')
                AND has_table_privilege($1, 'SELECT'), pg_is_in_recovery()
            """, [.text("\(prefix)credentials")])
    }

    // MARK: Notes

    func note(of slot: CredentialSlot) -> PostgresStatement {
        statement(
            "SELECT note, note_key_id FROM \(prefix)credentials WHERE \(isRow) AND note IS NOT NULL", slot)
    }

    /// Stores a note, or removes it if it is `nil`.
    func setNote(_ note: [UInt8]?, _ keyID: Int, of slot: CredentialSlot) -> PostgresStatement {
        guard let note else {
            return statement(
                "UPDATE \(prefix)credentials SET note = NULL, note_key_id = NULL WHERE \(isRow) AND note IS NOT NULL",
                slot)
        }
        return statement(
            """
            INSERT INTO \(prefix)credentials AS known (\(names), note, note_key_id) VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (\(names)) DO UPDATE SET note = $5, note_key_id = $6
            """, slot, [.bytes(note), .integer(keyID)])
    }

    func mark(of slot: CredentialSlot) -> PostgresStatement {
        statement("SELECT generation, announced FROM \(prefix)credentials WHERE \(isRow)", slot)
    }

    func announce(_ slot: CredentialSlot) -> PostgresStatement {
        statement(
            """
            INSERT INTO \(prefix)credentials AS known (\(names), announced) VALUES ($1, $2, $3, $4, 1)
            ON CONFLICT (\(names)) DO UPDATE SET announced = known.announced + 1, changed = clock_timestamp()
            RETURNING generation, announced
            """, slot)
    }

    /// Returns the rows that have changed since a time in microseconds, or in the last minute. A transaction that began
    /// earlier may commit later, so the changes of five more seconds are read again.
    func changes(since: Int?) -> PostgresStatement {
        let start =
            since == nil ? "clock_timestamp() - interval '1 minute'" : "to_timestamp($1 / 1000000.0) - interval '5 s'"
        return PostgresStatement(
            "SELECT \(names), generation, announced FROM \(prefix)credentials WHERE changed > \(start)",
            since.map { [.integer($0)] } ?? [])
    }

    var now: PostgresStatement {
        PostgresStatement("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    }

    // MARK: Keys

    /// Returns credentials that were sealed with another key, with their names.
    func sealed(otherThan keyID: Int, limit: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT \(names), sealed, key_id, generation FROM \(prefix)credentials
            WHERE (key_id < $1 OR key_id > $1) AND sealed IS NOT NULL LIMIT $2
            """, [.integer(keyID), .integer(limit)])
    }

    /// Replaces the sealed form of an unchanged credential. Its generation stays, so that no machine reads it again.
    func reseal(
        _ sealed: [UInt8], _ keyID: Int, of slot: CredentialSlot, generation: Int, from old: Int
    ) -> PostgresStatement {
        statement(
            """
            UPDATE \(prefix)credentials SET sealed = $5, key_id = $6
            WHERE \(isRow) AND generation = $7 AND key_id = $8 RETURNING generation
            """, slot, [.bytes(sealed), .integer(keyID), .integer(generation), .integer(old)])
    }

    func count(sealedOtherThan keyID: Int) -> PostgresStatement {
        PostgresStatement(
            "SELECT count(*) FROM \(prefix)credentials WHERE (key_id < $1 OR key_id > $1) AND sealed IS NOT NULL",
            [.integer(keyID)])
    }

    /// The time that is this number of milliseconds ahead, by the server's clock.
    private func moment(_ milliseconds: String) -> String {
        "clock_timestamp() + \(milliseconds)::bigint * interval '1 millisecond'"
    }
}

extension PostgresResult {
    /// Returns the slot in the first four columns of a row.
    func slot(_ row: Int) -> CredentialSlot {
        func name(_ column: Int) -> String? {
            let stored = text(row, column)
            return stored.isEmpty ? nil : stored == "\u{1}" ? "" : stored
        }
        return CredentialSlot(service: text(row, 0), account: text(row, 1), accessGroup: name(2), issuer: name(3))
    }

    /// Returns the mark of a row's generation and announcements, which begin at a column.
    func mark(_ row: Int, _ column: Int) -> [UInt8] {
        Array("\(integer(row, column)).\(integer(row, column + 1))".utf8)
    }
}

extension Duration {
    /// The number of whole milliseconds.
    var milliseconds: Int { Int(self / .milliseconds(1)) }
}
