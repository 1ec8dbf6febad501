import ChappieCore
import ChappieCurl
import HTTPTypes

/// The users' side: each call looks first and waits only if it must.
extension WebSocketLink {
    var isOpen: Bool { act { $0.isOpen } }

    /// Starts the attempt and waits for the answer to the handshake.
    func open() async throws -> WebSocketSession.Opening {
        try Task.checkCancellation()
        try join()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                act { $0.awaitOpening { continuation.resume(with: $0) } }
            }
        } onCancel: {
            drop()
        }
    }

    func send(_ message: WebSocketMessage) async throws {
        try Task.checkCancellation()
        while true {
            let (end, id) = try act { session in (try session.send(message), session.newID()) }
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                    act { session in
                        guard !Task.isCancelled else { return continuation.resume(throwing: CancellationError()) }
                        if let end {
                            session.awaitWriting(upTo: end, as: id, at: LoopClock.now) { continuation.resume(with: $0) }
                        } else {
                            session.awaitRoom(for: message, as: id) { continuation.resume(with: $0) }
                        }
                    }
                    if end != nil { wake() }
                }
            } onCancel: {
                act { $0.giveUp(id) }
            }
            if end != nil { return }
        }
    }

    func nextArrival(within allowance: Duration?) async throws -> WebSocketInbound {
        try Task.checkCancellation()
        let (ready, resumes, id) = act { session in
            let wasFull = session.inbox.isFull
            let ready = session.takeArrival(within: allowance)
            return (ready, wasFull && !session.inbox.isFull, session.newID())
        }
        if resumes { wake() }
        if let ready { return try ready.get() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let needsVisit = act { session in
                    guard !Task.isCancelled else {
                        continuation.resume(throwing: CancellationError())
                        return false
                    }
                    session.awaitArrival(within: allowance, as: id, at: LoopClock.now) { continuation.resume(with: $0) }
                    guard let deadline = session.inbox.deadline else { return false }
                    return session.promisedVisit.map { deadline < $0 } ?? true
                }
                if needsVisit { wake() }
            }
        } onCancel: {
            act { $0.giveUp(id) }
        }
    }

    /// The next piece of a refusal's body.
    func nextChunk() async throws -> [UInt8]? {
        let (ready, resumes) = act { session in
            let wasFull = session.refusal.isFull
            let ready = session.takeBody()
            return (ready, wasFull && !session.refusal.isFull)
        }
        if resumes { wake() }
        if let ready { return try ready.get() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                act { $0.awaitBody { continuation.resume(with: $0) } }
            }
        } onCancel: {
            drop()
        }
    }

    func close(_ closure: WebSocketCloseReason) async {
        let (isOver, id) = act { session in
            session.close(closure, at: LoopClock.now)
            return (session.isOver, session.newID())
        }
        guard !isOver else { return }
        wake()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                act { session in
                    guard !Task.isCancelled else { return continuation.resume() }
                    session.awaitEnd(as: id) { continuation.resume() }
                }
            }
        } onCancel: {
            act { $0.giveUp(id) }
        }
    }

    /// Ends everything at once; the loop closes the socket.
    func drop() {
        let wasOver = act { session in
            let wasOver = session.isOver
            session.drop()
            return wasOver
        }
        if !wasOver { wake() }
    }
}
