public import ChappieCore

/// The reason why a runtime could not do what it was asked, beside the errors of its client and its store.
public enum ChappieRuntimeError: ChappieError, Hashable {
    /// The open thread's last turn is finished, or there is none.
    case nothingToResume
    /// The thread has fewer turns.
    case noSuchTurn(Int, of: Int)
    /// Another program has gone on with the turn, or written to the thread that was to be made shorter.
    case turnTakenOver

    /// A sentence for the user.
    public var errorDescription: String? {
        switch self {
        case .nothingToResume: "There is no turn to go on with: the last one is finished."
        case .noSuchTurn(let turn, let count): "There is no turn \(turn); the thread has \(count)."
        case .turnTakenOver: "Another program goes on with this thread."
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .nothingToResume: "Ask something new."
        case .noSuchTurn: "Choose a turn between 1 and the last one."
        case .turnTakenOver: "Open the thread again and go on from there."
        }
    }
}
