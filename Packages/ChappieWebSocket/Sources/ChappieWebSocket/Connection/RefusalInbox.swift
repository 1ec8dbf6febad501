import ChappieCore

/// The body of an answer other than 101, as far as it has come, and the reader that waits for more.
struct RefusalInbox {
    typealias Resume = @Sendable (Result<[UInt8]?, any Error>) -> Void

    /// From this many bytes on nothing more is read from the socket.
    static let highWaterMark = 256 << 10

    private enum End {
        case whole
        case failed(any Error)
    }

    private var buffer: [UInt8] = []
    private var end: End?
    private var reader: Resume?

    var isFull: Bool { buffer.count >= Self.highWaterMark }

    mutating func received(_ bytes: [UInt8]) { buffer += bytes }
    mutating func finished() { end = end ?? .whole }
    mutating func failed(_ error: any Error) { end = end ?? .failed(error) }

    /// The reader has given up: nothing more is delivered.
    mutating func cancelled() {
        if case .failed? = end { return }
        buffer = []
        end = .failed(CancellationError())
    }

    /// What there is to be had without waiting.
    mutating func take() -> Result<[UInt8]?, any Error>? {
        if !buffer.isEmpty {
            defer { buffer = [] }
            return .success(buffer)
        }
        switch end {
        case nil: return nil
        case .whole: return .success(nil)
        case .failed(let error): return .failure(error)
        }
    }

    mutating func wait(_ resume: @escaping Resume) {
        if reader != nil { preconditionFailure("A response body has one reader; two tasks read this one.") }
        reader = resume
    }

    /// What a waiting reader can be told by now.
    mutating func delivery() -> (Resume, Result<[UInt8]?, any Error>)? {
        guard let reader, let result = take() else { return nil }
        self.reader = nil
        return (reader, result)
    }
}
