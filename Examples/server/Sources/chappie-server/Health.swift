import ChappieCredentialsPostgres
import ChappieSDK
import ChappieSDKRuntime
import ChappieThreadsPostgres
import Foundation
import Hummingbird

/// The answers to the balancer and to the operator. ChappieObservability has more metrics.
struct Health: Sendable {
    let database: ChappiePostgresDatabase
    let pool: ChappieClientPool
    let turns: Turns

    /// Whether the balancer may send requests. The model service does not count: when it is down, all machines would
    /// leave the balancer.
    var readiness: Response {
        get async {
            if await turns.isStopping { return notReady("The program stops.") }
            if database.state.waitingCalls >= 100 { return notReady("100 calls wait for the database.") }
            do {
                let ping = try await database.ping(of: [.threads, .credentials])
                if ping.isReadOnly { return notReady("The database accepts no changes.") }
                if !ping.hasCurrentTables { return notReady("The tables are of another version.") }
                return .json(["status": "ready"])
            } catch {
                return notReady(sentence(of: error))
            }
        }
    }

    private func notReady(_ reason: String) -> Response {
        .json(["status": "not ready", "reason": .string(reason)], status: .serviceUnavailable)
    }

    /// The gauges in Prometheus's text format.
    var metrics: Response {
        get async {
            let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
            let descriptors = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
            let gauges: [(String, String, Int)] = [
                ("chappie_server_clients", "Clients in the pool.", await pool.clientCount),
                ("chappie_server_turns_running", "Turns that this machine runs.", await turns.runningCount),
                ("process_resident_memory_bytes", "Resident memory.", (Self.value("VmRSS:", in: status)) << 10),
                ("process_threads", "Threads of the system.", Self.value("Threads:", in: status)),
                ("process_open_fds", "Open file descriptors.", descriptors ?? 0),
            ]
            let text = gauges.map { name, help, value in
                "# HELP \(name) \(help)\n# TYPE \(name) gauge\n\(name) \(value)\n"
            }
            return Response(
                status: .ok, headers: [.contentType: "text/plain; version=0.0.4"],
                body: ResponseBody(byteBuffer: ByteBuffer(string: text.joined())))
        }
    }

    private static func value(_ name: String, in status: String) -> Int {
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split { $0 == " " || $0 == "\t" }.dropFirst().first.flatMap { Int($0) } ?? 0
    }
}
