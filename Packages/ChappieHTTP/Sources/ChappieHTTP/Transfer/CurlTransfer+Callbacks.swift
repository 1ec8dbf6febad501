import CCurl
import ChappieCore
import ChappieCurl
import HTTPTypes
import Synchronization

/// What curl reports and asks for, on the loop's thread.
///
/// None of these tells a reader anything: that waits until the end of the round, so that a hundred small pieces rouse a
/// task once.
extension CurlTransfer {
    /// The connection stands. Answering `false` stops the transfer.
    func connected() -> Bool {
        shared.withLock { shared in
            guard shared.state.connected(hasBody: plan.body?.isEmpty == false, at: LoopClock.now) else {
                shared.objection = .repeatedRequest
                return false
            }
            return true
        }
    }

    /// Fills `space` with the next piece of the request body; 0 at its end.
    func provideBody(_ space: UnsafeMutableRawBufferPointer) -> Int {
        guard let body = plan.body else { return 0 }
        return shared.withLock { shared in
            let piece = body[shared.bodyOffset...].prefix(space.count)
            space.copyBytes(from: piece)
            shared.bodyOffset += piece.count
            shared.state.sentBody(isWhole: shared.bodyOffset == body.count, at: LoopClock.now)
            return piece.count
        }
    }

    func rewindBody(to offset: Int) -> Bool {
        guard let body = plan.body, (0...body.count).contains(offset) else { return false }
        shared.withLock { $0.bodyOffset = offset }
        return true
    }

    /// Answering `false` stops the transfer.
    func receivedHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        shared.withLock { shared in
            switch shared.parser.receivedLine(line) {
            case .more: return true
            case .failed(let rule):
                shared.objection = .violation(rule)
                return false
            case .complete(let head):
                // Only a proxy asks for proxy credentials (RFC 9110, 15.5.8). Where there is a tunnel it does so
                // while connecting; this is a plain http request through a proxy on this machine.
                if head.status.code == 407, plan.route.proxy != .direct {
                    shared.objection = .refusedByProxy(status: 407)
                    return false
                }
                shared.state.receivedHead(at: LoopClock.now)
                shared.inbox.received(head)
                return true
            }
        }
    }

    /// Answering `false` makes curl wait and offer the same bytes again.
    func receivedBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
        shared.withLock { shared in
            guard shared.inbox.received(bytes) else {
                shared.state.paused()
                return false
            }
            shared.state.receivedBody(at: LoopClock.now)
            return true
        }
    }
}
