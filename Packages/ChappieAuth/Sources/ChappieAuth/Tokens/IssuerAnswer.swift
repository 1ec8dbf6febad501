import ChappieCore
import FoundationEssentials
import HTTPTypes

/// A whole answer of the authorization server, in memory.
struct IssuerAnswer: Sendable {
    /// More than any honest answer needs.
    static let maximumSize = 1 << 20

    let status: Int
    let body: [UInt8]
    /// Whether this is a web page: a proxy, a portal or a wrong address speaks, not the token endpoint.
    let isWebPage: Bool
    /// How long the server asks to wait (RFC 9110, 10.2.3).
    let retryAfter: Duration?
    /// The server's own idea of the time.
    let date: Date?

    init(status: Int, headerFields: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.body = body
        let type = headerFields[.contentType]?.lowercased() ?? ""
        let firstByte = body.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        isWebPage = type.hasPrefix("text/html") || firstByte == UInt8(ascii: "<")
        date = headerFields[.date].flatMap(WireDate.imfFixdate)
        retryAfter = headerFields[.retryAfter].flatMap { [date] in Self.retryAfter($0, date: date) }
    }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The body as a JSON object; `nil` for everything else.
    var object: ChappieJSONObject? { (try? ChappieJSON(parsing: body))?.object }

    private static func retryAfter(_ value: String, date: Date?) -> Duration? {
        let text = value.trimmed
        if let seconds = Int(text), seconds >= 0 { return .seconds(min(seconds, 86_400)) }
        guard let moment = WireDate.imfFixdate(text), let date else { return nil }
        return .seconds(min(max(moment.timeIntervalSince(date), 0), 86_400))
    }
}

extension String {
    /// Without spaces and line ends around it.
    var trimmed: String {
        let isSpace: (Character) -> Bool = { $0.isWhitespace }
        let head = drop(while: isSpace)
        return String(head.reversed().drop(while: isSpace).reversed())
    }
}
