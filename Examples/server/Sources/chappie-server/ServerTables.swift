import CServer
import Foundation
import Synchronization

/// The server's own tables, over libpq. Your server uses its usual driver here.
///
/// `server_turns` names the machine that runs a turn. The beat of a living machine is at most two seconds old. Sign-ins
/// and threads are in the tables of Chappie.
final class ServerTables: Sendable {
    /// A turn that some machine has begun.
    struct Turn: Sendable {
        let thread: String
        /// Whether its machine has not reported for six seconds.
        let isAbandoned: Bool
    }

    static let statements = """
        SELECT pg_advisory_xact_lock(20261);
        CREATE TABLE IF NOT EXISTS server_turns (
            turn text PRIMARY KEY, "user" text NOT NULL, thread text NOT NULL, machine text NOT NULL,
            beat timestamptz NOT NULL DEFAULT clock_timestamp());
        CREATE INDEX IF NOT EXISTS server_turns_beat ON server_turns (beat);
        CREATE TABLE IF NOT EXISTS server_rolls (turn text NOT NULL, call text NOT NULL);
        """

    // When the database server starts again, each machine has six seconds to report.
    private static let isAbandoned = """
        beat < clock_timestamp() - interval '6 s' AND pg_postmaster_start_time() < clock_timestamp() - interval '6 s'
        """

    private let machine: String
    private let connections: [ServerConnection]
    private let count = Atomic(0)

    init(connectionString: String, machine: String) {
        self.machine = machine
        connections = (0..<4).map { _ in ServerConnection(connectionString) }
    }

    /// Notes that this machine runs a turn.
    func begin(_ turn: String, in thread: String, of user: String) async throws {
        try await run(
            """
            INSERT INTO server_turns (turn, "user", thread, machine) VALUES ($1, $2, $3, $4)
            ON CONFLICT (turn) DO NOTHING
            """, turn, user, thread, machine)
    }

    /// Notes that this machine is alive.
    func beat(for turns: [String]) async throws {
        let list = turns.map { "\"\($0)\"" }.joined(separator: ",")
        try await run(
            "UPDATE server_turns SET beat = clock_timestamp() WHERE turn = ANY ($1::text[]) AND machine = $2",
            "{\(list)}", machine)
    }

    /// Returns a turn of the user, or `nil` if there is none with this id.
    func find(_ turn: String, of user: String) async throws -> Turn? {
        let rows = try await run(
            "SELECT thread, \(Self.isAbandoned) FROM server_turns WHERE turn = $1 AND \"user\" = $2", turn, user)
        return rows.first.map { Turn(thread: $0[0], isAbandoned: $0[1] == "t") }
    }

    /// Takes a turn over from its machine, and returns whether this machine may run it now. Only one machine gets it.
    ///
    /// - Parameter waits: Whether the turn waits for the user, so that no machine runs it.
    func takeOver(_ turn: String, waits: Bool) async throws -> Bool {
        let rows = try await run(
            """
            UPDATE server_turns SET machine = $2, beat = clock_timestamp()
            WHERE turn = $1 AND ($3 OR \(Self.isAbandoned)) RETURNING turn
            """, turn, machine, waits ? "t" : "f")
        return !rows.isEmpty
    }

    /// Removes the turns that nobody asks for any more.
    func removeOld() async throws {
        try await run("DELETE FROM server_turns WHERE beat < clock_timestamp() - interval '30 days'")
    }

    /// Notes that the dice were rolled.
    func roll(_ call: String, in turn: String) async throws {
        try await run("INSERT INTO server_rolls (turn, call) VALUES ($1, $2)", turn, call)
    }

    /// Creates the tables, and lets `roles` use them.
    static func create(connectionString: String, granting roles: [String] = []) async throws {
        let connection = ServerConnection(connectionString)
        let grants = roles.map { role in
            let name =
                "\"" + role.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
            return "GRANT SELECT, INSERT, UPDATE, DELETE ON server_turns, server_rolls TO \(name);"
        }
        try await connection.create(statements + grants.joined(separator: "\n"))
    }

    @discardableResult
    private func run(_ statement: String, _ values: String...) async throws -> [[String]] {
        let number = count.add(1, ordering: .relaxed).newValue
        return try await connections[number % connections.count].run(statement, values)
    }
}

/// A failure of the database, in its own words.
struct DatabaseFailure: Error, CustomStringConvertible {
    let description: String
}

/// A connection that connects again after a failure. It is Sendable, because only its serial queue uses the connection.
private final class ServerConnection: @unchecked Sendable {
    private let connectionString: String
    private let queue = DispatchQueue(label: "server tables")
    /// The connection, which only the queue uses.
    private var connection: OpaquePointer?

    init(_ connectionString: String) { self.connectionString = connectionString }

    /// Runs a statement. A broken connection is replaced for up to ten seconds, so every statement can run twice.
    func run(_ statement: String, _ values: [String]) async throws -> [[String]] {
        try await perform { connection in
            let texts = values.map { strdup($0) }
            defer { texts.forEach { free($0) } }
            return PQexecParams(
                connection, statement, Int32(texts.count), nil, texts.map { UnsafePointer($0) }, nil, nil, 0)
        }
    }

    /// Runs statements without values, as one transaction.
    func create(_ statements: String) async throws {
        _ = try await perform { PQexec($0, statements) }
    }

    private func perform(_ work: @escaping @Sendable (OpaquePointer?) -> OpaquePointer?) async throws -> [[String]] {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try self.attempt(work) }) }
        }
    }

    private func attempt(_ work: (OpaquePointer?) -> OpaquePointer?) throws -> [[String]] {
        let end = ContinuousClock.now + .seconds(10)
        while true {
            if connection == nil { connection = connect() }
            let result = PQstatus(connection) == CONNECTION_OK ? work(connection) : nil
            defer { PQclear(result) }
            switch PQresultStatus(result) {
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK: return rows(of: result)
            case _ where PQstatus(connection) == CONNECTION_OK:
                throw DatabaseFailure(description: String(cString: PQresultErrorMessage(result)))
            default:
                let words = String(cString: PQerrorMessage(connection))
                PQfinish(connection)
                connection = nil
                guard ContinuousClock.now < end else { throw DatabaseFailure(description: words) }
                // The start of a database server is announced nowhere, so this queue asks again, and blocks nobody else.
                usleep(100_000)
            }
        }
    }

    private func connect() -> OpaquePointer? {
        // The string takes precedence over the time limit before it.
        let words = ["connect_timeout": "5", "dbname": connectionString, "fallback_application_name": "chappie-server"]
            .sorted { $0.key < $1.key }
        let keys = words.map { strdup($0.key) } + [nil]
        let values = words.map { strdup($0.value) } + [nil]
        defer { (keys + values).forEach { free($0) } }
        return PQconnectdbParams(keys.map { UnsafePointer($0) }, values.map { UnsafePointer($0) }, 1)
    }

    private func rows(of result: OpaquePointer?) -> [[String]] {
        (0..<PQntuples(result)).map { row in
            (0..<PQnfields(result)).map { String(cString: PQgetvalue(result, row, $0)) }
        }
    }
}
