public import ChappieCore

/// Shows a web page to the user.
public protocol Browser: Sendable {
    /// Opens `url` and returns once the browser has been started. Whether a page appeared is unknown.
    ///
    /// - Throws: ``DesktopError`` if no page can be opened here.
    func open(_ url: URL) async throws(DesktopError)
}

/// Copies text to a place from which the user can paste it.
public protocol Clipboard: Sendable {
    /// Copies `text`.
    ///
    /// - Throws: ``DesktopError`` if no clipboard can be reached.
    func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome
}

/// The certainty that a copy has succeeded.
public enum ClipboardOutcome: Sendable, Hashable {
    /// The owner of the clipboard took the text.
    case copied
    /// The terminal was asked (OSC 52), and terminals don't answer: never report to the user that it was copied.
    case requested
}

/// Shows a short desktop notification.
public protocol Notifier: Sendable {
    /// Asks the user whether this program may show notifications, if the platform requires that. Returns at once if the
    /// user has answered before. The default asks nothing, since a Linux desktop doesn't require it.
    ///
    /// - Throws: ``DesktopError`` if the user has refused.
    func requestPermission() async throws(DesktopError)

    /// Shows `title` and `body` (plain text).
    ///
    /// - Throws: ``DesktopError`` if notifications can't be shown here.
    func notify(title: String, body: String) async throws(DesktopError)
}

extension Notifier {
    /// Asks nothing: for platforms on which notifications need no permission.
    public func requestPermission() async throws(DesktopError) {}
}

/// A failure of the desktop, as a sentence. The work that asked for it continues without it.
public struct DesktopError: ChappieError, Hashable {
    /// A whole sentence: the missing part and the alternative.
    public let sentence: String

    /// An error with this message.
    public init(_ sentence: String) { self.sentence = sentence }

    /// The sentence.
    public var errorDescription: String? { sentence }
}

/// Reports whether the user has locked the login session in which this program runs (the lock screen).
///
/// A complete fake:
/// ```swift
/// struct Unlocked: SessionLock {
///     func state() -> SessionLockState { .unlocked }
/// }
/// ```
public protocol SessionLock: Sendable {
    /// The present state of the lock. It is not cached, since it may change at any time.
    ///
    /// - Throws: ``CredentialStoreError/sessionUnknown(_:)`` if there is a login session and its state can't be read, which
    ///   counts as locked. A missing session is *not* an error: ``SessionLockState/noSession(_:)``.
    func state() async throws(CredentialStoreError) -> SessionLockState
}

/// The state of a login session's lock.
public enum SessionLockState: Sendable, Hashable {
    /// The lock screen is shown.
    case locked
    /// The session is not locked.
    case unlocked
    /// No session could be locked (a container, a service, a system without a login manager). The string
    /// has the reason, as the middle of a sentence.
    case noSession(String)
}

/// Unpredictable bytes.
public protocol Entropy: Sendable {
    /// `count` bytes that are good enough for keys and verifiers.
    ///
    /// - Throws: ``ChappieAuthError/secureRandomFailed(statusCode:)`` if the system returns none.
    func bytes(_ count: Int) throws -> [UInt8]
}

/// The system's generator (getrandom(2) on Linux, arc4random on Apple platforms), used through Swift's standard
/// library.
public struct SystemEntropy: Entropy {
    /// The generator of this system.
    public init() {}

    /// `count` unpredictable bytes.
    public func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<max(count, 0)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}
