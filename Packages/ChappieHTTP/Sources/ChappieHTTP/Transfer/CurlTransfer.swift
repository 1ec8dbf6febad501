import CCurl
import ChappieCore
import ChappieCurl
import HTTPTypes
import Synchronization

/// One exchange on an event loop: the shell between curl's callbacks on one side and a reader's task on the other.
///
/// All state is under one lock. Each entry point changes it there and carries out what follows after letting it go.
final class CurlTransfer: CurlLoopMember {
    struct Shared {
        var state: TransferState
        var parser = ResponseHeadParser()
        var inbox = TransferInbox()
        /// How much of the request body curl has taken.
        var bodyOffset = 0
        /// Why a callback stopped the transfer; curl itself then reports no more than that it was stopped.
        var objection: Objection?
    }

    /// What our callbacks object to.
    enum Objection {
        case repeatedRequest
        case violation(String)
        case refusedByProxy(status: Int)
    }

    let plan: RequestPlan
    let shared: Mutex<Shared>
    private let loop: CurlEventLoop

    init(_ plan: RequestPlan, loop: CurlEventLoop) {
        self.plan = plan
        self.loop = loop
        shared = Mutex(Shared(state: TransferState(deadlines: plan.deadlines, startedAt: LoopClock.now)))
    }

    // MARK: The reader's side

    /// Starts the exchange and waits for its final head.
    func start() async throws -> ResponseHead {
        try Task.checkCancellation()
        try loop.add(self)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                shared.withLock { $0.inbox.awaitHead(continuation) }.carryOut()
            }
        } onCancel: {
            cancel()
        }
    }

    /// All that has arrived, as soon as there is something; `nil` at the end.
    func nextChunk() async throws -> [UInt8]? {
        let (ready, wantsResumption) = shared.withLock { ($0.inbox.takeChunk(), $0.inbox.wantsResumption) }
        if wantsResumption { loop.wake() }
        if let ready { return try ready.get() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                shared.withLock { $0.inbox.awaitChunk(continuation) }.carryOut()
            }
        } onCancel: {
            cancel()
        }
    }

    /// Ends the exchange, if it has not ended: the reader learns at once, the connection closes on the loop's thread.
    func cancel() {
        let (delivery, wasRunning) = shared.withLock { shared in
            let wasRunning = !shared.inbox.hasEnded
            shared.inbox.cancelled()
            return (shared.inbox.delivery(), wasRunning)
        }
        delivery.carryOut()
        if wasRunning { loop.wake() }
    }

    // MARK: The loop's side

    func joined(_ handle: EasyHandle) -> Bool {
        // It may have been cancelled on the way here.
        guard !shared.withLock({ $0.inbox.hasEnded }) else { return false }
        // The loop holds the member for as long as it holds the handle.
        handle.configure(for: plan, context: Unmanaged.passUnretained(self).toOpaque())
        return true
    }

    func finished(_ handle: EasyHandle, with result: CURLcode) -> Bool {
        let describe = failure(result, of: handle)
        let delivery = shared.withLock { shared in
            let facts = describe(shared.state.stage)
            if let objection = shared.objection {
                shared.inbox.failed(facts.error(for: objection))
            } else if result != CURLE_OK {
                shared.inbox.failed(facts.error)
            } else if !shared.parser.isComplete {
                // curl is content with a head that breaks off.
                shared.inbox.failed(facts.lost)
            } else {
                shared.inbox.finished()
            }
            shared.state.ended()
            return shared.inbox.delivery()
        }
        delivery.carryOut()
        return false
    }

    func roundEnded(_ handle: EasyHandle, at now: Duration) -> CurlLoopVerdict {
        let resumes = shared.withLock { shared in
            let resumes = shared.inbox.resume()
            if resumes { shared.state.resumed(at: now) }
            return resumes
        }
        // Outside the lock: curl offers what it held back from within this call.
        if resumes { curl_easy_pause(handle.raw, CURLPAUSE_CONT) }

        let (delivery, verdict) = shared.withLock { shared -> (TransferInbox.Delivery, CurlLoopVerdict) in
            if let (phase, allowance) = shared.state.expired(at: now) {
                let facts = failure(CURLE_OPERATION_TIMEDOUT, of: handle)(phase.stage)
                shared.inbox.failed(facts.timeOut(allowance: allowance))
            }
            let delivery = shared.inbox.delivery()
            if shared.inbox.hasEnded {
                shared.state.ended()
                return (delivery, .leave)
            }
            return (delivery, .stay(until: shared.state.deadline))
        }
        delivery.carryOut()
        return verdict
    }

    func loopStopped() {
        let delivery = shared.withLock { shared in
            shared.inbox.failed(
                ChappieTransportError.unavailable(
                    "the connection pool has been shut down", host: plan.route.origin.label))
            shared.state.ended()
            return shared.inbox.delivery()
        }
        delivery.carryOut()
    }

    /// Reads from the handle what it knows about a failure; the stage is filled in under the lock.
    private func failure(
        _ result: CURLcode, of handle: EasyHandle
    ) -> (ChappieTransportError.Stage) -> CurlFailure {
        { [plan] stage in CurlFailure(result, of: handle, at: stage, on: plan.route) }
    }
}
