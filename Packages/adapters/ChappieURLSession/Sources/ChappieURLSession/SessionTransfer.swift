@_spi(ChappieInternals) import ChappieCore
import Foundation
import HTTPTypes
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The calls that an exchange makes to a task.
protocol SessionTask: Sendable {
    func begin()
    /// Stops reading from the network until ``proceed()``.
    func hold()
    func proceed()
    func cancel()
}

/// An exchange that connects the events of a URLSession task to a reader's task.
final class SessionTransfer: Sendable {
    private struct Alarm {
        let moment: Int
        let task: Task<Void, Never>
    }

    private let host: String
    private let bodyBytes: Int
    private let handoff: TransferHandoff
    private let task = Mutex<(any SessionTask)?>(nil)
    private let alarm = Mutex<Alarm?>(nil)

    init(host: String, bodyBytes: Int, deadlines: ChappieDeadlines) {
        self.host = host
        self.bodyBytes = bodyBytes
        handoff = TransferHandoff(TransferState(deadlines: deadlines, startedAt: LoopClock.now))
    }

    // MARK: The reader's side

    /// Starts the exchange and waits for its final head.
    func start(_ task: any SessionTask) async throws -> ResponseHead {
        self.task.withLock { $0 = task }
        change { state in
            // For a request without a body, URLSession reports nothing until the head has arrived.
            if bodyBytes == 0 { _ = state.connected(hasBody: false, at: LoopClock.now) }
        }
        task.begin()
        return try await handoff.head { self.cancel() }
    }

    /// Returns all bytes that have arrived, as soon as there are some. Returns `nil` at the end.
    func nextChunk() async throws -> [UInt8]? {
        let ready = change { state in
            let ready = state.takeChunk()
            // This call is within the lock, like the call in `received`. The task counts such calls, and they must not
            // overtake each other.
            if state.resume(at: LoopClock.now) { task.withLock { $0?.proceed() } }
            return ready
        }
        if let ready { return try ready.get() }
        return try await handoff.chunk { self.cancel() }
    }

    /// Ends the exchange unless it has already ended. The reader gets the error at once.
    func cancel() {
        change { $0.cancelled(at: LoopClock.now) }
    }

    /// Extends the deadline for silence within the body.
    func allow(silence: Duration) { change { $0.allow(silence: silence) } }

    // MARK: The task's side

    /// Records that `total` bytes of the body have been sent.
    func sentBody(_ total: Int64) {
        change { state in
            if state.phase == .connecting { _ = state.connected(hasBody: true, at: LoopClock.now) }
            state.sentBody(isWhole: total >= bodyBytes, at: LoopClock.now)
        }
    }

    func received(_ response: URLResponse) {
        guard let response = response as? HTTPURLResponse else { return fail(.violation("its answer is not HTTP")) }
        // FoundationNetworking passes on informational heads.
        guard response.statusCode >= 200 || response.statusCode == 101 else { return }
        guard response.allHeaderFields.count <= ResponseHeadParser.fieldLimit else {
            return fail(.violation("its response head has over \(ResponseHeadParser.fieldLimit) fields"))
        }
        let head = ResponseHead(response)
        if let rule = head.violation { return fail(.violation(rule)) }
        change { $0.received(head, at: LoopClock.now) }
    }

    func received(_ data: Data) {
        change { state in
            let goesOn = data.withUnsafeBytes { state.mustTakeBody($0, at: LoopClock.now) }
            if !goesOn { task.withLock { $0?.hold() } }
        }
    }

    /// Handles the end of the task. FoundationNetworking reports a redirect without a location only at this point.
    func ended(_ error: (any Error)?, response: URLResponse?) {
        task.withLock { $0 = nil }
        if let error { return fail(SessionFailure(error)) }
        let hasHead = { (state: inout TransferState) in
            ![.connecting, .sending, .awaitingHead].contains(state.phase)
        }
        if let response, !handoff.withState(hasHead) { received(response) }
        change { state in
            state.ended(hasHead(&state) ? nil : SessionFailure.lost.error(at: state.stage, host: host))
        }
    }

    /// Ends the exchange, because the server's certificate is from neither the system's authorities nor the extra ones.
    func refusedCertificate() { fail(.untrustedAuthority) }

    private func fail(_ failure: SessionFailure) {
        change { $0.ended(failure.error(at: $0.stage, host: host)) }
    }

    // MARK: Time

    /// Changes the state, resumes the reader if there is a result for it, and sets the alarm to the next deadline. An
    /// exchange that has ended releases its task.
    @discardableResult
    private func change<Value: Sendable>(_ change: (inout TransferState) -> Value) -> Value {
        let (value, deadline, hasEnded) = handoff.act { (change(&$0), $0.deadline, $0.hasEnded) }
        alarm.withLock { alarm in
            if let known = alarm, hasEnded || deadline.map({ $0 < known.moment }) ?? false {
                known.task.cancel()
                alarm = nil
            }
            // The current alarm will detect a later deadline.
            guard alarm == nil, let deadline else { return }
            let wait = Duration.nanoseconds(max(0, deadline - LoopClock.now))
            let task = Task {
                guard (try? await Task.sleep(for: wait, clock: .continuous)) != nil else { return }
                self.alarm.withLock { if !Task.isCancelled { $0 = nil } }
                expire()
            }
            alarm = Alarm(moment: deadline, task: task)
        }
        if hasEnded { task.withLock { $0.take() }?.cancel() }
        return value
    }

    private func expire() {
        change { state in
            let now = LoopClock.now
            guard let allowance = state.expired(at: now) else { return }
            let isLost = state.sleptThrough(at: now)
            state.timedOut(
                isLost
                    ? ChappieTransportError.lost(at: state.stage, host: host)
                    : .timedOut(at: state.stage, host: host, after: allowance))
        }
    }
}

extension ResponseHead {
    /// Creates a head with the fields in the order of their names, because URLSession has lost their order. Fields that
    /// violate the grammar are omitted.
    init(_ response: HTTPURLResponse) {
        var fields = HTTPFields()
        let pairs = response.allHeaderFields.compactMap { name, value -> (String, String)? in
            guard let name = name as? String, let value = value as? String else { return nil }
            return (name, value)
        }
        for (name, value) in pairs.sorted(by: { $0.0 < $1.0 }) {
            guard let name = HTTPField.Name(name), HTTPField.isValidValue(value) else { continue }
            fields.append(HTTPField(name: name, value: value))
        }
        self.init(status: .init(code: min(response.statusCode, 999)), headerFields: fields)
    }
}
