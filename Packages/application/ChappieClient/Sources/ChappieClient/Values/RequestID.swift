@_spi(ChappieInternals) import ChappieCore
import Synchronization

extension ChappieClientError {
    /// The id of the failed exchange at the server (`x-request-id`), for a question to its operator, or `nil` if the
    /// error came from no server, or if the server gave no id.
    ///
    /// Most errors have no place for it in their values. The ids of the last hundred such errors are remembered
    /// instead. If several of them are equal, this is the id of the newest, which may be another client's.
    public var requestID: String? {
        switch self {
        case .responseFailed(let response): response.requestID
        case .usageLimitReached(let limit): limit.requestID
        case .planRefused(let refusal): refusal.requestID
        case .modelUnavailable(let refusal): refusal.requestID
        case .gatewayAnswered(let answer): answer.requestID
        case .reauthenticationRequired(let reason): RequestID.named(in: reason)
        case .httpError, .blockedByGateway, .contextWindowExceeded, .invalidResponse, .transportFailed,
            .streamingTransportReplayDiverged:
            Self.noted.withLock { [hashValue] noted in noted.last { $0.error == hashValue }?.id }
        default: nil
        }
    }

    /// The ids by the error's hash, so that no answer is kept.
    private static let noted = Mutex<[(error: Int, id: String)]>([])

    /// Remembers the id for an error that has no place for it.
    func note(requestID: String) {
        switch self {
        case .httpError, .blockedByGateway, .contextWindowExceeded, .invalidResponse, .transportFailed,
            .streamingTransportReplayDiverged:
            Self.noted.withLock { [hashValue] noted in
                noted.append((hashValue, requestID))
                if noted.count > 100 { noted.removeFirst() }
            }
        default: break
        }
    }
}
