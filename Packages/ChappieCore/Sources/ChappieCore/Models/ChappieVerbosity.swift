/// How much a model writes; unknown values survive.
public struct ChappieVerbosity: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let low = ChappieVerbosity(rawValue: "low")
    public static let medium = ChappieVerbosity(rawValue: "medium")
    public static let high = ChappieVerbosity(rawValue: "high")
}
