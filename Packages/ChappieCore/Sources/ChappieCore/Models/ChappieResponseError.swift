public import FoundationEssentials

/// The error that a response, an error event or an HTTP error body carries. Every field may be missing.
public struct ChappieResponseError: Sendable, Hashable, Codable {
    public var type: String?
    public var code: String?
    /// The backend's words; may be shown to a person: without control characters, and not longer than
    /// ``messageLimit`` Unicode scalars.
    public var message: String?
    public var plan: ChappiePlan?
    public var resetsAt: Date?
    public var resetsInSeconds: Double?
    /// The length of the window that ran full.
    public var limitWindowMinutes: Int?
    /// The object as it came.
    public var raw: ChappieJSON

    /// How much of a message is kept, in Unicode scalars.
    public static let messageLimit = 1000

    /// Reads the object under `error`, or a bare string there.
    public init(_ json: ChappieJSON) {
        raw = json
        type = json["type"]?.string
        code = json["code"]?.string
        message = Self.shown(json["message"]?.string ?? json.string)
        plan = json["plan_type"]?.string.map(ChappiePlan.init(rawValue:))
        resetsAt = PeerNumber.date(json["resets_at"]?.double)
        resetsInSeconds = PeerNumber.seconds(json["resets_in_seconds"]?.double)
        limitWindowMinutes = json["limit_window_minutes"]?.int
    }

    /// Reads an error body in any of the shapes seen: `{"error":{…}}`, `{"error":"…"}`, `{"detail":"…"}`, or the bare
    /// object.
    public init(body: ChappieJSON) {
        let error = body["error"].flatMap { $0.isNull ? nil : $0 }
        self.init(error ?? body)
        let beside = Self.shown(
            body["error_description"]?.string ?? body["message"]?.string ?? body["detail"]?.string)
        if let word = error?.string {
            // OAuth's shape (RFC 6749, 5.2): the word is a code, and the sentence stands beside it.
            code = word
            message = beside ?? Self.shown(word)
        } else {
            message = message ?? beside
        }
    }

    private static func shown(_ text: String?) -> String? {
        text.map { UntrustedText.forTerminal(String($0.unicodeScalars.prefix(messageLimit))) }
    }
}
