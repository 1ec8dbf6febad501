import ChappieClient
import ChappieCore

/// The latest turn that a runtime runs or has run itself.
struct OwnTurn {
    var id = ""
    /// The number of its resumptions when it began here.
    var resumptions = 0
    /// The calls that this program has begun.
    var calls: Set<String> = []
    /// The items of the turn when it ended without a complete answer.
    var stopped: ChappieJSONObject?

    /// Returns whether another program continues the turn. This program does nothing more for it, except that it
    /// records the results of calls that it has begun.
    ///
    /// - Parameter body: the body of the next record.
    func isTakenOver(in turns: [ChappieTurn], before body: ChappieJSON) -> Bool {
        let result: ChappieToolExecutionResult? = Records.value(body["result"])
        if let result, calls.contains(result.call.callID) { return false }
        guard let turn = turns.last(where: { $0.id == id }), body["turn"]?.string == turn.id else { return false }
        return turn.resumptions != resumptions
    }
}
