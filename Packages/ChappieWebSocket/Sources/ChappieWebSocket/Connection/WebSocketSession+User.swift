import ChappieCore

/// What the connection's user does. Each waits as `id`, and may give up under it.
extension WebSocketSession {
    /// Whether messages can go out and come in, as far as anybody knows.
    var isOpen: Bool { lifetime.phase == .open && inbox.end == nil }

    mutating func awaitOpening(_ resume: @escaping OpeningResume) {
        opener = resume
        tellWaiters(at: nil)
    }

    /// Queues `message`, if there is room for it.
    ///
    /// - Returns: what ``awaitWriting(upTo:as:at:_:)`` takes; `nil` when the sender has to wait for
    ///   ``awaitRoom(for:as:_:)`` first.
    /// - Throws: the connection's end; a message over the limit, of which nothing goes out.
    mutating func send(_ message: WebSocketMessage) throws(ChappieTransportError) -> Int? {
        guard isOpen else {
            if case .failed(let error) = inbox.end { throw error }
            throw fault.error(sending: .closed)
        }
        let tooLarge = WebSocketCodecError.messageTooLarge(limitBytes: limits.maximumFrameBytes)
        guard message.byteCount <= limits.maximumFrameBytes else { throw fault.error(sending: tooLarge) }
        guard outbox.hasRoom(for: message.byteCount) else { return nil }
        do throws(WebSocketCodecError) {
            guard let frame = try codec?.send(message, nextMaskingKey: keys.next) else { throw .closed }
            outbox.append(frame)
        } catch {
            throw fault.error(sending: error)
        }
        return outbox.queuedTotal
    }

    /// Waits until everything up to `end` is written, or nothing more is to be waited for.
    mutating func awaitWriting(
        upTo end: Int, as id: Int, at now: Duration, _ resume: @escaping WebSocketOutbox.Resume
    ) {
        outbox.awaitWriting(upTo: end, as: id, resume)
        tellWaiters(at: now)
    }

    mutating func awaitRoom(for message: WebSocketMessage, as id: Int, _ resume: @escaping WebSocketOutbox.Resume) {
        outbox.wait(as: id, for: message.byteCount, resume)
        tellWaiters(at: nil)
    }

    /// What a receiver gets without waiting; `nil` when it has to wait for ``awaitArrival(within:as:at:_:)``.
    mutating func takeArrival(within allowance: Duration?) -> Result<WebSocketInbound, any Error>? {
        if let arrival = inbox.take() { return arrival }
        guard let allowance, allowance <= .zero else { return nil }
        return .failure(inbox.timeOut(after: .zero))
    }

    mutating func awaitArrival(
        within allowance: Duration?, as id: Int, at now: Duration, _ resume: @escaping WebSocketInbox.Resume
    ) {
        inbox.wait(as: id, within: allowance, at: now, resume)
        tellWaiters(at: nil)
    }

    mutating func takeBody() -> Result<[UInt8]?, any Error>? { refusal.take() }

    mutating func awaitBody(_ resume: @escaping RefusalInbox.Resume) {
        refusal.wait(resume)
        tellWaiters(at: nil)
    }

    /// Begins the closing handshake, if there is something to close.
    mutating func close(_ closure: WebSocketCloseReason, at now: Duration) {
        guard isOpen else { return }
        outbox.append(codec?.close(closure, nextMaskingKey: keys.next) ?? [])
        lifetime.closed(at: now)
        tellWaiters(at: nil)
    }

    mutating func awaitEnd(as id: Int, _ resume: @escaping @Sendable () -> Void) {
        closers.append((id, resume))
        tellWaiters(at: nil)
    }

    /// A task that waits as `id` was cancelled.
    mutating func giveUp(_ id: Int) {
        if let resume = outbox.giveUp(id) { later { resume(.failure(CancellationError())) } }
        if let resume = inbox.giveUp(id) { later { resume(.failure(CancellationError())) } }
        if let index = closers.firstIndex(where: { $0.id == id }) { later(closers.remove(at: index).resume) }
    }

    /// The user lets go of the connection: everything ends at once, and nothing more is delivered.
    mutating func drop() {
        guard !isOver || inbox.end == nil else { return }
        opening = opening ?? .failure(CancellationError())
        inbox.discard()
        inbox.ended(.failed(fault.dropped))
        refusal.cancelled()
        over()
        tellWaiters(at: nil)
    }
}
