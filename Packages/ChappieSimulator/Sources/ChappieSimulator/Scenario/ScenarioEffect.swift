import ChappieCore

/// The effect of a rule on an answer. Members can be combined; a missing one changes nothing.
struct ScenarioEffect: ScenarioPart {
    enum Refusal: String, ScenarioChoice { case expired, reused, invalidated }
    enum Parting: String, ScenarioChoice { case fin, rst }
    enum Framing: String, ScenarioChoice { case chunked, length, close }

    struct UsageLimit: ScenarioPart {
        var resetsInSeconds: Int?
        static let bounds: [String: ClosedRange<Double>] = ["resetsInSeconds": 0...31_536_000]
    }

    /// A place in an answer: exactly one member is there.
    struct Place: ScenarioPart {
        var beforeHead: Bool?
        /// Of the body, its framing not counted; over WebSocket of the answer's frames; of a handshake's head.
        var afterBytes: Int?
        var afterEvents: Int?
        /// Pieces of the answer's text.
        var afterDeltas: Int?

        static let bounds: [String: ClosedRange<Double>] = ["afterBytes": 0...Double(Int32.max)]
        var isBeforeHead: Bool { beforeHead == true }
        var complaint: String? {
            let count = [isBeforeHead, afterBytes != nil, afterEvents != nil, afterDeltas != nil].count { $0 }
            return count == 1 ? nil : "needs one of beforeHead, afterBytes, afterEvents and afterDeltas"
        }
    }

    /// A place, and how the connection ends there.
    struct Cut: ScenarioPart {
        private enum CodingKeys: CodingKey { case with }

        let place: Place
        let with: Parting

        static let bounds = Place.bounds
        var complaint: String? { place.complaint }

        init(from decoder: any Decoder) throws {
            place = try Place(from: decoder)
            with = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(Parting.self, forKey: .with) ?? .fin
        }
    }

    struct Drip: ScenarioPart {
        var bytes: Int?
        var pause: Duration?
        static let bounds: [String: ClosedRange<Double>] = ["bytes": 1...1_048_576]
    }

    struct Divergence: ScenarioPart {
        var afterPieces: Int?
    }

    /// How device sign-in differs from what the service usually sends.
    struct Device: ScenarioPart {
        enum Interval: String, ScenarioChoice { case string, number, null, absent }

        var interval: Interval?
        /// The member that holds the code: `user_code`, or the alias `usercode`.
        var userCodeKey: String?
        /// 403 or 404; clients take both for "not yet".
        var pendingStatus: Int?
        static let bounds: [String: ClosedRange<Double>] = ["pendingStatus": 400...599]
    }

    // An answer in the backend's place, which then does nothing: at most one of these.
    var status: Int?
    var body: ChappieJSON?
    var unauthorized: Bool?
    var refresh: Refusal?
    var usageLimit: UsageLimit?
    var connectionLimit: Bool?
    var previousResponseNotFound: Bool?
    var html: Bool?
    // How any answer is changed.
    var headers: HeaderFields?
    var delayBeforeHead: Duration?
    var delayBeforeBody: Duration?
    var cut: Cut?
    var stall: Place?
    var drip: Drip?
    var framing: Framing?
    var diverge: Divergence?
    var device: Device?
    var events: EventEdits?
    var handshake: HandshakeFaults?
    var frames: FrameFaults?

    static let bounds: [String: ClosedRange<Double>] = ["status": 200...599]

    var complaint: String? {
        let answers = [
            status != nil || body != nil, unauthorized == true, refresh != nil, usageLimit != nil,
            connectionLimit == true, previousResponseNotFound == true, html == true,
        ]
        if answers.count(where: { $0 }) > 1 {
            return "can have only one of status, unauthorized, refresh, usageLimit, connectionLimit, "
                + "previousResponseNotFound and html"
        }
        return cut != nil && stall != nil ? "can have a cut or a stall, not both" : nil
    }

    /// Where the answer breaks off.
    var breakingPoint: Place? { stall ?? cut?.place }
    /// The step that breaks the answer there.
    var breakStep: ScriptedAnswer.Step { stall != nil ? .stall : cut?.with == .rst ? .reset : .finish }
    /// Pieces of the model's text after which it goes on with other words; `nil` for its own words to the end.
    var divergesAfter: Int? { diverge.map { $0.afterPieces ?? 0 } }
    /// Whether nothing at all is sent.
    var isSilent: Bool { breakingPoint?.isBeforeHead == true }

    /// Sets the header fields and edits the events.
    func changing(_ response: BackendResponse) -> BackendResponse {
        var response = response
        for field in headers?.fields ?? [] { response.setHeader(field.name, field.value) }
        if case .events(let list) = response.body, let events { response.body = .events(events.applied(to: list)) }
        return response
    }

    /// The answer in the backend's place; `nil` when the backend is to answer.
    func replacement(from backend: Backend, account: SimulatorAccount?, now: Int) -> BackendResponse? {
        if status != nil || body != nil {
            switch body ?? .null {
            case .null: return .empty(status: status ?? 200)
            case .string(let text):
                return BackendResponse(
                    status: status ?? 200, headers: [("content-type", "text/plain; charset=utf-8")],
                    body: .bytes(Array(text.utf8)))
            case let body: return .json(body, status: status ?? 200)
            }
        }
        if unauthorized == true { return Backend.unauthorized(.expired) }
        switch refresh {
        case .expired: return Backend.refusal(.expired)
        case .reused: return Backend.refusal(.reused)
        case .invalidated: return Backend.refusal(.invalidated)
        case nil: break
        }
        if let usageLimit {
            return backend.usageLimitReached(
                resetsIn: usageLimit.resetsInSeconds ?? 3600, account: account ?? backend.configuration.account,
                now: now)
        }
        if connectionLimit == true { return Backend.connectionLimitReached }
        if previousResponseNotFound == true { return Backend.previousResponseNotFound("resp_forgotten") }
        guard html == true else { return nil }
        return .html("<!DOCTYPE html><title>Sign in to the network</title><p>Please sign in to this network.")
    }
}

/// How a WebSocket handshake is answered, and how the connection that it opens behaves.
struct HandshakeFaults: ScenarioPart {
    enum Accept: String, ScenarioChoice { case right, wrong, absent }

    /// `false`, `true`, or the parameters that the server asks for.
    enum Deflate: Decodable, Sendable, Hashable {
        case refused
        case agreed(DeflateWish)

        init(from decoder: any Decoder) throws {
            let here = try ScenarioDecoder.of(decoder)
            if here.value.object != nil {
                self = .agreed(try here.decode(DeflateWish.self))
            } else {
                self = try here.bool() ? .agreed(DeflateWish()) : .refused
            }
        }
    }

    struct Close: ScenarioPart {
        var code: CloseCode?
        var reason: String?
        /// From the handshake on.
        var after: Duration?
        static let bounds: [String: ClosedRange<Double>] = ["code": 0...65_535]
        var complaint: String? { CloseCode.complaint(reason) }
    }

    var accept: Accept?
    var deflate: Deflate?
    /// The value of `Sec-WebSocket-Extensions` instead of what was agreed.
    var extensions: HeaderFields.Value?
    /// The value of `Sec-WebSocket-Protocol`, asked for or not.
    var subprotocol: HeaderFields.Value?
    /// Turns before the connection says that its time is over.
    var requestLimit: Int?
    var pongs: Bool?
    var pingInterval: Duration?
    var close: Close?
}

/// The parameters that the server wants of permessage-deflate beyond what was offered.
struct DeflateWish: ScenarioPart {
    var serverNoContextTakeover: Bool?
    var clientNoContextTakeover: Bool?
    var serverMaxWindowBits: Int?
    /// Without effect on a client that doesn't offer the parameter.
    var clientMaxWindowBits: Int?
    static let bounds: [String: ClosedRange<Double>] = ["serverMaxWindowBits": 9...15, "clientMaxWindowBits": 8...15]
}

/// How the messages of one answer are put into frames.
struct FrameFaults: ScenarioPart {
    /// The name of the member that holds an error message's status.
    enum StatusMember: String, ScenarioChoice {
        case status
        case statusCode = "status_code"
        case none
    }

    struct Close: ScenarioPart {
        var code: CloseCode?
        var reason: String?
        /// Events that are sent before it; `nil` for all.
        var afterEvents: Int?
        static let bounds: [String: ClosedRange<Double>] = ["code": 0...65_535]
        var complaint: String? { CloseCode.complaint(reason) }
    }

    var statusMember: StatusMember?
    var close: Close?
    var compress: Bool?
    /// Payload bytes of each frame; `nil` for whole messages.
    var fragmentBytes: Int?
    var pingsInside: Bool?
    /// Which message of the answer the members up to `texts` are about, counted from 0; the default is 2.
    var at: Int?
    var opcode: UInt8?
    /// 4, 2 and 1 for RSV1, RSV2 and RSV3.
    var reservedBits: UInt8?
    var masked: Bool?
    var invalidUTF8: Bool?
    var bytes: HexadecimalBytes?
    var texts: [String]?
    var after: [ChappieJSON]?

    static let bounds: [String: ClosedRange<Double>] = [
        "fragmentBytes": 1...Double(Int32.max), "opcode": 0...15, "reservedBits": 0...7,
    ]
}

/// Any number that fits, so that wrong ones can be sent; `null` for a close frame without one.
struct CloseCode: Decodable, Sendable, Hashable {
    let number: UInt16?

    init(_ number: UInt16?) { self.number = number }

    init(from decoder: any Decoder) throws {
        let here = try ScenarioDecoder.of(decoder)
        number = here.value.isNull ? nil : try here.integer()
    }

    static func complaint(_ reason: String?) -> String? {
        (reason ?? "").utf8.count > 123 ? "has a reason of more than 123 bytes" : nil
    }
}

/// Pairs of hexadecimal digits; white space between them is ignored.
struct HexadecimalBytes: Decodable, Sendable, Hashable {
    let bytes: [UInt8]

    init(from decoder: any Decoder) throws {
        let here = try ScenarioDecoder.of(decoder)
        let digits = try here.string().filter { !$0.isWhitespace }.map(\.hexDigitValue)
        let pairs = stride(from: 0, to: digits.count, by: 2).map { digits[$0..<min($0 + 2, digits.count)] }
        bytes = pairs.compactMap { pair in
            let known = pair.compactMap { $0 }
            return known.count == 2 ? UInt8(known[0] << 4 | known[1]) : nil
        }
        guard bytes.count == pairs.count else { throw here.wrong("must be pairs of hexadecimal digits") }
    }
}

/// Header fields: names are tokens, values have no control characters (RFC 9110, 5).
struct HeaderFields: Decodable, Sendable, Hashable {
    struct Field: Sendable, Hashable {
        let name: String
        let value: String
    }

    /// The value of one field: a string or an integer.
    struct Value: Decodable, Sendable, Hashable {
        let text: String

        init(from decoder: any Decoder) throws {
            let here = try ScenarioDecoder.of(decoder)
            text = try here.value.int.map { String($0) } ?? here.string()
            guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                throw here.wrong("must not hold control characters")
            }
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    let fields: [Field]

    init(from decoder: any Decoder) throws {
        let here = try ScenarioDecoder.of(decoder)
        let members = try decoder.container(keyedBy: Name.self)
        fields = try (here.value.object?.names ?? []).map { name in
            guard !name.isEmpty, name.utf8.allSatisfy(Self.isTokenByte) else {
                throw here.wrong("is not a header field name", in: name)
            }
            return Field(name: name, value: try members.decode(Value.self, forKey: Name(stringValue: name)).text)
        }
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        let character = Character(Unicode.Scalar(byte))
        return character.isASCII && (character.isLetter || character.isNumber) || "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
}
