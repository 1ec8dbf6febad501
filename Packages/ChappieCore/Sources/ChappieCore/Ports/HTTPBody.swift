import Synchronization

/// A response body: chunks of bytes, pulled one at a time by a single reader.
///
/// Nothing is read from the network beyond a small buffer until ``next()`` is called, so a slow reader slows the sender.
/// Letting go of the last copy, or calling ``cancel()``, ends the transfer.
public struct HTTPBody: AsyncSequence, AsyncIteratorProtocol, Sendable {
    /// One chunk, never empty.
    public typealias Element = [UInt8]

    private let source: Source

    /// A body over a source of chunks.
    ///
    /// - Parameters:
    ///   - next: gives the next chunk (never empty), `nil` at the end; throws ``ChappieTransportError`` or
    ///     `CancellationError`. Never called by two tasks at once, nor again after it gave `nil` or threw.
    ///   - cancel: ends the transfer; may be called at any time, more than once, from any thread.
    public init(
        next: @escaping @Sendable () async throws -> [UInt8]?, cancel: @escaping @Sendable () -> Void
    ) {
        source = Source(next: next, cancel: cancel)
    }

    /// A body that is already there, as one chunk.
    public init(bytes: [UInt8]) {
        self.init(chunks: bytes.isEmpty ? [] : [bytes])
    }

    /// A body that is already there, in the chunks given (empty ones are left out); for fakes and tests.
    public init(chunks: [[UInt8]]) {
        let rest = Source.Chunks(chunks.filter { !$0.isEmpty })
        self.init(next: { rest.list.withLock { $0.popFirst() } }, cancel: {})
    }

    /// The next chunk, or `nil` at the end of the body.
    ///
    /// - Throws: ``ChappieTransportError`` when the body ends early or a deadline passes; `CancellationError`.
    public func next() async throws -> [UInt8]? { try await source.next() }

    /// The body itself: it has one reader.
    public func makeAsyncIterator() -> HTTPBody { self }

    /// Ends the transfer now. Reading on throws `CancellationError` or gives `nil`.
    public func cancel() { source.cancel() }

    /// The whole body, up to `limit` bytes.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.bodyTooLarge` past `limit`, and what ``next()`` throws.
    public func collect(upTo limit: Int, host: String = "") async throws -> [UInt8] {
        var whole: [UInt8] = []
        while let chunk = try await next() {
            guard chunk.count <= limit - whole.count else {
                cancel()
                throw ChappieTransportError(
                    .bodyTooLarge, stage: .responseBody, host: host, reason: "the answer is over \(limit) bytes")
            }
            whole.append(contentsOf: chunk)
        }
        return whole
    }

    /// The beginning of the body of an error: what comes within `allowance`, up to `limit` bytes. Ends the transfer.
    ///
    /// A body's own deadlines are for a model that thinks. A page that never ends must hold nothing up, and a connection
    /// that breaks behind an error does not make it another one.
    ///
    /// - Throws: `CancellationError`. A body that breaks off is not an error.
    @_spi(ChappieInternals) public func beginning(
        upTo limit: Int = 1 << 20, within allowance: Duration = .seconds(5), clock: any ChappieClock = SystemClock()
    ) async throws -> [UInt8] {
        let timer = Task {
            try await clock.sleep(for: allowance)
            cancel()
        }
        defer {
            timer.cancel()
            cancel()
        }
        var bytes: [UInt8] = []
        do {
            while bytes.count < limit, let chunk = try await next() { bytes += chunk.prefix(limit - bytes.count) }
        } catch {}  // It broke off, or ran out of time.
        try Task.checkCancellation()
        return bytes
    }

    private final class Source: Sendable {
        let next: @Sendable () async throws -> [UInt8]?
        let cancel: @Sendable () -> Void

        init(next: @escaping @Sendable () async throws -> [UInt8]?, cancel: @escaping @Sendable () -> Void) {
            self.next = next
            self.cancel = cancel
        }

        deinit { cancel() }

        /// Chunks that are there already.
        final class Chunks: Sendable {
            let list: Mutex<ArraySlice<[UInt8]>>

            init(_ chunks: [[UInt8]]) { list = Mutex(chunks[...]) }
        }
    }
}
