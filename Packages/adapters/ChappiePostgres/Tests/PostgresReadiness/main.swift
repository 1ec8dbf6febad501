import ChappieCredentialsPostgres
import ChappieThreadsPostgres
import Foundation

/// Returns why this machine must get no requests, or `nil` if it is ready.
func reasonNotToServe(_ database: ChappiePostgresDatabase) async -> String? {
    let state = database.state
    guard state.waitingCalls < 100 else { return "\(state.waitingCalls) calls wait for the database" }
    do {
        let ping = try await database.ping(of: [.threads, .credentials], within: .seconds(1))
        if ping.isReadOnly { return "The database can only be read." }
        if !ping.hasCurrentTables { return "The tables have other versions than this program: run the migration." }
        return nil
    } catch {
        return error.errorDescription
    }
}

let database = try ChappiePostgresDatabase(connectionString: CommandLine.arguments[1], options: .init(migrates: false))
let reason = await reasonNotToServe(database)
await database.close()
print(reason ?? "ready")
exit(reason == nil ? 0 : 1)
