import ChappieCore

/// What has arrived from the network and waits for its reader, and the reader that waits for it.
///
/// A synchronous state machine: the loop's side reports what happened, the reader's side asks, and whoever finds both a
/// waiting reader and something for it gets the ``Delivery`` to carry out once the lock is let go.
struct TransferInbox {
    typealias HeadContinuation = CheckedContinuation<ResponseHead, any Error>
    typealias ChunkContinuation = CheckedContinuation<[UInt8]?, any Error>

    /// From this many buffered bytes on, curl is told to wait: enough to keep a fast connection busy while the reader
    /// works, little enough for hundreds of streams.
    static let highWaterMark = 256 * 1024

    /// Something to tell a reader, outside the lock.
    enum Delivery {
        case none
        case head(HeadContinuation, Result<ResponseHead, any Error>)
        case chunk(ChunkContinuation, Result<[UInt8]?, any Error>)

        func carryOut() {
            switch self {
            case .none: break
            case .head(let continuation, let result): continuation.resume(with: result)
            case .chunk(let continuation, let result): continuation.resume(with: result)
            }
        }
    }

    /// How the transfer ended.
    private enum End {
        case whole
        case failed(any Error)
    }

    private enum Reader {
        case absent
        case wantsHead(HeadContinuation)
        case wantsChunk(ChunkContinuation)
    }

    private var reader = Reader.absent
    private var head: ResponseHead?
    private var buffer: [UInt8] = []
    private var end: End?
    /// curl waits for the reader.
    private(set) var isPaused = false
    /// The reader has emptied the buffer while curl was waiting.
    private(set) var wantsResumption = false

    var hasEnded: Bool { end != nil }

    // MARK: The network's side

    mutating func received(_ head: ResponseHead) { self.head = head }

    /// Takes `bytes` over, or refuses them all because the buffer is full (then curl must wait and offer them again).
    mutating func received(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard buffer.count < Self.highWaterMark else {
            isPaused = true
            return false
        }
        buffer.append(contentsOf: bytes)
        return true
    }

    /// curl goes on; whether it had been waiting for that.
    mutating func resume() -> Bool {
        guard wantsResumption else { return false }
        wantsResumption = false
        isPaused = false
        return true
    }

    /// The transfer is over; the first report counts. What is buffered is still delivered.
    mutating func finished() { end = end ?? .whole }

    /// As ``finished()``, with an error after what is buffered.
    mutating func failed(_ error: any Error) { end = end ?? .failed(error) }

    /// The reader has given up: nothing more is delivered.
    mutating func cancelled() {
        if case .failed? = end { return }
        buffer = []
        head = nil
        end = .failed(CancellationError())
    }

    /// What a waiting reader can be told by now.
    mutating func delivery() -> Delivery {
        switch reader {
        case .absent: return .none
        case .wantsHead(let continuation):
            guard let result = takeHead() else { return .none }
            reader = .absent
            return .head(continuation, result)
        case .wantsChunk(let continuation):
            guard let result = takeChunk() else { return .none }
            reader = .absent
            return .chunk(continuation, result)
        }
    }

    // MARK: The reader's side

    mutating func awaitHead(_ continuation: HeadContinuation) -> Delivery {
        reader = .wantsHead(continuation)
        return delivery()
    }

    mutating func awaitChunk(_ continuation: ChunkContinuation) -> Delivery {
        if case .wantsChunk = reader { preconditionFailure("A response body has one reader; two tasks read this one.") }
        reader = .wantsChunk(continuation)
        return delivery()
    }

    /// All there is, or how it ended; `nil` when the reader has to wait.
    mutating func takeChunk() -> Result<[UInt8]?, any Error>? {
        if !buffer.isEmpty {
            let chunk = buffer
            buffer = []
            wantsResumption = isPaused
            return .success(chunk)
        }
        switch end {
        case nil: return nil
        case .whole: return .success(nil)
        case .failed(let error): return .failure(error)
        }
    }

    private mutating func takeHead() -> Result<ResponseHead, any Error>? {
        if let head { return .success(head) }
        guard case .failed(let error) = end else { return nil }
        return .failure(error)
    }
}
