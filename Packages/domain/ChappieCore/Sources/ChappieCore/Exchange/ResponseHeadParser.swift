public import HTTPTypes

/// The status and header fields of a response.
@_spi(ChappieInternals) public struct ResponseHead: Sendable, Hashable {
    /// The status of the status line.
    public var status: HTTPResponse.Status
    /// The fields in the order in which they arrived.
    public var headerFields: HTTPFields

    /// Creates a head from its parts.
    public init(status: HTTPResponse.Status, headerFields: HTTPFields) {
        self.status = status
        self.headerFields = headerFields
    }

    /// The rule that the head breaks, as a clause. `nil` if it breaks none. If the length is unclear, a body that was
    /// cut short could look complete (RFC 9112, 6.3).
    public var violation: String? {
        if status.code == 101 { return "it switched protocols without being asked" }
        guard headerFields[.transferEncoding] == nil else { return nil }
        let lengths = Set(headerFields[values: .contentLength].flatMap { $0.split { $0 == "," || $0 == " " } })
        let areClear = lengths.count <= 1 && lengths.allSatisfy { Int($0).map { $0 >= 0 } ?? false }
        return areClear ? nil : "the length of its body is unclear"
    }
}

/// A parser that builds response heads from their lines, and finds the final head.
///
/// Heads of 1xx responses (RFC 9110, 15.2) precede the final head and are dropped, except for 101, which is final.
/// Lines after the final head are trailers, which are also dropped.
@_spi(ChappieInternals) public struct ResponseHeadParser: Sendable {
    /// The result of a line.
    public enum Outcome: Equatable, Sendable {
        /// The head continues, or this line doesn't count.
        case more
        /// The final head is complete. This is returned only once.
        case complete(ResponseHead)
        /// The server broke a rule. The text is the clause that names it.
        case failed(String)
    }

    /// The maximum number of fields in one head. `HTTPFields` traps at 65,535, and no honest server sends a tenth of
    /// this limit.
    public static let fieldLimit = 1000

    private enum Phase {
        /// Before the first line, or after an informational head. Next: fields.
        case awaitingStatus
        /// Next: awaitingStatus, done.
        case fields(ResponseHead)
        case done
    }

    private let byteLimit: Int
    private let isStrict: Bool
    private var phase = Phase.awaitingStatus
    private var bytesTaken = 0

    /// Creates a parser.
    ///
    /// - Parameters:
    ///   - byteLimit: The limit for all heads of one exchange together.
    ///   - isStrict: Whether nothing else has checked the lines. If so, a field that breaks the grammar of RFC 9110,
    ///     section 5, a folded line (RFC 9112, 5.2) and a status line of a version other than HTTP/1.0 and 1.1 are
    ///     failures. Otherwise, such fields are skipped.
    public init(byteLimit: Int, isStrict: Bool) {
        self.byteLimit = byteLimit
        self.isStrict = isStrict
    }

    /// Whether the final head is complete.
    public var isComplete: Bool {
        if case .done = phase { true } else { false }
    }

    /// Takes one line, with or without its line end.
    public mutating func receivedLine(_ line: some BidirectionalCollection<UInt8>) -> Outcome {
        bytesTaken += line.count
        guard bytesTaken <= byteLimit else { return .failed("its response head is over \(byteLimit) bytes") }
        var line = line[...]
        while let last = line.last, last == 0x0D || last == 0x0A { line.removeLast() }

        switch phase {
        case .done: return .more
        case .awaitingStatus:
            if line.isEmpty, !isStrict { return .more }
            guard let status = status(line) else { return .failed("its status line can't be understood") }
            phase = .fields(ResponseHead(status: status, headerFields: [:]))
            return .more
        case .fields(var head):
            // The head has only one owner while it grows. Otherwise each field would copy all fields before it.
            phase = .awaitingStatus
            if !line.isEmpty {
                guard head.headerFields.count < Self.fieldLimit else {
                    return .failed("its response head has over \(Self.fieldLimit) fields")
                }
                if let field = Self.field(line) {
                    head.headerFields.append(field)
                } else if isStrict {
                    return .failed("one of its header fields can't be understood")
                }
                phase = .fields(head)
                return .more
            }
            if (100..<200).contains(head.status.code), head.status.code != 101 { return .more }
            phase = .done
            return .complete(head)
        }
    }

    /// Parses a status line (RFC 9112, section 4), such as `HTTP/1.1 200 OK` or `HTTP/2 200 `, which is curl's
    /// rendering of a pseudo-header.
    private func status(_ line: some BidirectionalCollection<UInt8>) -> HTTPResponse.Status? {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].starts(with: "HTTP/".utf8), parts[1].count == 3,
            parts[1].allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        let code = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        guard code >= 100 else { return nil }
        let isReadable = Self.isPrintable(line)
        if isStrict {
            // Only HTTP/1.1 can switch protocols.
            guard isReadable, code < 600,
                parts[0].elementsEqual("HTTP/1.1".utf8)
                    || parts[0].elementsEqual("HTTP/1.0".utf8) && code != 101
            else { return nil }
        }
        let reason = parts.count == 3 && isReadable ? String(decoding: parts[2], as: UTF8.self) : ""
        return HTTPResponse.Status(code: code, reasonPhrase: reason)
    }

    /// Parses a header field, or returns `nil` if the line breaks the grammar of RFC 9110, section 5.
    private static func field(_ line: some BidirectionalCollection<UInt8>) -> HTTPField? {
        guard let colon = line.firstIndex(of: 0x3A),
            let name = HTTPField.Name(String(decoding: line[..<colon], as: UTF8.self))
        else { return nil }
        var value = line[line.index(after: colon)...]
        while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
        while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
        return isPrintable(value) ? HTTPField(name: name, lenientValue: Array(value)) : nil
    }

    private static func isPrintable(_ bytes: some Sequence<UInt8>) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}
