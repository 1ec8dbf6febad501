import ChappieCore
import ChappieRuntime
import ChappieThreadsPostgres

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A process that appends to a thread in PostgreSQL, for tests that run several of it and kill it.
///
/// `PostgresThreadWriter ADDRESS TENANT NAME`: appends one record after the other to the end of the thread
/// `shared`, and prints `POSITION NUMBER` after each, until it is killed.
@main
enum PostgresThreadWriter {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let store = try ChappiePostgresThreadStore(connectionString: arguments[1], tenant: arguments[2])
        var number = 1
        while true {
            let date = Date(timeIntervalSince1970: 1_790_000_000)
            var summary =
                try await store.summary(of: "shared") ?? ChappieThreadSummary(id: "shared", createdAt: date)
            let record = ChappieThreadRecord(
                position: summary.recordCount, kind: .turnStarted, date: date,
                body: ["messages": [["content": [["text": .string("\(arguments[3]) \(number)")]]]]])
            summary.add(record)
            do throws(ChappieThreadStoreError) {
                try await store.append([record], to: summary, at: record.position)
            } catch {
                switch error {
                case .conflict, .busy: continue
                default: throw error
                }
            }
            say("\(record.position) \(number)")
            number += 1
        }
    }

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }
}
