public import FoundationEssentials

/// Text that is not JSON, or is nested too deeply.
public struct ChappieJSONError: Error, Sendable, Hashable, LocalizedError {
    /// What was wrong, in a few words; never the text itself.
    public let reason: String
    /// Bytes from the start of the text to where it went wrong.
    public let offset: Int

    public var errorDescription: String? { "The text is not valid JSON: \(reason) at byte \(offset)." }
}
