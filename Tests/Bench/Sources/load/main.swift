// Usage: load URL TOKEN-FILE IDLE ACTIVE
// Opens IDLE WebSockets to a simulator and lets them be, opens ACTIVE more and asks on each for 500 words at once; prints
// one JSON object. Exits with 1 when a message was lost or a connection died.
import ChappieCore
import ChappieWebSocket
import FoundationEssentials
import Glibc
import HTTPTypes

let words = 500

struct Failure: Error { let reason: String }

func memory() -> Int {
    guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
        let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") })
    else { return 0 }
    return (line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 1024
}

func threads() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count) ?? 0 }

func open(_ transport: CurlWebSocketTransport, _ url: URL, _ fields: HTTPFields) async throws
    -> any WebSocketConnection
{
    switch try await transport.open(url, headerFields: fields) {
    case .opened(let connection, _): return connection
    case .refused(let response): throw Failure(reason: "refused with \(response.status.code)")
    }
}

func openMany(
    _ count: Int, _ transport: CurlWebSocketTransport, _ url: URL, _ fields: HTTPFields
) async throws -> [any WebSocketConnection] {
    var all: [any WebSocketConnection] = []
    // Fifty at a time: a listen queue is short.
    while all.count < count {
        try await withThrowingTaskGroup(of: (any WebSocketConnection).self) { group in
            for _ in 0..<min(50, count - all.count) { group.addTask { try await open(transport, url, fields) } }
            for try await connection in group { all.append(connection) }
        }
    }
    return all
}

/// Asks, and counts the pieces of text up to the end of the answer.
func ask(_ connection: any WebSocketConnection, words: Int) async throws -> Int {
    try await connection.send(
        .text(
            """
            {"type":"response.create","model":"gpt-5.5","stream":true,"store":false,"input":[{"type":"message",\
            "role":"user","content":[{"type":"input_text","text":"repeat \(words) words"}]}]}
            """))
    var pieces = 0
    while true {
        switch try await connection.receive(within: .seconds(60)) {
        case .closed(let closure): throw Failure(reason: "closed with \(closure.code ?? 0)")
        case .messages(let messages):
            for case .text(let text) in messages {
                if text.contains("response.output_text.delta") { pieces += 1 }
                if text.contains("\"response.completed\"") { return pieces }
            }
        }
    }
}

func run() async throws {
    let arguments = CommandLine.arguments
    guard arguments.count == 5, let url = URL(string: arguments[1]), let idle = Int(arguments[3]),
        let active = Int(arguments[4])
    else { throw Failure(reason: "usage: load URL TOKEN-FILE IDLE ACTIVE") }
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    guard Int(limit.rlim_cur) > idle + active + 100 else {
        throw Failure(reason: "this system allows only \(limit.rlim_cur) open files")
    }
    let token = try String(contentsOfFile: arguments[2], encoding: .utf8)
    let fields: HTTPFields = [.authorization: "Bearer \(token)"]
    let transport = CurlWebSocketTransport()

    // One answer first, so that everything that is made once has been made.
    let first = try await open(transport, url, fields)
    _ = try await ask(first, words: words)
    let threadsBefore = threads()
    let memoryBefore = memory()
    let sleepers = try await openMany(idle, transport, url, fields)
    let memoryIdle = memory()
    let threadsIdle = threads()
    let workers = try await openMany(active, transport, url, fields)
    let start = ContinuousClock.now
    let pieces = try await withThrowingTaskGroup(of: Int.self) { group in
        for worker in workers { group.addTask { try await ask(worker, words: words) } }
        var pieces = 0
        for try await count in group { pieces += count }
        return pieces
    }
    let seconds = ContinuousClock.now - start
    let threadsActive = threads()
    let memoryActive = memory()
    let open = sleepers.count(where: \.isOpen)
    // Those that slept are as good as new.
    for sleeper in sleepers.prefix(20) {
        guard try await ask(sleeper, words: 5) == 5 else { throw Failure(reason: "a sleeper has lost something") }
    }
    let report: ChappieJSON = [
        "idle": .integer(idle), "active": .integer(active), "open_after": .integer(open),
        "messages": .integer(pieces), "lost": .integer(active * words - pieces),
        "seconds": .double(Double(seconds.components.seconds) + Double(seconds.components.attoseconds) / 1e18),
        "threads": ["one": .integer(threadsBefore), "idle": .integer(threadsIdle), "active": .integer(threadsActive)],
        "bytes_per_idle_connection": .integer((memoryIdle - memoryBefore) / max(idle, 1)),
        "bytes_per_active_connection": .integer((memoryActive - memoryIdle) / max(active, 1)),
    ]
    print(report.serialized())
    guard open == idle, pieces == active * words else { throw Failure(reason: "something was lost") }
}

do { try await run() } catch {
    let sentence = Array("load: \(error)\n".utf8)
    _ = sentence.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    exit(1)
}
