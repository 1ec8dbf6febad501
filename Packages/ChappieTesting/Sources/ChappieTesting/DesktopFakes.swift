public import ChappieAuth
public import FoundationEssentials
import Synchronization

/// ``Notifier`` that shows nothing and remembers what it was asked to show.
public final class RecordingNotifier: Notifier {
    /// One notification.
    public struct Notification: Sendable, Hashable {
        /// The first line.
        public let title: String
        /// The text below.
        public let body: String
    }

    private let shown = Mutex<[Notification]>([])
    private let stream = AsyncStream.makeStream(of: Notification.self)
    private let error: DesktopError?

    /// - Parameter error: what every call fails with, after remembering it. Default: none.
    public init(failingWith error: DesktopError? = nil) { self.error = error }

    deinit { stream.continuation.finish() }

    /// Every notification so far.
    public var notifications: [Notification] { shown.withLock { $0 } }

    /// Every notification as it comes, for one reader.
    public var updates: AsyncStream<Notification> { stream.stream }

    /// Remembers the notification.
    public func notify(title: String, body: String) async throws(DesktopError) {
        let notification = Notification(title: title, body: body)
        shown.withLock { $0.append(notification) }
        stream.continuation.yield(notification)
        if let error { throw error }
    }
}

/// ``Browser`` that opens nothing and remembers what it was asked to open.
public final class RecordingBrowser: Browser {
    private let urls = Mutex<[URL]>([])
    private let error: DesktopError?

    /// - Parameter error: what every call fails with, after remembering it. Default: none.
    public init(failingWith error: DesktopError? = nil) { self.error = error }

    /// Every address so far.
    public var openedURLs: [URL] { urls.withLock { $0 } }

    /// Remembers the address.
    public func open(_ url: URL) async throws(DesktopError) {
        urls.withLock { $0.append(url) }
        if let error { throw error }
    }
}

/// ``Clipboard`` that keeps what it was given.
public final class RecordingClipboard: Clipboard {
    private let texts = Mutex<[String]>([])
    private let outcome: Result<ClipboardOutcome, DesktopError>

    /// - Parameter outcome: what every call answers. Default: `.success(.copied)`.
    public init(_ outcome: Result<ClipboardOutcome, DesktopError> = .success(.copied)) { self.outcome = outcome }

    /// Every text so far.
    public var copiedTexts: [String] { texts.withLock { $0 } }

    /// Remembers the text.
    public func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        texts.withLock { $0.append(text) }
        return try outcome.get()
    }
}

/// ``SessionLock`` whose state is what a test has set last.
public final class ManualSessionLock: SessionLock {
    private let answer: Mutex<Result<SessionLockState, CredentialStoreError>>

    /// A lock in this state.
    public init(_ state: SessionLockState = .unlocked) { answer = Mutex(.success(state)) }

    /// Every question from now on is answered with `state`.
    public func set(_ state: SessionLockState) { answer.withLock { $0 = .success(state) } }

    /// Every question from now on fails with `error`.
    public func fail(with error: CredentialStoreError) { answer.withLock { $0 = .failure(error) } }

    /// The state that was set last.
    public func state() async throws(CredentialStoreError) -> SessionLockState { try answer.withLock { $0 }.get() }
}

/// ``Entropy`` that gives the same bytes every time: `start`, `start` + 1, and so on, wrapping around.
public struct FixedEntropy: Entropy {
    private let start: UInt8

    /// - Parameter start: the first byte of every answer. Default 0.
    public init(startingAt start: UInt8 = 0) { self.start = start }

    /// The bytes from `start` on.
    public func bytes(_ count: Int) -> [UInt8] {
        (0..<max(count, 0)).map { start &+ UInt8(truncatingIfNeeded: $0) }
    }
}
