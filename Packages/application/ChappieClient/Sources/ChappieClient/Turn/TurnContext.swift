@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The values that all steps of a turn share.
struct TurnContext: Sendable {
    /// The account in which the turn is sent.
    let account: ChappieAccountInfo
    /// The control by which the turn is interrupted and gets messages while it runs.
    var control = TurnControl()
    /// The exchange that is sent in place of a turn of the conversation, or `nil` for a turn.
    var exchange: ChappieExchange?
    /// Keeps each step of the turn before the next one begins.
    var record: TurnRecorder = { _ in }
    /// Sends an event to the reader, or `nil` if nobody reads, as in a prewarm.
    var emit: (@Sendable (ChappieStreamEvent) -> Void)?
    /// The turn as its observer follows it.
    var observation: (any ChappieObservation)?
    /// Whether a repeated answer that differs starts again. Otherwise it is an error.
    var restarts = false

    /// The same turn without a recorder, for a request that is not part of the conversation.
    var withoutRecords: TurnContext {
        var context = self
        context.record = { _ in }
        return context
    }
}
