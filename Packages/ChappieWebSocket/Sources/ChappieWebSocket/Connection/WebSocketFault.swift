import ChappieCore

/// What goes wrong with a WebSocket, in the words of the port.
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
            case .firstByte: "no byte of the body"
            case .responseBody: "nothing more"
            default: "no response head"
            }
        return error(.timedOut, stage, "\(missing) within \(allowance.inWords)")
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
