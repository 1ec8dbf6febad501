import Synchronization

/// A response body, from which a single reader pulls chunks of bytes one at a time.
///
/// Before ``next()`` is called, at most a small buffer is read from the network, so a slow reader slows down the
/// sender. Releasing the last copy or calling ``cancel()`` ends the transfer.
public struct HTTPBody: AsyncSequence, AsyncIteratorProtocol, Sendable {
    /// One chunk, never empty.
    public typealias Element = [UInt8]

    private let source: Source

    /// Creates a body over a source of chunks.
    ///
    /// - Parameters:
    ///   - next: Returns the next chunk (never empty), or `nil` at the end. Throws ``ChappieTransportError`` or
    ///     `CancellationError`. It is never called by two tasks at the same time, and never again after it returned
    ///     `nil` or threw.
    ///   - cancel: Ends the transfer. May be called at any time, more than once, from any thread.
    ///   - allow: Raises the deadline between two reads. Default: does nothing, for a body without a deadline.
    public init(
        next: @escaping @Sendable () async throws -> [UInt8]?, cancel: @escaping @Sendable () -> Void,
        allow: @escaping @Sendable (_ silence: Duration) -> Void = { _ in }
    ) {
        source = Source(next: next, cancel: cancel, allow: allow)
    }

    /// Creates a body in memory, as one chunk.
    public init(bytes: [UInt8]) {
        self.init(chunks: bytes.isEmpty ? [] : [bytes])
    }

    /// Creates a body in memory from the given chunks, for fakes and tests. Empty chunks are left out.
    public init(chunks: [[UInt8]]) {
        let rest = Source.Chunks(chunks.filter { !$0.isEmpty })
        self.init(next: { rest.list.withLock { $0.popFirst() } }, cancel: {})
    }

    /// Returns the next chunk, or `nil` at the end of the body.
    ///
    /// - Throws: ``ChappieTransportError`` if the body ends early or a deadline passes. `CancellationError` if the task is
    ///   cancelled, also if bytes have already arrived. The transfer then ends.
    public func next() async throws -> [UInt8]? {
        // A source whose bytes have already arrived does not wait, and so does not notice a cancellation.
        if Task.isCancelled {
            source.cancel()
            throw CancellationError()
        }
        return try await source.next()
    }

    /// Returns the body itself, because it has one reader.
    public func makeAsyncIterator() -> HTTPBody { self }

    /// Ends the transfer now. The next read throws `CancellationError` or returns `nil`.
    public func cancel() { source.cancel() }

    /// Raises ``ChappieDeadlines/idle`` of this exchange to `silence`, for a sender that has announced a pause.
    public func allow(silence: Duration) { source.allow(silence) }

    /// Returns the entire body, up to `limit` bytes.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.bodyTooLarge` past `limit`, and the errors of ``next()``.
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

    /// Returns the beginning of an error's body, and ends the transfer. The beginning consists of the bytes that arrive
    /// within `allowance`, up to `limit`.
    ///
    /// The body's own deadlines allow time for a model that thinks. A page without an end must not delay the caller,
    /// and a connection that breaks after the error's head does not change the error.
    ///
    /// - Throws: `CancellationError`. A body that is cut off is not an error.
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
        } catch {}  // The body was cut off, or the time is over.
        try Task.checkCancellation()
        return bytes
    }

    private final class Source: Sendable {
        let next: @Sendable () async throws -> [UInt8]?
        let cancel: @Sendable () -> Void
        let allow: @Sendable (Duration) -> Void

        init(
            next: @escaping @Sendable () async throws -> [UInt8]?, cancel: @escaping @Sendable () -> Void,
            allow: @escaping @Sendable (Duration) -> Void
        ) {
            self.next = next
            self.cancel = cancel
            self.allow = allow
        }

        deinit { cancel() }

        /// The chunks of a body in memory.
        final class Chunks: Sendable {
            let list: Mutex<ArraySlice<[UInt8]>>

            init(_ chunks: [[UInt8]]) { list = Mutex(chunks[...]) }
        }
    }
}
