public import FoundationEssentials

/// Something the desktop could not do, as a sentence; the work that asked for it goes on without.
public struct DesktopError: Error, Sendable, Hashable, LocalizedError {
    /// A whole sentence: what is missing and what to do instead.
    public let sentence: String

    public init(_ sentence: String) { self.sentence = sentence }

    public var errorDescription: String? { sentence }
}
