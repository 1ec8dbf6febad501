public import ChappieCore

/// A browser that shows a web page to the user.
public protocol Browser: Sendable {
    /// Opens `url` and returns once the browser has started. It is unknown whether a page appeared.
    ///
    /// - Throws: ``DesktopError`` if no page can be opened here.
    func open(_ url: URL) async throws(DesktopError)
}

/// A clipboard from which the user can paste text.
public protocol Clipboard: Sendable {
    /// Copies `text`.
    ///
    /// - Throws: ``DesktopError`` if no clipboard can be reached.
    func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome
}

/// The degree of certainty that a copy has succeeded.
public enum ClipboardOutcome: Sendable, Hashable {
    /// The owner of the clipboard accepted the text.
    case copied
    /// The terminal was asked to copy the text (OSC 52). Terminals don't answer, so never report to the user that it
    /// was copied.
    case requested
}

/// A notifier that shows a short desktop notification.
public protocol Notifier: Sendable {
    /// Asks the user whether this program may show notifications, if the platform requires that. Returns immediately if
    /// the user has answered before. The default does not ask, because a Linux desktop doesn't require it.
    ///
    /// - Throws: ``DesktopError`` if the user has refused.
    func requestPermission() async throws(DesktopError)

    /// Shows `title` and `body` (plain text).
    ///
    /// - Throws: ``DesktopError`` if notifications can't be shown here.
    func notify(title: String, body: String) async throws(DesktopError)
}

extension Notifier {
    /// Does nothing, for platforms on which notifications need no permission.
    public func requestPermission() async throws(DesktopError) {}
}

/// A failure of the desktop, as a sentence. The operation that needed the desktop continues without it.
public struct DesktopError: ChappieError, Hashable {
    /// A complete sentence that names the missing part and the alternative.
    public let sentence: String

    /// Creates an error with this message.
    public init(_ sentence: String) { self.sentence = sentence }

    /// The sentence for the user.
    public var errorDescription: String? { sentence }
}

/// A port that reports whether the user has locked the login session in which this program runs (the lock screen).
///
/// A complete fake:
/// ```swift
/// struct Unlocked: SessionLock {
///     func state() -> SessionLockState { .unlocked }
/// }
/// ```
public protocol SessionLock: Sendable {
    /// Returns the current state of the lock. It is not cached, because it may change at any time.
    ///
    /// - Throws: ``CredentialStoreError/sessionUnknown(_:)`` if there is a login session and its state can't be read,
    ///   which counts as locked. A missing session is *not* an error. The state is then
    ///   ``SessionLockState/noSession(_:)``.
    func state() async throws(CredentialStoreError) -> SessionLockState
}

/// The state of a login session's lock.
public enum SessionLockState: Sendable, Hashable {
    /// The lock screen is shown.
    case locked
    /// The session is not locked.
    case unlocked
    /// There is no session that could be locked, as in a container, in a service or on a system without a login
    /// manager. The string has the reason, as the middle of a sentence.
    case noSession(String)
}

/// A source of unpredictable bytes.
public protocol Entropy: Sendable {
    /// Returns `count` bytes that are good enough for keys and verifiers.
    ///
    /// - Throws: ``ChappieAuthError/secureRandomFailed(statusCode:)`` if the system returns none.
    func bytes(_ count: Int) throws -> [UInt8]
}

/// The system's generator (getrandom(2) on Linux, arc4random on Apple platforms), used through Swift's standard
/// library.
public struct SystemEntropy: Entropy {
    /// Creates the generator of this system.
    public init() {}

    /// Returns `count` unpredictable bytes.
    public func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<max(count, 0)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}
