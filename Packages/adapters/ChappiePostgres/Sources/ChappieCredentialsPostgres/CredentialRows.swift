@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappiePostgres

/// The table of sign-ins of a database.
struct CredentialRows: Sendable {
    /// The generation and the mark of a row after a change.
    struct State: Sendable {
        let generation: Int
        let mark: [UInt8]
    }

    let database: ChappiePostgresDatabase
    let schema: PostgresSchema

    init(_ database: ChappiePostgresDatabase) {
        self.database = database
        schema = database.schema(of: .credentials)
    }

    /// Changes rows with one statement in a transaction. The statement can depend on whether an earlier attempt may have
    /// been committed. Returns the first row that the statement returns.
    func change(
        _ statement: @escaping @Sendable (_ isRepeated: Bool) -> PostgresStatement
    ) async throws(CredentialStoreError) -> State? {
        try await perform { [schema] connection, isRepeated throws(PostgresFailure) in
            let result = try schema.begin([statement(isRepeated)], on: connection)[2]
            try schema.commit([], on: connection)
            return result.state
        }
    }

    /// Runs `work` as `ChappiePostgresDatabase` does, and throws the errors of a credential store.
    func perform<Value: Sendable>(
        _ work: @escaping @Sendable (PostgresConnection, _ isRepeated: Bool) throws(PostgresFailure) -> Value
    ) async throws(CredentialStoreError) -> Value {
        do {
            return try await database.perform(schema, work)
        } catch let error as CredentialStoreError {
            throw error
        } catch let error as ChappiePostgresError {
            throw CredentialStoreError(error)
        } catch {
            throw .failed("the work with the database failed")
        }
    }
}

extension PostgresResult {
    /// The state of the first row, whose first two columns are the generation and the number of announcements, or only
    /// the generation.
    var state: CredentialRows.State? {
        rows.isEmpty ? nil : CredentialRows.State(generation: integer(0, 0), mark: mark(0, 0))
    }
}

extension CredentialStoreError {
    init(_ error: ChappiePostgresError) {
        self =
            switch error {
            case .busy(let limit): .timedOut(limit)
            case .unsafeRole(let reason, let remedy): .unsafeFile(reason, remedy: remedy)
            case .invalidAddress(let words), .unavailable(let words): .failed("the database is not available: \(words)")
            case .exhausted: .failed("all connections to the database are in use")
            case .closed: .failed("the program has closed the database")
            case .outdated(let words):
                .failed(
                    "the tables are missing or older than this program (\(words)); run the migration as their owner")
            case .tooNew(let found, let known): .tooNew("The table of sign-ins", found: found, known: known)
            case .damaged(let words): .corrupt(words)
            case .uncertain: .failed("the connection broke at the end of a change, which may have been stored")
            }
    }
}

extension CredentialSlot {
    /// Throws for a slot whose sign-in must not be in a database: names that it can't represent, and the plan route,
    /// which is for a program on the user's own machine.
    func checkForDatabase() throws(CredentialStoreError) {
        try checkNames()
        guard !isOfPlanRoute else {
            throw .unsafeFile(
                """
                "Continue with ChatGPT" is for a program on its user's own machine, and a service must not store such a \
                sign-in
                """, remedy: "Let the service's users sign in with a device code.")
        }
    }
}
