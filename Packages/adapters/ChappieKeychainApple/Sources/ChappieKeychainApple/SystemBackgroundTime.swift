#if canImport(Security)
    public import ChappieAuth
    import ChappieCore
    import Dispatch
    import Synchronization

    #if canImport(UIKit)
        import UIKit
    #endif

    // The project has not run this file on any machine. It is compiled against declarations that are written by hand.

    /// The background time of iOS and visionOS (`performExpiringActivity`), also for app extensions. It is some 30
    /// seconds after the user has left the app. A Mac suspends no program, and this type does nothing there.
    ///
    /// <https://developer.apple.com/documentation/foundation/processinfo/performexpiringactivity(withreason:using:)>
    public struct SystemBackgroundTime: BackgroundTime {
        /// Creates the value.
        public init() {}

        /// Asks for time until the hold is released.
        public func hold(_ reason: String) -> BackgroundHold {
            #if canImport(UIKit)
                let activity = Activity(reason)
                return BackgroundHold { activity.end() }
            #else
                return BackgroundHold {}
            #endif
        }
    }

    #if canImport(UIKit)
        /// An activity that begins again after it has expired, because the user may come back to the app and leave it
        /// once more.
        private final class Activity: Sendable {
            private enum Phase {
                /// The system's activity lasts as long as its block, which waits for the semaphore.
                case running(DispatchSemaphore)
                case expired, ended
            }

            /// The pause before the activity begins again. The system suspends an app within this time.
            private static let pause = DispatchTimeInterval.seconds(5)
            private let reason: String
            private let phase = Mutex(Phase.expired)

            init(_ reason: String) {
                self.reason = reason
                begin()
            }

            func end() { leave(for: .ended) }

            private func begin() {
                let isOver = DispatchSemaphore(value: 0)
                let isNeeded = phase.withLock { phase in
                    guard case .expired = phase else { return false }
                    phase = .running(isOver)
                    return true
                }
                guard isNeeded else { return }
                ProcessInfo.processInfo.performExpiringActivity(withReason: reason) { [self] isExpired in
                    guard isExpired else { return isOver.wait() }
                    guard leave(for: .expired) else { return }
                    DispatchQueue.global().asyncAfter(deadline: .now() + Self.pause) { [self] in begin() }
                }
            }

            /// Lets the block return, if it runs. Returns whether it ran.
            @discardableResult
            private func leave(for next: Phase) -> Bool {
                phase.withLock { phase in
                    if case .ended = phase { return false }
                    defer { phase = next }
                    guard case .running(let isOver) = phase else { return false }
                    isOver.signal()
                    return true
                }
            }
        }
    #endif
#endif
