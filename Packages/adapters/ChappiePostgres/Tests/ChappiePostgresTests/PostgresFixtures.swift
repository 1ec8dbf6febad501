@_spi(ChappieInternals) import ChappieCore
import ChappieThreadsPostgres
import Dispatch
import TestFixtures
import Testing

@testable import ChappiePostgres

/// A call that uses a connection of a database until it is told to end.
final class Occupation: Sendable {
    private let mayEnd: DispatchSemaphore
    private let call: Task<Void, any Error>

    init(of database: ChappiePostgresDatabase) async throws {
        let hasBegun = Promise<Void>()
        let mayEnd = DispatchSemaphore(value: 0)
        self.mayEnd = mayEnd
        call = Task {
            try await database.perform(database.schema(of: .threads)) { connection, _ throws(PostgresFailure) in
                hasBegun.fulfil(.success(()))
                mayEnd.wait()
            }
        }
        try await hasBegun.value()
    }

    func end() async throws {
        mayEnd.signal()
        try await call.value
    }
}
