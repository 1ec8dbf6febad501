import ChappieCore

/// The messages that have arrived and wait for their receiver, and the receiver that waits for them.
struct WebSocketInbox {
    typealias Resume = @Sendable (Result<WebSocketInbound, any Error>) -> Void

    /// From this much on nothing more is read from the socket. What is read already is kept, however much it is: a
    /// message larger than this would never come otherwise.
    static let highWaterMark = 4 << 20
    /// What a message takes beside its payload, so that many small ones count as well.
    static let bytesPerMessage = 64

    /// How the connection ended for the receiver.
    enum End {
        case closed(WebSocketCloseReason)
        case failed(ChappieTransportError)
    }

    private struct Receiver {
        let id: Int
        let deadline: Duration?
        let allowance: Duration
        let resume: Resume
    }

    private let host: String
    private var messages: [WebSocketMessage] = []
    private var byteCount = 0
    private var receiver: Receiver?
    /// The first one counts.
    private(set) var end: End?

    /// - Parameter host: for errors.
    init(host: String) { self.host = host }

    var isFull: Bool { byteCount >= Self.highWaterMark }
    /// When the receiver's patience ends.
    var deadline: Duration? { receiver?.deadline }

    // MARK: The network's side

    mutating func received(_ arrived: [WebSocketMessage]) {
        guard end == nil else { return }
        byteCount += arrived.reduce(0) { $0 + $1.byteCount + Self.bytesPerMessage }
        if messages.isEmpty { messages = arrived } else { messages += arrived }
    }

    mutating func ended(_ end: End) { self.end = self.end ?? end }

    /// Nobody wants what has arrived.
    mutating func discard() {
        messages = []
        byteCount = 0
    }

    // MARK: The receiver's side

    /// What there is to be had without waiting.
    mutating func take() -> Result<WebSocketInbound, any Error>? {
        if !messages.isEmpty {
            defer { discard() }
            return .success(.messages(messages))
        }
        switch end {
        case nil: return nil
        case .closed(let closure): return .success(.closed(closure))
        case .failed(let error): return .failure(error)
        }
    }

    mutating func wait(as id: Int, within allowance: Duration?, at now: Duration, _ resume: @escaping Resume) {
        if receiver != nil { preconditionFailure("A WebSocket has one receiver; two tasks receive from this one.") }
        receiver = Receiver(id: id, deadline: allowance.map { now + $0 }, allowance: allowance ?? .zero, resume: resume)
    }

    /// Takes out the receiver if it gives up.
    mutating func giveUp(_ id: Int) -> Resume? {
        guard let receiver, receiver.id == id else { return nil }
        self.receiver = nil
        return receiver.resume
    }

    /// What a waiting receiver can be told by now.
    mutating func delivery(at now: Duration?) -> (Resume, Result<WebSocketInbound, any Error>)? {
        guard let receiver else { return nil }
        if let result = take() {
            self.receiver = nil
            return (receiver.resume, result)
        }
        guard let now, let deadline = receiver.deadline, deadline <= now else { return nil }
        self.receiver = nil
        return (receiver.resume, .failure(timeOut(after: receiver.allowance)))
    }

    func timeOut(after allowance: Duration) -> ChappieTransportError {
        ChappieTransportError(
            .timedOut, stage: .message, host: host, reason: "no message within \(allowance.inWords)")
    }
}
