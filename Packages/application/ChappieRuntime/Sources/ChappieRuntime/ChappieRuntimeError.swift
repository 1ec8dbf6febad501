public import ChappieCore

/// The reason why a runtime could not do its work, in addition to the errors of its client and its store.
public enum ChappieRuntimeError: ChappieError, Hashable {
    /// The open thread's last turn is finished, or the thread has no turn.
    case nothingToResume
    /// The thread has fewer turns than the requested number.
    case noSuchTurn(Int, of: Int)
    /// Another program has continued the turn, or has written to the thread during a compaction.
    case turnTakenOver

    /// A sentence for the user.
    public var errorDescription: String? {
        switch self {
        case .nothingToResume: "There is no turn to resume: the last one is finished."
        case .noSuchTurn(let turn, let count): "There is no turn \(turn); the thread has \(count)."
        case .turnTakenOver: "Another program has continued this thread."
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .nothingToResume: "Ask something new."
        case .noSuchTurn: "Choose a turn between 1 and the last one."
        case .turnTakenOver: "Open the thread again and continue from there."
        }
    }
}
