/// Keeps two small facts about a slot's credential where every process that shares the credential finds them: a sign-out
/// that the store has not carried out yet, and a mark of the last change.
///
/// All calls may block. They are made on a thread that may.
///
/// A complete fake:
/// ```swift
/// struct NoNotes: CredentialNotes {}
/// ```
public protocol CredentialNotes: Sendable {
    /// Stores a few bytes, which are durable when this returns: a sign-out that the store has not carried out yet. `nil`
    /// removes them. Default: does nothing, and the sign-out is lost when the process ends.
    func setNote(_ note: [UInt8]?, for slot: CredentialSlot)

    /// Returns the bytes that ``setNote(_:for:)`` stored, in this process or an earlier one. Default: `nil`.
    func note(for slot: CredentialSlot) -> [UInt8]?

    /// Tells the other processes that the slot's credential has changed. ``changeMark(for:)`` is another one from now on.
    /// Default: does nothing and returns `nil`, and changes by other processes show at the next renewal.
    ///
    /// - Returns: The new mark.
    func announceChange(of slot: CredentialSlot) -> [UInt8]?

    /// Returns the mark of the last change that any process has announced. It is read before each request, so it must be
    /// cheap. Default: `nil`.
    func changeMark(for slot: CredentialSlot) -> [UInt8]?
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
}
