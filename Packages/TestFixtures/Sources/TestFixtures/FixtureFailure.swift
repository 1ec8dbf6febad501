/// Something that a test needs on the machine is missing or doesn't work; a sentence says what, and what helps.
public struct FixtureFailure: Error, CustomStringConvertible {
    public let description: String

    /// A failure with this sentence.
    public init(_ description: String) { self.description = description }
}
