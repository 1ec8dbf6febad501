public import ChappieAuth
import Synchronization

/// A system that grants background time without a limit, and remembers for what it was asked.
public final class RecordingBackgroundTime: BackgroundTime {
    private let state = Mutex((held: [String: Int](), asked: [String]()))

    /// Creates a system that was asked for nothing.
    public init() {}

    /// The reasons of the holds that are not released.
    public var held: Set<String> { state.withLock { Set($0.held.filter { $0.value > 0 }.keys) } }
    /// The reasons of all holds, in order.
    public var asked: [String] { state.withLock(\.asked) }

    /// Records the hold.
    public func hold(_ reason: String) -> BackgroundHold {
        state.withLock { state in
            state.asked.append(reason)
            state.held[reason, default: 0] += 1
        }
        return BackgroundHold { [self] in state.withLock { $0.held[reason, default: 0] -= 1 } }
    }
}
