@_spi(ChappieInternals) import ChappieCore

/// A gate that a test opens. A task that reaches it earlier waits.
///
/// ```swift
/// let gate = ScriptedGate()
/// let transport = ScriptedHTTPTransport(answers: [ScriptedHTTPAnswer(body: [.wait(until: gate), .chunk(rest)])])
/// await gate.reached()   // the code under test is reading by now
/// gate.open()
/// ```
public final class ScriptedGate: Sendable, Hashable {
    private let opening = Promise<Void>()
    private let arrival = Promise<Void>()

    /// Creates a closed gate.
    public init() {}

    /// Lets every task through, now and later. A second call does nothing.
    public func open() { opening.fulfil(.success(())) }

    /// Whether the gate is open.
    public var isOpen: Bool { opening.isFulfilled }

    /// Waits until a task has reached the gate, open or not, or until the waiting task is cancelled.
    public func reached() async { try? await arrival.value() }

    /// Waits until the gate is open.
    ///
    /// - Throws: `CancellationError` at once when the task is cancelled.
    public func pass() async throws {
        arrival.fulfil(.success(()))
        try Task.checkCancellation()
        try await opening.value()
    }

    /// Returns whether both are the same gate.
    public static func == (one: ScriptedGate, other: ScriptedGate) -> Bool { one === other }
    /// Hashes the identity of the gate.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
