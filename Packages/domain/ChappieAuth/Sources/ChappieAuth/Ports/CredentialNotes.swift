/// A place for two small facts about a slot's credential: a sign-out that the store has not carried out yet, and a mark
/// of the last change. Every process that shares the credential can find them there.
///
/// All calls may block. They are made on a thread that may block, which the slots of a process share.
///
/// A complete fake:
/// ```swift
/// struct NoNotes: CredentialNotes {}
/// ```
public protocol CredentialNotes: Sendable {
    /// Stores a few bytes that describe a sign-out that the store has not carried out yet. They are durable when this
    /// returns. `nil` removes them. The default does nothing, and the sign-out is then lost when the process ends.
    func setNote(_ note: [UInt8]?, for slot: CredentialSlot)

    /// Returns the bytes that ``setNote(_:for:)`` stored, in this process or an earlier one. The default returns `nil`.
    func note(for slot: CredentialSlot) -> [UInt8]?

    /// Informs the other processes that the slot's credential has changed. ``changeMark(for:)`` then returns a new
    /// mark. The default does nothing and returns `nil`, and changes by other processes are noticed at the next
    /// renewal.
    ///
    /// - Returns: The new mark.
    func announceChange(of slot: CredentialSlot) -> [UInt8]?

    /// Returns the mark of the last change that any process has announced. It is read before each request, so it must
    /// be cheap. The default returns `nil`.
    func changeMark(for slot: CredentialSlot) -> [UInt8]?

    /// Whether ``changeMark(for:)`` only reads this process's memory. Requests then call it without a change of thread.
    /// The default returns `false`.
    var readsMarksFromMemory: Bool { get }
}

extension CredentialNotes {
    /// Does nothing.
    public func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {}

    /// Returns `nil`.
    public func note(for slot: CredentialSlot) -> [UInt8]? { nil }

    /// Returns `nil`.
    public func announceChange(of slot: CredentialSlot) -> [UInt8]? { nil }

    /// Returns `nil`.
    public func changeMark(for slot: CredentialSlot) -> [UInt8]? { nil }

    /// Returns `false`.
    public var readsMarksFromMemory: Bool { false }
}
