public import FoundationEssentials

/// An adapter did not keep the contract of its port.
///
/// Contracts are written without a testing framework: a case throws this, and whatever runs it reports it.
public struct ContractViolation: Error, Sendable, Hashable, LocalizedError, CustomStringConvertible {
    /// One sentence: what was expected and what happened.
    public let sentence: String

    /// A violation with this sentence.
    public init(_ sentence: String) { self.sentence = sentence }

    public var errorDescription: String? { sentence }
    public var description: String { sentence }

    /// - Throws: a violation with `sentence` unless `condition` holds.
    public static func require(
        _ condition: Bool, _ sentence: @autoclosure () -> String
    ) throws(ContractViolation) {
        if !condition { throw ContractViolation(sentence()) }
    }
}
