import ChappieCore

/// The effect of a rule on an answer. Members can be combined, and a missing member changes nothing. `SCENARIOS.md`
/// describes each of them.
struct ScenarioEffect: Codable, Sendable, Hashable {
    enum Framing: String, Codable { case chunked, length, close }

    struct UsageLimit: Codable, Sendable, Hashable {
        var resetsInSeconds: UInt32?
    }

    /// A place in an answer, and how a cut ends the connection there.
    struct Break: Codable, Sendable, Hashable {
        enum Parting: String, Codable { case fin, rst }

        var beforeHead: Bool?
        /// The number of bytes of the body, without its framing. Over WebSocket, they are bytes of the answer's frames,
        /// and for a handshake, bytes of its head.
        var afterBytes: UInt32?
        var afterEvents: UInt32?
        /// The number of pieces of the answer's text.
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

    struct Picture: Codable, Sendable, Hashable {
        var bytes: UInt32?
    }

    /// The differences of device sign-in from the usual answers of the service.
    struct Device: Codable, Sendable, Hashable {
        enum Interval: String, Codable { case string, number, null, absent }

        var interval: Interval?
        /// The name of the member that contains the code: `user_code`, or the alias `usercode`.
        var userCodeKey: String?
        /// The status of a pending sign-in, 403 or 404. Clients take both as "not yet".
        var pendingStatus: UInt16?
    }

    // The answer that replaces the backend's. The first of these members that is present applies, and the backend does
    // nothing.
    var status: UInt16?
    var body: ChappieJSON?
    var unauthorized: Bool?
    var refresh: TokenLedger.RefreshFailure?
    var usageLimit: UsageLimit?
    // The changes to any answer.
    /// The header fields to set. `null` removes a field.
    var headers: [String: ChappieJSON]?
    var delayBeforeHead: Double?
    var delayBeforeBody: Double?
    var cut: Break?
    var stall: Break?
    var drip: Drip?
    var framing: Framing?
    var diverge: Divergence?
    /// The comment that the model outputs while it works, before its answer.
    var commentary: String?
    /// The size of a picture that is made.
    var picture: Picture?
    var device: Device?
    /// The members to set in an answer that is a JSON object. `null` removes a member.
    var members: [String: ChappieJSON]?
    var authorize: AuthorizationFaults?
    var idToken: IDTokenFault?
    /// Whether tokens are signed with another key from this request on.
    var rotateKeys: Bool?
    /// Whether the request's bearer token, and the sign-in from which it came, end with this request.
    var endAccess: Bool?
    var events: EventEdits?
    var handshake: HandshakeFaults?
    var frames: FrameFaults?

    /// The place at which the answer breaks off.
    var breakingPoint: Break? { stall ?? cut }
    /// The step that breaks the answer there.
    var breakStep: ScriptedAnswer.Step { stall != nil ? .stall : cut?.with == .rst ? .reset : .finish }
    /// The number of pieces of the model's text after which it continues with other text, or `nil` if it does not.
    var divergesAfter: Int? { diverge.map { Int($0.afterPieces ?? 0) } }
    /// Whether it affects bytes or silence on a connection, which does not exist in memory.
    var needsSocket: Bool {
        stall != nil || drip != nil || framing != nil || handshake != nil || frames != nil || (status ?? 0) > 999
    }
    /// Whether nothing is sent.
    var isSilent: Bool { breakingPoint?.beforeHead == true }

    /// Returns the response with its header fields set and its members and events edited.
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

    /// Returns the answer that replaces the backend's, or `nil` if the backend answers.
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
    /// The close code. Any number is allowed, so that wrong codes can be sent. A close frame without a code is empty.
    var code: UInt16?
    var reason: String?
    /// The seconds after the handshake, for a close that is independent of messages.
    var after: Double?
    /// The number of events that are sent before it, or `nil` for all.
    var afterEvents: UInt32?

    var reasonToClose: WebSocketCloseReason { WebSocketCloseReason(code: code, reason: reason ?? "") }
}

/// The faults of a connection that a WebSocket handshake opens.
struct HandshakeFaults: Codable, Sendable, Hashable {
    var deflate: DeflateWish?
    /// The number of turns before the connection reports that its limit is reached.
    var requestLimit: UInt32?
    var pongs: Bool?
    var pingInterval: Double?
    var close: ScenarioClose?
}

/// The server's requirements for permessage-deflate in addition to the offer. In JSON, `true` accepts the offer and
/// `false` refuses it.
struct DeflateWish: Codable, Sendable, Hashable {
    private enum CodingKeys: CodingKey {
        case serverNoContextTakeover, clientNoContextTakeover, serverMaxWindowBits, clientMaxWindowBits
    }

    var isRefused = false
    var serverNoContextTakeover: Bool?
    var clientNoContextTakeover: Bool?
    /// The window for the server's messages. It is at least 9, because zlib can't write smaller windows.
    var serverMaxWindowBits: UInt8?
    /// The window for the client's messages. It has no effect on a client that doesn't offer the parameter.
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

/// The faults in the frames of one answer's messages.
package struct FrameFaults: Codable, Sendable, Hashable {
    /// The name of the member that contains an error message's status.
    enum StatusMember: String, Codable {
        case status
        case statusCode = "status_code"
        case none
    }

    /// Bytes written in hexadecimal digits. White space between them is ignored.
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
    /// The number of payload bytes of each frame, or `nil` for unfragmented messages.
    package var fragmentBytes: UInt32?
    package var pingsInside: Bool?
    /// The bytes that are sent before the third message.
    var bytes: Hexadecimal?
    var after: [ChappieJSON]?
}
