@_spi(ChappieInternals) import ChappieCore

/// An error that ends a connection beside a proper close, or keeps a message from being sent.
enum WebSocketCodecError: Error, Sendable, Hashable {
    /// RSV1 without compression, on a continuation or on a control frame, RSV2 or RSV3 (RFC 6455, 5.2).
    case reservedBitSet
    /// An opcode without a meaning (RFC 6455, 5.2).
    case unknownOpcode(UInt8)
    /// A server must not mask (RFC 6455, 5.1).
    case maskedFrame
    /// Control frames are never fragmented (RFC 6455, 5.5).
    case fragmentedControlFrame
    /// Control frames have at most 125 bytes (RFC 6455, 5.5).
    case controlFrameTooLong
    /// A length in more bytes than it needs, or beyond 2⁶³ (RFC 6455, 5.2).
    case invalidLength
    /// A continuation without a message to continue (RFC 6455, 5.4).
    case unexpectedContinuation
    /// A new message inside another one (RFC 6455, 5.4).
    case expectedContinuation
    /// Text, or a close reason, that is not UTF-8 (RFC 6455, 8.1).
    case invalidUTF8
    /// A close frame of one byte, or with a code that must not travel (RFC 6455, 5.5.1 and 7.4).
    case invalidClose
    /// A frame beyond ``WebSocketLimits/maximumFrameBytes``.
    case frameTooLarge(limitBytes: Int)
    /// A message beyond ``WebSocketLimits/maximumMessageBytes`` once decompressed; or one of ours beyond
    /// ``WebSocketLimits/maximumFrameBytes``, of which nothing has been sent.
    case messageTooLarge(limitBytes: Int)
    /// Compressed bytes that are no deflate stream, or reach beyond the negotiated window (RFC 7692, 7.2.2).
    case invalidCompression
    /// No memory for decompression.
    case outOfMemory
    /// The peer went without a close frame (RFC 6455, 7.1.5, code 1006).
    case endedWithoutClose
    /// One of ours, after the end or after our own close frame. Nothing has been sent.
    case closed

    /// The code of our close frame; `nil` where none can be sent (RFC 6455, 7.4.1).
    var closeCode: UInt16? {
        switch self {
        case .reservedBitSet, .unknownOpcode, .maskedFrame, .fragmentedControlFrame, .controlFrameTooLong,
            .invalidLength, .unexpectedContinuation, .expectedContinuation, .invalidClose:
            1002
        case .invalidUTF8, .invalidCompression: 1007
        case .frameTooLarge, .messageTooLarge: 1009
        case .outOfMemory: 1011
        case .endedWithoutClose, .closed: nil
        }
    }

    /// One clause in plain words, without a final stop.
    var reason: String {
        switch self {
        case .reservedBitSet: "the server set a reserved bit in a frame"
        case .unknownOpcode(let opcode): "the server sent a frame of the unknown kind \(opcode)"
        case .maskedFrame: "the server sent a masked frame"
        case .fragmentedControlFrame: "the server sent a control frame in fragments"
        case .controlFrameTooLong: "the server sent a control frame of more than 125 bytes"
        case .invalidLength: "the server sent a frame whose length can't be read"
        case .unexpectedContinuation: "the server continued a message that it had not begun"
        case .expectedContinuation: "the server began a message inside another one"
        case .invalidUTF8: "the server sent text that is not UTF-8"
        case .invalidClose: "the server sent a close frame that can't be read"
        case .frameTooLarge(let limit): "the server sent a frame of more than \(limit) bytes"
        case .messageTooLarge(let limit): "a message has more than \(limit) bytes"
        case .invalidCompression: "the server sent a message that can't be decompressed"
        case .outOfMemory: "there is no memory to decompress a message"
        case .endedWithoutClose: "the server went away without closing the WebSocket"
        case .closed: "the WebSocket is closed"
        }
    }
}

/// An answer to the opening handshake that can't be used, or a request that can't be made.
enum WebSocketHandshakeError: Error, Sendable, Hashable {
    /// The target or the host can't stand in a request's head.
    case invalidRequest
    /// The answer is no HTTP/1.1 head, or breaks its grammar; the clause says where.
    case invalidHead(String)
    /// The body of an answer other than 101 breaks the framing that its head announced.
    case invalidBody
    /// No `Upgrade: websocket` (RFC 6455, 4.1, second list, 2).
    case missingUpgrade
    /// No `Connection: Upgrade` (RFC 6455, 4.1, second list, 3).
    case missingConnection
    /// `Sec-WebSocket-Accept` is absent, there twice, or not the answer to our nonce (RFC 6455, 4.1, second list, 4).
    case wrongAccept
    /// An extension, or a parameter of one, that was not offered or makes no sense (RFC 6455, 4.1, second list, 5;
    /// RFC 7692, 7.1).
    case unofferedExtension
    /// A subprotocol that was not offered (RFC 6455, 4.1, second list, 6).
    case unofferedSubprotocol
    /// The peer went away before its answer was whole.
    case connectionClosed

    /// One clause in plain words, without a final stop.
    var reason: String {
        switch self {
        case .invalidRequest: "the address or a header field can't stand in a request"
        case .invalidHead(let clause): clause
        case .invalidBody: "its answer breaks off or is framed wrongly"
        case .missingUpgrade: "it switched protocols, but not to WebSocket"
        case .missingConnection: "it switched protocols without saying so for this connection"
        case .wrongAccept: "it did not prove that it understood the WebSocket handshake"
        case .unofferedExtension: "it chose a WebSocket extension that was not offered"
        case .unofferedSubprotocol: "it chose a WebSocket subprotocol that was not offered"
        case .connectionClosed: "it closed the connection before its answer was whole"
        }
    }
}

/// The failures of a WebSocket, in the words of the port.
struct WebSocketFault {
    /// The peer, as errors name it.
    let host: String

    func error(for problem: WebSocketHandshakeError, inBody: Bool = false) -> ChappieTransportError {
        let stage: ChappieTransportError.Stage = inBody ? .responseBody : .responseHead
        return switch problem {
        case .invalidRequest: error(.invalidURL, .configuration, problem.reason)
        case .connectionClosed: error(.connectionLost, stage, problem.reason)
        default: error(.protocolViolation, stage, problem.reason)
        }
    }

    /// About something received.
    func error(for problem: WebSocketCodecError) -> ChappieTransportError {
        switch problem {
        case .endedWithoutClose, .closed: error(.connectionLost, .message, problem.reason)
        case .frameTooLarge, .messageTooLarge: error(.bodyTooLarge, .message, problem.reason)
        case .outOfMemory: error(.unavailable, .message, problem.reason)
        default: error(.protocolViolation, .message, problem.reason)
        }
    }

    /// About a message of ours.
    func error(sending problem: WebSocketCodecError) -> ChappieTransportError {
        switch problem {
        case .messageTooLarge: error(.bodyTooLarge, .request, problem.reason)
        default: error(.connectionLost, .request, problem.reason)
        }
    }

    func timeOut(_ stage: ChappieTransportError.Stage, after allowance: Duration) -> ChappieTransportError {
        let missing =
            switch stage {
            case .liveness: "not even an answer to a ping"
            case .message: "no message"
            case .firstByte: "no byte of the body"
            case .responseBody: "nothing more"
            default: "no response head"
            }
        return error(.timedOut, stage, "\(missing) within \(allowance.words)")
    }

    /// The connection broke off; in the handshake, without an answer.
    func lost(_ stage: ChappieTransportError.Stage) -> ChappieTransportError {
        switch stage {
        case .responseHead: error(.connectionLost, stage, "the connection closed before the answer began")
        case .responseBody: error(.connectionLost, stage, "the connection closed before the answer was whole")
        default: error(.connectionLost, stage, "the connection broke without a close frame")
        }
    }

    /// The connection was let go of on this side.
    var dropped: ChappieTransportError { error(.connectionLost, .message, "the connection was dropped on this side") }

    private func error(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ reason: String
    ) -> ChappieTransportError {
        ChappieTransportError(code, stage: stage, host: host, reason: reason)
    }
}
