public import Dispatch

/// Runs `work` with a deadline, and throws `late` if the deadline passes before `work` ends.
///
/// At the deadline, or when the caller is cancelled, `work` is cancelled. Work that ignores the cancellation does not
/// delay the caller. Its late result is dropped.
///
/// - Parameters:
///   - limit: `nil` for no deadline.
///   - late: The error at the deadline.
/// - Throws: The errors of `work`, `late`, or `CancellationError`.
@_spi(ChappieInternals) public func withDeadline<Value: Sendable>(
    _ limit: Duration?, clock: any ChappieClock, late: any Error, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let result = Promise<Value>()
    let task = Task {
        do {
            result.fulfil(.success(try await work()))
        } catch {
            result.fulfil(.failure(error))
        }
    }
    let timer = limit.map { limit in
        Task {
            try await clock.sleep(for: limit)
            result.fulfil(.failure(late))
            task.cancel()
        }
    }
    defer { timer?.cancel() }
    return try await withTaskCancellationHandler {
        try await result.value()
    } onCancel: {
        task.cancel()
    }
}

/// Runs `work` to its end, even if the caller is cancelled, because the work must not stop half-way.
@_spi(ChappieInternals) public func uncancelled<Value: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () async throws(Failure) -> Value
) async throws(Failure) -> Value {
    let result = await Task { () async -> Result<Value, Failure> in
        do throws(Failure) {
            return .success(try await work())
        } catch {
            return .failure(error)
        }
    }.value
    return try result.get()
}

extension DispatchQueue {
    /// Runs `work`, which blocks, on this queue. Swift has only as many threads as there are cores, and they must never
    /// block. If the caller is cancelled, the work continues to its end, and the caller waits for it.
    @_spi(ChappieInternals) public func run<Value: Sendable, Failure: Error>(
        _ work: @escaping @Sendable () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let result = await withCheckedContinuation { continuation in
            async { continuation.resume(returning: Result { () throws(Failure) in try work() }) }
        }
        return try result.get()
    }
}

extension Duration {
    /// The duration in seconds, with fractions.
    @_spi(ChappieInternals) public var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}

/// The clock of loops and deadlines. It is never set back, and it runs while the machine sleeps.
@_spi(ChappieInternals) public enum LoopClock {
    private static let start = ContinuousClock.now

    /// The nanoseconds since an arbitrary start in this process. They are integers, because deadlines are compared
    /// several times for each packet.
    public static var now: Int { (ContinuousClock.now - start).nanoseconds }
}

extension Duration {
    /// The duration in nanoseconds, limited to some 290 years.
    @_spi(ChappieInternals) public var nanoseconds: Int {
        let (seconds, attoseconds) = components
        let (whole, overflow) = Int(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow, abs(whole) < .max / 2 else { return seconds < 0 ? .min / 2 : .max / 2 }
        return whole + Int(attoseconds / 1_000_000_000)
    }
}
