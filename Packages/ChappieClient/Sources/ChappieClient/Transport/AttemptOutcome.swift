import ChappieCore

/// How an attempt ended.
enum AttemptOutcome: Sendable {
    case completed(ChappieResponse)
    case failed(AttemptFailure)
}
