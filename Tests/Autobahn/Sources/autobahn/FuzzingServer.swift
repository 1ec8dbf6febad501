import ChappieCore
import HTTPTypes

/// What the fuzzing server of the Autobahn test suite can be asked for.
struct FuzzingServer: Sendable {
    let transport: any WebSocketTransport
    /// `ws://127.0.0.1:9001`, without a path.
    let base: String
    let agent: String

    /// The slowest cases are given 480 seconds by the server itself.
    private static let patience = Duration.seconds(600)

    enum Failure: Error {
        case noAnswer(String)
        case refused(String, Int)
    }

    /// Runs all cases, `parallel` of them at a time, and asks for the report.
    func runEveryCase(parallel: Int) async throws {
        let count = try await caseCount()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count {
                if number > parallel { try await group.next() }
                group.addTask { try await run(number) }
            }
            try await group.waitForAll()
        }
        try await updateReports()
    }

    private func caseCount() async throws -> Int {
        let connection = try await open("/getCaseCount")
        guard case .messages(let messages) = try await connection.receive(within: Self.patience),
            case .text(let text)? = messages.first, let count = Int(text)
        else { throw Failure.noAnswer("/getCaseCount") }
        await connection.close(.normal)
        return count
    }

    /// Echoes whatever comes until the connection ends, in whichever way: the server judges.
    private func run(_ number: Int) async throws {
        let connection = try await open("/runCase?case=\(number)&agent=\(agent)")
        do {
            while case .messages(let messages) = try await connection.receive(within: Self.patience) {
                for message in messages { try await connection.send(message) }
            }
        } catch is ChappieTransportError {
            // Most cases end with an error of the server's that must be noticed.
        }
    }

    private func updateReports() async throws {
        let connection = try await open("/updateReports?agent=\(agent)")
        while case .messages = try await connection.receive(within: Self.patience) {}
    }

    private func open(_ path: String) async throws -> any WebSocketConnection {
        guard let url = URL(string: base + path) else { throw Failure.noAnswer(path) }
        switch try await transport.open(url, headerFields: [:]) {
        case .opened(let connection, _): return connection
        case .refused(let response): throw Failure.refused(path, response.status.code)
        }
    }
}
