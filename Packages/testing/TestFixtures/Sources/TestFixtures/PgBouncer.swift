import FoundationEssentials
import Glibc

/// A pooler in front of a server, which gives each transaction any of two connections. It runs as another user, because it
/// refuses to run as root.
public struct PgBouncer: Sendable {
    /// The program of the pooler.
    public static let program = SystemProgram("pgbouncer", packages: "pgbouncer")

    /// The port on 127.0.0.1.
    public var port: Int { reserved.number }
    private let reserved: ReservedPort
    private let folder: TemporaryDirectory
    private let running: RunningProgram

    /// Starts a pooler, and returns when it accepts connections.
    public init(before server: PostgresServer) async throws {
        folder = try TemporaryDirectory(in: "/tmp")
        reserved = try ReservedPort()
        try folder.write("\"\(PostgresServer.role)\" \"\(PostgresServer.password)\"\n", to: "users")
        try folder.write(
            """
            [databases]
            * = host=127.0.0.1 port=\(server.port)
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = \(reserved.number)
            unix_socket_dir =
            auth_type = trust
            auth_file = \(folder.path("users"))
            pool_mode = transaction
            default_pool_size = 2
            """, to: "ini")
        let nobody = PostgresServer.nobody
        if getuid() == 0 { for name in ["", "users", "ini"] { chown(folder.path(name), nobody, nobody) } }
        let (program, arguments) = PostgresServer.unprivileged(Self.program, [folder.path("ini")])
        running = try program.start(arguments, output: .file(folder.path("log")), errors: .withOutput)
        let running = running
        let port = reserved.number
        let isUp = try await eventually { running.hasEnded || (try? LoopbackConnection(port: port)) != nil }
        guard isUp, !running.hasEnded else {
            throw FixtureFailure("pgbouncer does not start: \((try? folder.read("log")) ?? "")")
        }
    }

    /// Ends the pooler.
    public func end() { running.end() }
}
