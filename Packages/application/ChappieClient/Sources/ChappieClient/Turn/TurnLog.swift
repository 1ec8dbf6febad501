@_spi(ChappieInternals) import ChappieCore
import Logging

/// A log of the reasons for which turns are sent again. Messages are constant, and all of them are at level `debug`.
/// The metadata contains codes and counts, and no text of a user or a model.
struct TurnLog: Sendable {
    /// The logger, or `nil` for no messages.
    let logger: Logger?
    /// The observer, or `nil` if nobody follows the turns.
    let observer: (any ChappieObserver)?

    /// Logs that a turn is sent again.
    ///
    /// - Parameter event: the event that the host gets, or `nil` for a repair that the host does not see.
    func asksAgain(
        _ event: ChappieTransportEvent?, after failure: AttemptFailure, over kind: ChappieTransportEvent.Kind,
        hasDelivered: Bool
    ) {
        guard let logger else { return }
        var metadata: Logger.Metadata = ["reason": "\(failure.logWords)", "transport": "\(kind.rawValue)"]
        func count(_ attempt: Int, _ maximum: Int, _ delay: Duration) {
            metadata["attempt"] = "\(attempt)"
            metadata["maximum"] = "\(maximum)"
            metadata["delay"] = "\(delay)"
        }
        switch event {
        case .waiting(let attempt, let maximum, let delay):
            count(attempt, maximum, delay)
            logger.debug("Waiting because of a limit", metadata: metadata)
        case .reconnecting(let attempt, let maximum, let delay) where hasDelivered:
            count(attempt, maximum, delay)
            logger.debug("Replaying a turn of which a part was shown", metadata: metadata)
        case .reconnecting(let attempt, let maximum, let delay):
            count(attempt, maximum, delay)
            logger.debug("Reconnecting", metadata: metadata)
        case .fellBack: logger.debug("Falling back to server-sent events", metadata: metadata)
        case .connected, nil: logger.debug("Repeating the request on a new connection", metadata: metadata)
        }
    }

    /// Logs that the user got a notice, without its text.
    func notes(_ notice: ChappieNotice) {
        observer?.happened(.notice(notice.kind))
        logger?.debug("The turn differs from the request", metadata: ["kind": "\(notice.kind.rawValue)"])
    }

    func lacksEnd() { logger?.debug("Taking an answer without its last event") }

    func sentPlain() { logger?.debug("Repeating the request without compression") }
}

extension AttemptFailure {
    /// The failure in codes.
    fileprivate var logWords: String {
        switch error {
        case ChappieClientError.transportFailed(let error): "\(error.code.rawValue) at \(error.stage.rawValue)"
        case ChappieClientError.httpError(let status, _): "status \(status)"
        case ChappieClientError.usageLimitReached: "usage limit"
        case ChappieClientError.responseFailed(let response):
            "response failed: \(UntrustedText.token(response.error?.code, limit: 64) ?? "no code")"
        case ChappieClientError.messageTooLarge(let bytes, let limit): "a message of \(bytes) bytes, limit \(limit)"
        case ChappieClientError.invalidResponse: "an answer that could not be understood"
        default: "\(type(of: error))"
        }
    }
}
