/// A system that suspends programs in the background, and that a program can ask for time to finish its work.
///
/// iOS suspends an app a few seconds after its user has left it. Without more time, a sign-in is not polled while the
/// user is in the browser, and a token whose successor arrives during the suspension is lost. Desktop systems suspend no
/// program.
///
/// A complete fake:
/// ```swift
/// struct Unlimited: BackgroundTime {
///     func hold(_ reason: String) -> BackgroundHold { BackgroundHold {} }
/// }
/// ```
public protocol BackgroundTime: Sendable {
    /// Asks the system to let this program run until the hold is released. The system may give less time, and it does
    /// not say how much. Returns at once.
    ///
    /// - Parameter reason: A few words about the work, which the system may log. They contain no user data.
    func hold(_ reason: String) -> BackgroundHold
}

/// A request for background time that ends when this object is released.
public final class BackgroundHold: Sendable {
    private let end: @Sendable () -> Void

    /// - Parameter end: Ends the request. It is called once.
    public init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}

/// The background time of systems that suspend no program. It does nothing.
public struct UnlimitedBackgroundTime: BackgroundTime {
    /// Creates the value.
    public init() {}

    /// Returns a hold that does nothing.
    public func hold(_ reason: String) -> BackgroundHold { BackgroundHold {} }
}
