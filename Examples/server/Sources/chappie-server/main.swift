// A chat server for many users, of which several machines can run over one database. README.md says how.
import ChappieCredentialsPostgres
import ChappieSDK
import ChappieSDKRuntime
import ChappieThreadsPostgres
import Foundation
import Hummingbird
import Logging
import ServiceLifecycle

/// Keeps the database open until everything else has stopped.
struct DatabaseService: Service {
    let database: ChappiePostgresDatabase
    let turns: Turns

    func run() async throws {
        await cancelWhenGracefulShutdown { try? await turns.keepAlive() }
        await database.close()
    }
}

/// Ends the turns before the server that shows them.
struct TurnService: Service {
    let turns: Turns

    func run() async throws {
        try await gracefulShutdown()
        await turns.stop()
    }
}

func raiseDescriptorLimit() {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}

func migrate(_ database: String, granting roles: [String] = []) async throws {
    try await ChappiePostgresMigration.run(
        connectionString: database, granting: roles, parts: [.threads, .credentials])
    try await ServerTables.create(connectionString: database, granting: roles)
}

/// Encrypts the sign-ins with the first key of the file, and prints how many others there still are.
func reseal(_ connectionString: String, keys: String) async throws {
    let database = try ChappiePostgresDatabase(connectionString: connectionString, options: .init(migrates: false))
    let signIns = database.credentials(sealedWith: try .file(keys))
    while try await signIns.reseal() > 0 {}
    print(try await signIns.countSealedWithEarlierKeys())
    await database.close()
}

func serve(_ settings: Settings) async throws {
    let database = try ChappiePostgresDatabase(
        connectionString: settings.database, options: .init(connections: 8, migrates: false))
    let signIns = database.credentials(sealedWith: try .file(settings.sealingKeys))
    let tables = ServerTables(connectionString: settings.database, machine: settings.machine)
    let users = Users(endpoints: settings.endpoints, signIns: .custom(signIns))
    let pool = users.pool(database, tables, idle: settings.idle)
    let turns = Turns(pool: pool, database: database, tables: tables)
    let routes = Routes(
        cookies: try Cookies(keyFile: settings.cookieKey), users: users, turns: turns, database: database,
        health: Health(database: database, pool: pool, turns: turns))
    var logger = Logger(label: "chappie-server")
    logger.logLevel = .warning
    let application = Application(
        router: routes.router,
        configuration: .init(address: .hostname(settings.host, port: settings.port), backlog: 1024), logger: logger)
    // Services stop in reverse order.
    var group = ServiceGroupConfiguration(
        services: [
            DatabaseService(database: database, turns: turns), application, TurnService(turns: turns),
        ], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
    group.maximumGracefulShutdownDuration = .seconds(100)
    try await ServiceGroup(configuration: group).run()
}

do {
    let arguments = CommandLine.arguments.dropFirst()
    switch arguments.first {
    case "--migrate":
        try await migrate(Settings.required("CHAPPIE_SERVER_DATABASE"), granting: Array(arguments.dropFirst()))
    case "--reseal":
        try await reseal(Settings.required("CHAPPIE_SERVER_DATABASE"), keys: Settings.required("CHAPPIE_SERVER_KEYS"))
    default:
        let settings = try Settings()
        raiseDescriptorLimit()
        if settings.migrates { try await migrate(settings.database) }
        try await serve(settings)
    }
} catch {
    report("chappie-server: \((error as? any LocalizedError)?.errorDescription ?? "\(error)")")
    exit(1)
}
