import HTTPTypes

/// Puts response heads together from the lines that curl passes on, and finds the final one.
///
/// curl has already framed the lines, of HTTP/1.0, 1.1 and 2 alike: a status line, fields, an empty line. Heads of 1xx
/// responses (RFC 9110, 15.2) come first and are dropped; what comes after the final head are trailers, dropped too.
struct ResponseHeadParser {
    enum Outcome: Equatable {
        /// The head goes on, or this line doesn't count.
        case more
        /// The final head is whole. Given once.
        case complete(ResponseHead)
        /// The server broke a rule; the clause says which.
        case failed(String)
    }

    /// Over all heads of one exchange together; the largest servers allow themselves is around 64 KiB.
    static let byteLimit = 256 * 1024
    /// Of one head. `HTTPFields` traps at 65,535, and no honest server sends a tenth of this.
    static let fieldLimit = 1000

    private enum Phase {
        /// Before the first line, or after an informational head. Next: fields.
        case awaitingStatus
        /// Next: awaitingStatus, done.
        case fields(ResponseHead)
        case done
    }

    private var phase = Phase.awaitingStatus
    private var bytesTaken = 0

    init() {}

    var isComplete: Bool {
        if case .done = phase { true } else { false }
    }

    /// One line with or without its line end.
    mutating func receivedLine(_ line: some BidirectionalCollection<UInt8>) -> Outcome {
        bytesTaken += line.count
        guard bytesTaken <= Self.byteLimit else { return .failed("its response head is over \(Self.byteLimit) bytes") }
        var line = line[...]
        while let last = line.last, last == 0x0D || last == 0x0A { line.removeLast() }

        switch phase {
        case .done: return .more
        case .awaitingStatus:
            if line.isEmpty { return .more }
            guard let status = Self.status(line) else { return .failed("its status line can't be understood") }
            phase = .fields(ResponseHead(status: status, headerFields: [:]))
            return .more
        case .fields(var head):
            // The head has one owner while it grows, or each field would copy all before it.
            phase = .awaitingStatus
            if !line.isEmpty {
                guard head.headerFields.count < Self.fieldLimit else {
                    return .failed("its response head has over \(Self.fieldLimit) fields")
                }
                Self.add(line, to: &head.headerFields)
                phase = .fields(head)
                return .more
            }
            switch head.status.code {
            case 101: return .failed("it switched protocols without being asked")
            case 100..<200: return .more
            default:
                phase = .done
                return .complete(head)
            }
        }
    }

    /// `HTTP/1.1 200 OK`, `HTTP/2 200 ` (curl's rendering of a pseudo-header): RFC 9112, section 4.
    private static func status(_ line: some BidirectionalCollection<UInt8>) -> HTTPResponse.Status? {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].starts(with: "HTTP/".utf8), parts[1].count == 3 else { return nil }
        var code = 0
        for digit in parts[1] {
            guard (48...57).contains(digit) else { return nil }
            code = code * 10 + Int(digit - 48)
        }
        guard code >= 100 else { return nil }
        let reason = parts.count == 3 ? String(decoding: parts[2], as: UTF8.self) : ""
        return HTTPResponse.Status(
            code: code, reasonPhrase: isPrintable(parts.count == 3 ? parts[2] : parts[0]) ? reason : "")
    }

    /// Adds one field; one that breaks the grammar of RFC 9110, section 5, is skipped, as is a folded line (RFC 9112,
    /// 5.2 leaves that choice to a client that has no use for it).
    private static func add(_ line: some BidirectionalCollection<UInt8>, to fields: inout HTTPFields) {
        guard let colon = line.firstIndex(of: 0x3A),
            let name = HTTPField.Name(String(decoding: line[..<colon], as: UTF8.self))
        else { return }
        var value = line[line.index(after: colon)...]
        while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
        while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
        guard isPrintable(value) else { return }
        fields.append(HTTPField(name: name, lenientValue: Array(value)))
    }

    private static func isPrintable(_ bytes: some Sequence<UInt8>) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}
