@_spi(ChappieInternals) import ChappieCore

/// A door that a test opens: a task that comes before that waits.
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

    /// Lets every task through, now and later. Opening it again does nothing.
    public func open() { opening.fulfil(.success(())) }

    /// Whether it lets through.
    public var isOpen: Bool { opening.isFulfilled }

    /// Returns as soon as a task has come to the gate, whether it was open or not, or the waiting task is cancelled.
    public func reached() async { try? await arrival.value() }

    /// Returns when the gate is open.
    ///
    /// - Throws: `CancellationError` at once when the task is cancelled.
    public func pass() async throws {
        arrival.fulfil(.success(()))
        try Task.checkCancellation()
        try await opening.value()
    }

    /// A gate equals itself alone.
    public static func == (one: ScriptedGate, other: ScriptedGate) -> Bool { one === other }
    /// The identity of the gate.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
