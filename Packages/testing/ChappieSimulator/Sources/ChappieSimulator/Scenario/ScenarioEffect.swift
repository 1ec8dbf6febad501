import ChappieCore

/// The effect of a rule on an answer. Members can be combined; a missing one changes nothing. `SCENARIOS.md` says what
/// each does.
struct ScenarioEffect: Codable, Sendable, Hashable {
    enum Framing: String, Codable { case chunked, length, close }

    struct UsageLimit: Codable, Sendable, Hashable {
        var resetsInSeconds: UInt32?
    }

    /// A place in an answer, and how a cut ends the connection there.
    struct Break: Codable, Sendable, Hashable {
        enum Parting: String, Codable { case fin, rst }

        var beforeHead: Bool?
        /// Of the body, its framing not counted; over WebSocket of the answer's frames; of a handshake's head.
        var afterBytes: UInt32?
        var afterEvents: UInt32?
        /// Pieces of the answer's text.
        var afterDeltas: UInt32?
        var with: Parting?
    }

    struct Drip: Codable, Sendable, Hashable {
        var bytes: UInt32?
        var pause: Double?
    }

    struct Divergence: Codable, Sendable, Hashable {
        var afterPieces: UInt32?
    }

    /// How device sign-in differs from what the service usually sends.
    struct Device: Codable, Sendable, Hashable {
        enum Interval: String, Codable { case string, number, null, absent }

        var interval: Interval?
        /// The member that holds the code: `user_code`, or the alias `usercode`.
        var userCodeKey: String?
        /// 403 or 404; clients take both for "not yet".
        var pendingStatus: UInt16?
    }

    // An answer in the backend's place, which then does nothing: the first of these that is there.
    var status: UInt16?
    var body: ChappieJSON?
    var unauthorized: Bool?
    var refresh: TokenLedger.RefreshFailure?
    var usageLimit: UsageLimit?
    // How any answer is changed.
    /// `null` takes a field away.
    var headers: [String: ChappieJSON]?
    var delayBeforeHead: Double?
    var delayBeforeBody: Double?
    var cut: Break?
    var stall: Break?
    var drip: Drip?
    var framing: Framing?
    var diverge: Divergence?
    /// Said by the model while it works, before its answer.
    var commentary: String?
    var device: Device?
    /// Members set in an answer that is a JSON object; `null` takes one away.
    var members: [String: ChappieJSON]?
    var authorize: AuthorizationFaults?
    var idToken: IDTokenFault?
    /// Tokens are signed with another key from this request on.
    var rotateKeys: Bool?
    /// The request's bearer token, and the sign-in that it came from, are over from this request on.
    var endAccess: Bool?
    var events: EventEdits?
    var handshake: HandshakeFaults?
    var frames: FrameFaults?

    /// The place at which the answer breaks off.
    var breakingPoint: Break? { stall ?? cut }
    /// The step that breaks the answer there.
    var breakStep: ScriptedAnswer.Step { stall != nil ? .stall : cut?.with == .rst ? .reset : .finish }
    /// Pieces of the model's text after which it continues with other words; `nil` for its own words to the end.
    var divergesAfter: Int? { diverge.map { Int($0.afterPieces ?? 0) } }
    /// Whether it is about bytes and silence on a connection, which there is none of in memory.
    var needsSocket: Bool {
        stall != nil || drip != nil || framing != nil || handshake != nil || frames != nil || (status ?? 0) > 999
    }
    /// Whether nothing at all is sent.
    var isSilent: Bool { breakingPoint?.beforeHead == true }

    /// Sets the header fields and edits the events.
    func changing(_ response: BackendResponse) -> BackendResponse {
        var response = response
        for (name, value) in (headers ?? [:]).sorted(by: { $0.key < $1.key }) {
            response.setHeader(name, value.isNull ? nil : value.string ?? value.serialized())
        }
        if let members, case .bytes(let bytes) = response.body,
            var object = (try? ChappieJSON(parsing: bytes))?.object
        {
            for (name, value) in members { object[name] = value.isNull ? Optional.none : value }
            response.body = .bytes(ChappieJSON.object(object).serializedBytes())
        }
        if case .events(let list) = response.body, let events { response.body = .events(events.applied(to: list)) }
        return response
    }

    /// Returns the answer in the backend's place, or `nil` when the backend is to answer.
    func replacement(from backend: Backend, account: SimulatorAccount?, now: Int) -> BackendResponse? {
        if status != nil || body != nil {
            let status = Int(status ?? 200)
            switch body ?? .null {
            case .null: return BackendResponse(status: status)
            case .string(let text): return .text(text, type: "text/plain", status: status)
            case let body: return .json(body, status: status)
            }
        }
        if unauthorized == true { return Backend.unauthorized(.expired) }
        if let refresh { return Backend.refusal(refresh) }
        return usageLimit.map {
            backend.usageLimitReached(
                resetsIn: Int($0.resetsInSeconds ?? 3600), account: account ?? backend.configuration.account, now: now)
        }
    }
}

/// A close frame of the server.
struct ScenarioClose: Codable, Sendable, Hashable {
    /// Any number, so that wrong ones can be sent; a close frame without one is empty.
    var code: UInt16?
    var reason: String?
    /// Seconds from the handshake on, for a close that has nothing to do with a message.
    var after: Double?
    /// Events that are sent before it; `nil` for all.
    var afterEvents: UInt32?

    var reasonToClose: WebSocketCloseReason { WebSocketCloseReason(code: code, reason: reason ?? "") }
}

/// How the connection behaves that a WebSocket handshake opens.
struct HandshakeFaults: Codable, Sendable, Hashable {
    var deflate: DeflateWish?
    /// Turns before the connection says that its time is over.
    var requestLimit: UInt32?
    var pongs: Bool?
    var pingInterval: Double?
    var close: ScenarioClose?
}

/// The server's wishes for permessage-deflate beyond the offer; `true` and `false` stand for all and nothing.
struct DeflateWish: Codable, Sendable, Hashable {
    private enum CodingKeys: CodingKey {
        case serverNoContextTakeover, clientNoContextTakeover, serverMaxWindowBits, clientMaxWindowBits
    }

    var isRefused = false
    var serverNoContextTakeover: Bool?
    var clientNoContextTakeover: Bool?
    /// From 9 on: zlib can't write smaller windows.
    var serverMaxWindowBits: UInt8?
    /// Without effect on a client that doesn't offer the parameter.
    var clientMaxWindowBits: UInt8?

    init() {}

    init(from decoder: any Decoder) throws {
        if let isAgreed = try? decoder.singleValueContainer().decode(Bool.self) {
            isRefused = !isAgreed
            return
        }
        let members = try decoder.container(keyedBy: CodingKeys.self)
        serverNoContextTakeover = try members.decodeIfPresent(Bool.self, forKey: .serverNoContextTakeover)
        clientNoContextTakeover = try members.decodeIfPresent(Bool.self, forKey: .clientNoContextTakeover)
        serverMaxWindowBits = try members.decodeIfPresent(UInt8.self, forKey: .serverMaxWindowBits)
        clientMaxWindowBits = try members.decodeIfPresent(UInt8.self, forKey: .clientMaxWindowBits)
    }
}

/// How the messages of one answer are put into frames.
package struct FrameFaults: Codable, Sendable, Hashable {
    /// The name of the member that holds an error message's status.
    enum StatusMember: String, Codable {
        case status
        case statusCode = "status_code"
        case none
    }

    /// Bytes written in hexadecimal digits; white space between them is ignored.
    struct Hexadecimal: Codable, Sendable, Hashable {
        let bytes: [UInt8]

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            let digits = Array(try container.decode(String.self).filter { !$0.isWhitespace })
            bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
                UInt8(String(digits[$0...($0 + 1)]), radix: 16)
            }
            guard bytes.count * 2 == digits.count else {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "must be pairs of hexadecimal digits")
            }
        }
    }

    var statusMember: StatusMember?
    var close: ScenarioClose?
    package var compress: Bool?
    /// Payload bytes of each frame; `nil` for whole messages.
    package var fragmentBytes: UInt32?
    package var pingsInside: Bool?
    /// Put on the wire before the third message.
    var bytes: Hexadecimal?
    var after: [ChappieJSON]?
}
