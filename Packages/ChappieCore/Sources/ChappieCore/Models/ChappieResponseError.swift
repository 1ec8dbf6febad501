public import FoundationEssentials

/// The error that a response, an error event or an HTTP error body carries. Every field may be missing.
public struct ChappieResponseError: Sendable, Hashable, Codable {
    public var type: String?
    public var code: String?
    /// The backend's words; may be shown to a person.
    public var message: String?
    public var plan: ChappiePlan?
    public var resetsAt: Date?
    public var resetsInSeconds: Double?
    /// The length of the window that ran full.
    public var limitWindowMinutes: Int?
    /// The object as it came.
    public var raw: ChappieJSON

    /// Reads the object under `error`, or a bare string there.
    public init(_ json: ChappieJSON) {
        raw = json
        type = json["type"]?.string
        code = json["code"]?.string
        message = json["message"]?.string ?? json.string
        plan = json["plan_type"]?.string.map(ChappiePlan.init(rawValue:))
        resetsAt = json["resets_at"]?.double.map(Date.init(timeIntervalSince1970:))
        resetsInSeconds = json["resets_in_seconds"]?.double
        limitWindowMinutes = json["limit_window_minutes"]?.int
    }

    /// Reads an error body in any of the shapes seen: `{"error":{…}}`, `{"error":"…"}`, `{"detail":"…"}`, or the bare
    /// object.
    public init(body: ChappieJSON) {
        let error = body["error"].flatMap { $0.isNull ? nil : $0 }
        self.init(error ?? body)
        let beside =
            body["error_description"]?.string ?? body["message"]?.string ?? body["detail"]?.string
        if let word = error?.string {
            // OAuth's shape (RFC 6749, 5.2): the word is a code, and the sentence stands beside it.
            code = word
            message = beside ?? word
        } else {
            message = message ?? beside
        }
    }
}
