/// How hard a model thinks before it answers; unknown values survive.
public struct ChappieReasoningEffort: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let none = ChappieReasoningEffort(rawValue: "none")
    public static let minimal = ChappieReasoningEffort(rawValue: "minimal")
    public static let low = ChappieReasoningEffort(rawValue: "low")
    public static let medium = ChappieReasoningEffort(rawValue: "medium")
    public static let high = ChappieReasoningEffort(rawValue: "high")
    public static let extraHigh = ChappieReasoningEffort(rawValue: "xhigh")
    public static let max = ChappieReasoningEffort(rawValue: "max")
    public static let ultra = ChappieReasoningEffort(rawValue: "ultra")
}
