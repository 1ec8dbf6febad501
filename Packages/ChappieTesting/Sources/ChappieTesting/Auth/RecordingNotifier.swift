public import ChappieAuth
import Synchronization

/// ``Notifier`` that shows nothing and remembers what it was asked to show.
public final class RecordingNotifier: Notifier {
    /// One notification.
    public struct Notification: Sendable, Hashable {
        /// Its title.
        public let title: String
        public let body: String
    }

    private let shown = Mutex<[Notification]>([])
    private let stream = AsyncStream.makeStream(of: Notification.self)
    private let error: DesktopError?

    /// - Parameter error: what every call fails with, after remembering it. Default: none.
    public init(failingWith error: DesktopError? = nil) { self.error = error }

    deinit { stream.continuation.finish() }

    /// The notifications that were shown, in order.
    public var notifications: [Notification] { shown.withLock { $0 } }

    /// Every notification as it comes, for one reader.
    public var updates: AsyncStream<Notification> { stream.stream }

    public func notify(title: String, body: String) async throws(DesktopError) {
        let notification = Notification(title: title, body: body)
        shown.withLock { $0.append(notification) }
        stream.continuation.yield(notification)
        if let error { throw error }
    }
}
