public import ChappieCore

/// Shows a web page to the user.
public protocol Browser: Sendable {
    /// Opens `url` and returns once the browser has been asked to; it can't be known whether a page appeared.
    ///
    /// - Throws: ``DesktopError`` when there is no way to open a page here.
    func open(_ url: URL) async throws(DesktopError)
}

/// Puts text where the user can paste it from.
public protocol Clipboard: Sendable {
    /// Copies `text`.
    ///
    /// - Throws: ``DesktopError`` when there is no clipboard to reach.
    func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome
}

/// The certainty of a copy.
public enum ClipboardOutcome: Sendable, Hashable {
    /// The clipboard owner took the text.
    case copied
    /// The terminal was asked (OSC 52), and terminals don't answer: never tell the user that it was copied.
    case requested
}

/// Shows a short desktop notification.
public protocol Notifier: Sendable {
    /// Asks the user, where the platform wants that, whether this program may show notifications; returns at once where
    /// the user has answered before. The default asks nothing: a Linux desktop has no such question.
    ///
    /// - Throws: ``DesktopError`` when the user has refused.
    func requestPermission() async throws(DesktopError)

    /// Shows `title` and `body` (plain text).
    ///
    /// - Throws: ``DesktopError`` when nothing here shows notifications.
    func notify(title: String, body: String) async throws(DesktopError)
}

extension Notifier {
    /// Asks nothing: for platforms on which notifications need no permission.
    public func requestPermission() async throws(DesktopError) {}
}

/// Something the desktop could not do, as a sentence; the work that asked for it goes on without.
public struct DesktopError: ChappieError, Hashable {
    /// A whole sentence: what is missing and what to do instead.
    public let sentence: String

    /// An error with this message.
    public init(_ sentence: String) { self.sentence = sentence }

    /// The sentence.
    public var errorDescription: String? { sentence }
}

/// Knows whether the user has locked the login session that this program runs in (the lock screen).
///
/// A complete fake:
/// ```swift
/// struct Unlocked: SessionLock {
///     func state() -> SessionLockState { .unlocked }
/// }
/// ```
public protocol SessionLock: Sendable {
    /// The lock's state now; not remembered, since it changes at any moment.
    ///
    /// - Throws: ``CredentialStoreError`` when there is a login session and its state can't be learnt, which is as good
    ///   as locked: `timedOut` past the adapter's own deadline, `denied`, `failed`. That there is no session is *not* an
    ///   error: ``SessionLockState/noSession(_:)``.
    func state() async throws(CredentialStoreError) -> SessionLockState
}

/// The state of a login session's lock.
public enum SessionLockState: Sendable, Hashable {
    /// The lock screen is up.
    case locked
    /// The user is at the session, or could be.
    case unlocked
    /// There is nothing that could be locked (a container, a service, a system without a login manager); why, as the
    /// middle of a sentence.
    case noSession(String)
}

/// Unpredictable bytes.
public protocol Entropy: Sendable {
    /// `count` bytes fit for keys and verifiers.
    ///
    /// - Throws: ``ChappieAuthError/secureRandomFailed(statusCode:)`` when the system has none to give.
    func bytes(_ count: Int) throws -> [UInt8]
}

/// The system's generator (getrandom(2) on Linux, arc4random on Apple platforms), through Swift's own.
public struct SystemEntropy: Entropy {
    /// The generator of this system.
    public init() {}

    /// `count` unpredictable bytes.
    public func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<max(count, 0)).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}
