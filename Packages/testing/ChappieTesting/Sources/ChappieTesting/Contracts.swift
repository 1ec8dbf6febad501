public import ChappieCore
// The scripted servers, answers and gates are part of the kit.
@_exported import ChappieSimulatorServer

/// A violation of a port's contract by an adapter.
///
/// Contracts are written without a testing framework. A case throws this error, and the code that runs the case reports
/// it.
public struct ContractViolation: Error, Sendable, Hashable, LocalizedError, CustomStringConvertible {
    /// One sentence with the expected and the actual result.
    public let sentence: String

    /// Creates a violation with this sentence.
    public init(_ sentence: String) { self.sentence = sentence }

    public var errorDescription: String? { sentence }
    public var description: String { sentence }
}

/// Checks that `condition` holds.
///
/// - Throws: a violation with `sentence` if it does not hold.
func require(_ condition: Bool, _ sentence: @autoclosure () -> String) throws(ContractViolation) {
    if !condition { throw ContractViolation(sentence()) }
}

/// One requirement for the transports of a port, in ``HTTPTransportContract`` or ``WebSocketTransportContract``.
public struct TransportContractCase<Transport: Sendable>: Sendable, CustomStringConvertible {
    typealias Check = @Sendable (_ transport: Transport, _ url: URL) async throws -> Void

    /// The requirement as a fact: `a status of 500 is a response`.
    public let name: String
    private let check: Check

    init(_ name: String, _ check: @escaping Check) {
        self.name = name
        self.check = check
    }

    /// Runs the case with a transport.
    ///
    /// - Parameters:
    ///   - transport: The transport to check.
    ///   - baseURL: The address of the contract's server, to which the cases add their paths.
    /// - Throws: ``ContractViolation`` if the requirement is not met, and any error that the transport should not have
    ///   thrown.
    public func run(_ transport: Transport, at baseURL: URL) async throws { try await check(transport, baseURL) }

    /// The name.
    public var description: String { name }
}

// MARK: The promises of both transports

extension TransportContractCase {
    /// Returns a case in which `operation` at `path` fails in this way. With a deadline, it fails when the deadline
    /// passes.
    static func failing(
        _ name: String, at path: String, _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage,
        deadline: Duration? = nil, _ operation: @escaping Check
    ) -> Self {
        Self(name) { transport, baseURL in
            let start = ContinuousClock.now
            try await expect(code, at: stage) { try await operation(transport, baseURL.appending(path: path)) }
            let time = ContinuousClock.now - start
            if let deadline {
                try require(
                    time >= deadline - .milliseconds(10) && time < .seconds(5),
                    "The deadline of \(deadline) ended it after \(time).")
            }
        }
    }

    /// Returns a case in which addresses that may not be used are refused before anything is sent.
    static func refusing(
        _ name: String, _ addresses: [String], _ code: ChappieTransportError.Code, _ operation: @escaping Check
    ) -> Self {
        Self(name) { transport, _ in
            for address in addresses {
                guard let url = URL(string: address) else { throw ContractViolation("'\(address)' is no URL.") }
                try await expect(code, at: .configuration) { try await operation(transport, url) }
            }
        }
    }

    /// Returns a case in which cancellation takes less than the 100 ms that the ports promise. A machine that is busy
    /// with something else may miss that once, not three times.
    static func cancelling(_ stage: String, at path: String, _ operation: @escaping Check) -> Self {
        Self("cancellation while \(stage) takes under 100 ms") { transport, baseURL in
            var times: [Duration] = []
            for _ in 0..<3 {
                let task = Task { try await operation(transport, baseURL.appending(path: path)) }
                // This is long enough to reach the stage. Otherwise, an earlier stage is cancelled, which is as quick.
                try await Task.sleep(for: .milliseconds(100))
                let start = ContinuousClock.now
                task.cancel()
                try await expectCancellation(of: task)
                times.append(ContinuousClock.now - start)
                if times[times.count - 1] < .milliseconds(100) { return }
            }
            throw ContractViolation("Cancelling while \(stage) took \(times).")
        }
    }

    /// Returns a case in which nothing begins in a task that has been cancelled.
    static func cancelledBefore(at path: String, _ operation: @escaping Check) -> Self {
        Self("a cancelled task begins nothing") { transport, baseURL in
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                try await operation(transport, baseURL.appending(path: path))
            }
            task.cancel()
            try await expectCancellation(of: task)
        }
    }
}

private func expectCancellation(of task: Task<Void, any Error>) async throws {
    let result = await task.result
    guard case .failure(let error) = result, error is CancellationError else {
        throw ContractViolation("Cancelling ended in \(result), not in CancellationError.")
    }
}

/// Runs `operation`, which must fail with this code at this stage.
func expect(
    _ code: ChappieTransportError.Code, at stage: ChappieTransportError.Stage, _ operation: () async throws -> Void
) async throws {
    do {
        try await operation()
    } catch let error as ChappieTransportError {
        return try require(
            error.code == code && error.stage == stage,
            "It failed with \(error.code) at \(error.stage) (\(error.reason)), not with \(code) at \(stage).")
    }
    throw ContractViolation("It succeeded where it had to fail with \(code) at \(stage).")
}
