import ChappieCore
import Synchronization

/// Plays the steps of one ``ScriptedHTTPAnswer`` to one reader.
final class ScriptedAnswerPlayer: Sendable {
    private let answer: ScriptedHTTPAnswer
    private let host: String
    private let deadlines: ChappieDeadlines?
    private let clock: any ChappieClock
    private let position = Mutex(Position())
    /// Never opened; whoever waits at it is let go by cancelling the wait.
    private let cancellation = ScriptedGate()

    private struct Position {
        var index = 0
        var hasDelivered = false
    }

    init(_ answer: ScriptedHTTPAnswer, host: String, deadlines: ChappieDeadlines?, clock: any ChappieClock) {
        self.answer = answer
        self.host = host
        self.deadlines = deadlines
        self.clock = clock
    }

    func playBeforeHead() async throws {
        for step in answer.beforeHead {
            _ = try await play(step, at: .responseHead, allowing: deadlines?.responseHead)
        }
    }

    func nextChunk() async throws -> [UInt8]? {
        while true {
            let (step, hasDelivered) = position.withLock { position in
                defer { position.index += 1 }
                let step = answer.body.indices.contains(position.index) ? answer.body[position.index] : nil
                return (step, position.hasDelivered)
            }
            guard let step else { return nil }
            let chunk =
                hasDelivered
                ? try await play(step, at: .responseBody, allowing: deadlines?.idle)
                : try await play(step, at: .firstByte, allowing: deadlines?.firstByte)
            guard !chunk.isEmpty else { continue }
            position.withLock { $0.hasDelivered = true }
            return chunk
        }
    }

    /// From any thread.
    func cancel() { cancellation.open() }

    private func play(
        _ step: ScriptedHTTPAnswer.Step, at stage: ChappieTransportError.Stage, allowing allowance: Duration?
    ) async throws -> [UInt8] {
        switch step {
        case .chunk(let bytes): return bytes
        case .fail(let error): throw error
        case .wait(until: let gate):
            try await firstOf(gate, stage, allowance)
            return []
        case .stall:
            try await firstOf(nil, stage, allowance)
            return []
        case .cut:
            throw ChappieTransportError(
                .connectionLost, stage: stage == .responseHead ? .responseHead : .responseBody, host: host,
                reason: "the connection closed as the script has it")
        }
    }

    /// Waits for the gate, the deadline or the end of the exchange, whichever comes first.
    private func firstOf(
        _ gate: ScriptedGate?, _ stage: ChappieTransportError.Stage, _ allowance: Duration?
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { [cancellation] in
                try await cancellation.pass()
                throw CancellationError()
            }
            if let gate { group.addTask { try await gate.pass() } }
            if let allowance {
                group.addTask { [clock, host] in
                    try await clock.sleep(for: allowance)
                    throw ChappieTransportError(
                        .timedOut, stage: stage, host: host, reason: "nothing within \(allowance), as the script has it"
                    )
                }
            }
            try await group.next()
        }
    }
}
