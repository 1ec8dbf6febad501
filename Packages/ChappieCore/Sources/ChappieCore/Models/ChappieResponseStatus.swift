/// How far a response has come; unknown values survive.
public struct ChappieResponseStatus: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    public static let inProgress = ChappieResponseStatus(rawValue: "in_progress")
    public static let completed = ChappieResponseStatus(rawValue: "completed")
    public static let failed = ChappieResponseStatus(rawValue: "failed")
    /// Ended early, for example at a length limit or a content filter; the text so far is there.
    public static let incomplete = ChappieResponseStatus(rawValue: "incomplete")
    public static let cancelled = ChappieResponseStatus(rawValue: "cancelled")
}
