import FoundationEssentials
import Glibc
import Synchronization

/// PostgreSQL 15 on loopback and on a socket in a separate directory. Its data does not outlive this value.
///
/// ```swift
/// let server = try await PostgresServer()
/// try await server.makeDatabase("chat")
/// let address = server.address(of: "chat")
/// try await server.end()
/// ```
public final class PostgresServer: Sendable {
    /// The program of the server, at Debian's path.
    public static let program = SystemProgram("/usr/lib/postgresql/15/bin/postgres", packages: "postgresql-15")
    private static let initdb = SystemProgram("/usr/lib/postgresql/15/bin/initdb", packages: "postgresql-15")
    private static let psql = SystemProgram("/usr/lib/postgresql/15/bin/psql", packages: "postgresql-client-15")
    private static let setpriv = SystemProgram("setpriv", packages: "util-linux")

    /// The ordinary role that owns the databases.
    public static let role = "app"
    /// Its password.
    public static let password = "s3cret-of-the-app"
    /// The superuser, who needs no password on the socket.
    public static let superuser = "admin"

    private let directory: TemporaryDirectory
    private let reserved: ReservedPort
    private let certificates: TestCertificates?
    private let running = Mutex<RunningProgram?>(nil)

    /// The port on 127.0.0.1.
    public var port: Int { reserved.number }
    /// The directory of the socket.
    public var socketDirectory: String { directory.path }
    /// The directory of the data.
    public var dataDirectory: String { directory.path("data") }

    /// Creates a cluster and starts its server, and returns when it accepts connections.
    ///
    /// - Parameter withTLS: whether it accepts connections over TLS only, with a certificate of a private authority.
    public init(withTLS: Bool = false) async throws {
        // Another user must be able to enter the directory, because the server refuses to run as root.
        directory = try TemporaryDirectory(in: "/tmp")
        reserved = try ReservedPort()
        let data = directory.path("data")
        if getuid() == 0 { chown(directory.path, Self.nobody, Self.nobody) }
        let (program, arguments) = Self.unprivileged(
            Self.initdb,
            [
                "-D", data, "-U", Self.superuser, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
                "--wal-segsize=1",
            ])
        try await program.run(arguments, withErrors: true)
        certificates = withTLS ? try await TestCertificates(in: directory) : nil
        if let certificates, getuid() == 0 { chown(certificates.certificate("good").key, Self.nobody, Self.nobody) }
        let kind = withTLS ? "hostssl" : "host"
        try directory.write(
            "local all all trust\n\(kind) all all 127.0.0.1/32 scram-sha-256\n", to: "data/pg_hba.conf")
        try await start()
        try await sql("CREATE ROLE \(Self.role) LOGIN PASSWORD '\(Self.password)'")
    }

    /// Returns the address with which the ordinary role connects to `database`, in the form of libpq.
    ///
    /// - Parameter port: the port of a proxy, or `nil` for the server's own.
    public func address(of database: String, port: Int? = nil) -> String {
        "postgresql://\(Self.role):\(Self.password)@127.0.0.1:\(port ?? self.port)/\(database)?sslmode=disable&gssencmode=disable"
    }

    /// Returns the address with which the ordinary role connects to `database` of a server with TLS, in the form of
    /// libpq.
    ///
    /// - Parameters:
    ///   - host: the host that the certificate must name. The address is always 127.0.0.1.
    ///   - authority: the file of the trusted certificates, or `nil` for the server's authority.
    public func verifyingAddress(
        of database: String, host: String = "127.0.0.1", trusting authority: String? = nil
    ) throws -> String {
        guard let certificates else { throw FixtureFailure("this server has no TLS") }
        return """
            host=\(host) hostaddr=127.0.0.1 port=\(port) dbname=\(database) user=\(Self.role) password=\(Self.password) \
            gssencmode=disable sslmode=verify-full sslrootcert=\(authority ?? certificates.authority)
            """
    }

    /// The path of the certificate of an authority that has not issued the server's, or `nil` without TLS.
    public var strangeAuthority: String? { certificates?.certificate("self").certificate }

    /// Creates a database that the ordinary role owns.
    public func makeDatabase(_ name: String) async throws {
        try await sql("CREATE DATABASE \(name) OWNER \(Self.role)")
    }

    /// Runs SQL as the superuser, and returns the rows, with `|` between their columns.
    @discardableResult
    public func sql(_ text: String, in database: String = "postgres") async throws -> String {
        try await Self.psql.run([
            "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", directory.path, "-p", "\(port)",
            "-U", Self.superuser, "-d", database, "-c", text,
        ]).split(separator: "\n").joined(separator: "\n")
    }

    /// Ends the server at once, regardless of what it does, and starts it again. Returns when it accepts connections.
    public func restart() async throws {
        try await end()
        try await start()
    }

    /// Ends the server at once.
    public func end() async throws {
        guard let program = running.withLock({ $0 }) else { return }
        // The signal requests an immediate shutdown. The processes end without a checkpoint, and nothing of them stays
        // in the system.
        program.signal(SIGQUIT)
        guard try await eventually({ program.hasEnded }) else { throw FixtureFailure("PostgreSQL does not end") }
        program.end()
        running.withLock { $0 = nil }
    }

    private func start() async throws {
        let log = directory.path("log")
        let settings = [
            "listen_addresses=127.0.0.1", "port=\(port)", "unix_socket_directories=\(directory.path)", "fsync=off",
            "shared_buffers=16MB", "dynamic_shared_memory_type=mmap",
        ]
        let tls = certificates.map { certificates in
            let (certificate, key) = certificates.certificate("good")
            return ["ssl=on", "ssl_cert_file=\(certificate)", "ssl_key_file=\(key)"]
        }
        let (program, arguments) = Self.unprivileged(
            Self.program, ["-D", directory.path("data")] + (settings + (tls ?? [])).flatMap { ["-c", $0] })
        let started = try program.start(arguments, output: .file(log), errors: .withOutput)
        running.withLock { $0 = started }
        let isUp = try await eventually {
            // The eighth line of the file reports the state of the server.
            let lines = (try? directory.read("data/postmaster.pid"))?.split(
                separator: "\n", omittingEmptySubsequences: false)
            return started.hasEnded
                || lines.map { $0.count > 7 && $0[0] == "\(started.id)" && $0[7].hasPrefix("ready") } == true
        }
        guard isUp, !started.hasEnded else {
            throw FixtureFailure("PostgreSQL does not start: \((try? directory.read("log")) ?? "")")
        }
    }

    static let nobody: uid_t = 65534

    /// Returns the program and arguments, as another user if this user is root, for whom PostgreSQL refuses to run.
    static func unprivileged(_ program: SystemProgram, _ arguments: [String]) -> (SystemProgram, [String]) {
        guard getuid() == 0 else { return (program, arguments) }
        return (
            setpriv,
            ["--reuid=\(nobody)", "--regid=\(nobody)", "--clear-groups", program.name] + arguments
        )
    }
}
