@_spi(ChappieInternals) public import ChappieCore

/// The reason why work with a PostgreSQL database failed.
public enum ChappiePostgresError: ChappieError, Hashable {
    /// The connection string or the schema's name can't be used. The string has the reason, without any part of the
    /// connection string.
    case invalidAddress(String)
    /// The server can't be reached, or refuses the connection or a statement. The string has its words.
    case unavailable(String)
    /// The role of the connection string has rights with which a tenant could see another tenant's rows. `remedy` is the
    /// advice for the operator.
    case unsafeRole(String, remedy: String)
    /// The server did not finish a statement in this time, or other transactions were in the way.
    case busy(Duration)
    /// All connections of the database were in use for this time.
    case exhausted(connections: Int, Duration)
    /// ``ChappiePostgresDatabase/close()`` was called.
    case closed
    /// The tables are missing or older than this program, and were not changed. The string has the reason.
    case outdated(String)
    /// A newer version of this program has changed the tables.
    case tooNew(found: Int, known: Int)
    /// The tables contain something that this program did not write.
    case damaged(String)
    /// The connection broke while a change was committed, and the server can't be asked whether it has the change.
    case uncertain

    /// A sentence for the operator.
    public var errorDescription: String? {
        switch self {
        case .invalidAddress(let reason): "The database can't be used: \(reason)."
        case .unavailable(let words): "The database is not available: \(words)."
        case .unsafeRole(let reason, _): "This is not safe to use: \(reason)."
        case .busy(let limit): "The database did not finish within \(limit.inSeconds) s."
        case .exhausted(let count, let limit):
            "All \(count) connections to the database were in use for \(limit.inSeconds) s."
        case .closed: "The program has closed the database."
        case .outdated(let words): "The tables are missing or older than this program: \(words)."
        case .tooNew(let found, let known):
            "The tables have version \(found), and this program knows versions up to \(known)."
        case .damaged(let words): "The tables are damaged: \(words)."
        case .uncertain: "The connection to the database broke, and it is not known whether the change was stored."
        }
    }

    /// The operator's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .invalidAddress:
            "Write the address as postgresql://role@host/database?sslmode=verify-full, and check the options."
        case .unavailable: "Check the server, its address and the network, and try again."
        case .unsafeRole(_, let remedy): remedy
        case .busy: "Try again in a moment. If the problem stays, look for a long transaction on the server."
        case .exhausted: "Allow more connections, or look for slow statements on the server."
        case .closed: "Start the program again."
        case .outdated: "Run the migration as the owner of the tables."
        case .tooNew: "Install a newer version of this program."
        case .damaged: "Restore the tables from a backup."
        case .uncertain: "Read the data again to see."
        }
    }
}
