public import ChappieAuth
public import ChappieCore
import Synchronization

/// A ``Notifier``, ``Browser`` and ``Clipboard`` that shows nothing and records every call.
public final class RecordingDesktop: Notifier, Browser, Clipboard {
    /// One notification.
    public struct Notification: Sendable, Hashable {
        /// The first line.
        public let title: String
        /// The text below the title.
        public let body: String
    }

    private struct Record {
        var permissionRequests = 0
        var notifications: [Notification] = []
        var openedURLs: [URL] = []
        var copiedTexts: [String] = []
    }

    private let record = Mutex(Record())
    private let error: DesktopError?

    /// Creates a desktop without records.
    ///
    /// - Parameter error: the error with which every call fails, after it is recorded. Default: none.
    public init(failingWith error: DesktopError? = nil) { self.error = error }

    /// The number of times that the user was asked whether notifications may be shown.
    public var permissionRequests: Int { record.withLock(\.permissionRequests) }
    /// Every notification so far.
    public var notifications: [Notification] { record.withLock(\.notifications) }
    /// Every opened address so far.
    public var openedURLs: [URL] { record.withLock(\.openedURLs) }
    /// Every copied text so far.
    public var copiedTexts: [String] { record.withLock(\.copiedTexts) }

    /// Records the request for permission.
    public func requestPermission() async throws(DesktopError) {
        record.withLock { $0.permissionRequests += 1 }
        if let error { throw error }
    }

    /// Records the notification.
    public func notify(title: String, body: String) async throws(DesktopError) {
        record.withLock { $0.notifications.append(Notification(title: title, body: body)) }
        if let error { throw error }
    }

    /// Records the address.
    public func open(_ url: URL) async throws(DesktopError) {
        record.withLock { $0.openedURLs.append(url) }
        if let error { throw error }
    }

    /// Records the text.
    public func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        record.withLock { $0.copiedTexts.append(text) }
        if let error { throw error }
        return .copied
    }
}

/// A ``SessionLock`` whose state a test sets.
public final class ManualSessionLock: SessionLock {
    private let answer: Mutex<Result<SessionLockState, CredentialStoreError>>

    /// Creates a lock in this state.
    public init(_ state: SessionLockState = .unlocked) { answer = Mutex(.success(state)) }

    /// Sets the state that every later question returns.
    public func set(_ state: SessionLockState) { answer.withLock { $0 = .success(state) } }

    /// Makes every later question fail with `error`.
    public func fail(with error: CredentialStoreError) { answer.withLock { $0 = .failure(error) } }

    /// Returns the state that was last set, or throws the error that was last set.
    public func state() async throws(CredentialStoreError) -> SessionLockState { try answer.withLock { $0 }.get() }
}

/// An ``Entropy`` that returns the same bytes every time: `start`, `start` + 1, and so on, wrapping around.
public struct FixedEntropy: Entropy {
    private let start: UInt8

    /// Creates an entropy with fixed bytes.
    ///
    /// - Parameter start: the first byte of every answer. Default 0.
    public init(startingAt start: UInt8 = 0) { self.start = start }

    /// Returns `count` bytes, beginning with `start`.
    public func bytes(_ count: Int) -> [UInt8] {
        (0..<max(count, 0)).map { start &+ UInt8(truncatingIfNeeded: $0) }
    }
}
