import ChappieCore
import FoundationEssentials
import HTTPTypes

extension HTTPTransportContract {
    static let endingCases: [Case] = [
        Case(name: "a connection cut before the head is lost") { transport, baseURL in
            try await expect(.connectionLost, at: .responseHead) {
                _ = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "cut-before-head")))
            }
        },
        Case(name: "a body cut short delivers what came and is then lost") { transport, baseURL in
            let response = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "cut-in-body")))
            var bytes = 0
            try await expect(.connectionLost, at: .responseBody) {
                while let chunk = try await response.body.next() { bytes += chunk.count }
            }
            try ContractViolation.require(bytes == 10, "It delivered \(bytes) of the 10 bytes before the cut.")
        },
        deadlineCase("no-head", at: .responseHead, ChappieDeadlines(responseHead: .milliseconds(250))),
        deadlineCase("no-body", at: .firstByte, ChappieDeadlines(firstByte: .milliseconds(250))),
        deadlineCase("half-a-body", at: .responseBody, ChappieDeadlines(idle: .milliseconds(250))),
        cancellationCase("waiting for the head", path: "no-head"),
        cancellationCase("waiting for the body", path: "no-body"),
        cancellationCase("reading the body", path: "half-a-body"),
        Case(name: "a cancelled task sends nothing") { transport, baseURL in
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                _ = try await transport.send(HTTPExchangeRequest(url: baseURL.appending(path: "hello")))
            }
            task.cancel()
            guard case .failure(let error) = await task.result, error is CancellationError else {
                throw ContractViolation("It sent a request for a task that had been cancelled.")
            }
        },
        Case(name: "cancelling the body ends it") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: "half-a-body"), deadlines: .patient)
            let body = try await transport.send(request).body
            _ = try await body.next()
            body.cancel()
            do {
                let chunk = try await body.next()
                try ContractViolation.require(chunk == nil, "It went on delivering after the body was cancelled.")
            } catch is CancellationError {
                // The other answer that the port allows.
            }
        },
    ]

    private static func deadlineCase(
        _ path: String, at stage: ChappieTransportError.Stage, _ deadlines: ChappieDeadlines
    ) -> Case {
        Case(name: "a stall (\(path)) ends at its own deadline") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: path), deadlines: deadlines)
            let (_, time) = try await timed {
                try await expect(.timedOut, at: stage) {
                    for try await _ in try await transport.send(request).body {}
                }
            }
            try ContractViolation.require(
                (Duration.milliseconds(240)..<Duration.seconds(5)).contains(time),
                "The deadline of 250 ms ended the exchange after \(time).")
        }
    }

    /// The port promises 100 ms. A machine that is busy with something else may miss that once, not three times.
    private static func cancellationCase(_ stage: String, path: String) -> Case {
        Case(name: "cancellation while \(stage) takes under 100 ms") { transport, baseURL in
            let request = HTTPExchangeRequest(url: baseURL.appending(path: path), deadlines: .patient)
            var times: [Duration] = []
            for _ in 0..<3 {
                let task = Task { for try await _ in try await transport.send(request).body {} }
                // Long enough to get to the stage; if it wasn't, an earlier stage was cancelled, as quickly.
                try await Task.sleep(for: .milliseconds(100))
                task.cancel()
                let (result, time) = await timed { await task.result }
                guard case .failure(let error) = result, error is CancellationError else {
                    throw ContractViolation("Cancelling while \(stage) ended in \(result), not in CancellationError.")
                }
                if time < .milliseconds(100) { return }
                times.append(time)
            }
            throw ContractViolation("Cancelling while \(stage) took \(times).")
        }
    }

    /// Runs `operation`, which must fail as the port says.
    static func expect(
        _ code: ChappieTransportError.Code, at stage: ChappieTransportError.Stage, _ operation: () async throws -> Void
    ) async throws {
        do {
            try await operation()
        } catch let error as ChappieTransportError {
            try ContractViolation.require(
                error.code == code && error.stage == stage,
                "It failed with \(error.code) at \(error.stage) (\(error.reason)), not with \(code) at \(stage).")
            return
        }
        throw ContractViolation("It succeeded where it had to fail with \(code) at \(stage).")
    }
}
