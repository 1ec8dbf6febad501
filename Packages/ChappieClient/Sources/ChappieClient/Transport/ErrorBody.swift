import ChappieCore

/// The body of an answer that is an error, as far as it comes within a few seconds.
///
/// A body's own deadlines are for a model that thinks. An error is judged by what came of it: a page that never ends must
/// not hold up the other way, and a connection that breaks behind a usage limit does not make it another error.
enum ErrorBody {
    /// In bytes; what comes behind them is left out.
    static let limit = ErrorMapping.bodyLimit * 16

    /// Reads the body, and ends it.
    ///
    /// - Parameters:
    ///   - allowance: for the whole of it.
    ///   - clock: the machine's own by default, as with the transports' deadlines: a client's clock is for its pauses.
    /// - Throws: `CancellationError`. A body that breaks off is not an error.
    static func bytes(
        of body: HTTPBody, within allowance: Duration = .seconds(5), clock: any ChappieClock = SystemClock()
    ) async throws -> [UInt8] {
        let timer = Task {
            try await clock.sleep(for: allowance)
            body.cancel()
        }
        defer {
            timer.cancel()
            body.cancel()
        }
        var bytes: [UInt8] = []
        do {
            while bytes.count < limit, let chunk = try await body.next() {
                bytes += chunk.prefix(limit - bytes.count)
            }
        } catch {}  // Broken off, or out of time.
        try Task.checkCancellation()
        return bytes
    }
}
