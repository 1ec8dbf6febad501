@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieSDK
import Synchronization

/// Asks at the prompt whether a tool may be run.
final class ChatApprovals: Sendable {
    /// The user's answers to the question.
    enum Answer: Equatable {
        case once, always, edit, view, no
        /// Not one of these.
        case unclear

        init(_ text: String) {
            switch text.lowercased().filter({ !$0.isWhitespace }) {
            case "y", "yes": self = .once
            case "a", "always": self = .always
            case "e", "edit": self = .edit
            case "v", "view": self = .view
            case "n", "no", "": self = .no
            default: self = .unclear
            }
        }
    }

    private let ask: @Sendable (LineEditor.Prompt) async throws -> LineEditor.Entry
    private let console: Console
    /// One question at a time, although a model may make several calls at once.
    private let queue = AsyncLock()
    /// Fulfilled when the answer before the call is on the screen.
    private let announced = Mutex<[String: Promise<Void>]>([:])

    init(_ console: Console, ask: @escaping @Sendable (LineEditor.Prompt) async throws -> LineEditor.Entry) {
        (self.console, self.ask) = (console, ask)
    }

    /// The answer before the call is on the screen.
    func announce(_ request: ChappieApprovalRequest) { promise(request.id).fulfil(.success(())) }

    private func promise(_ id: String) -> Promise<Void> {
        announced.withLock { announced in
            if let promise = announced[id] { return promise }
            let promise = Promise<Void>()
            announced[id] = promise
            return promise
        }
    }

    /// The decision of the user; a turn that is stopped meanwhile is a denial.
    func decide(_ request: ChappieApprovalRequest) async -> ChappieApprovalDecision {
        let ticket = queue.reserve()
        defer { queue.leave(ticket) }
        do {
            try await promise(request.id).value()
            try await queue.enter(ticket)
            return try await question(request)
        } catch {
            return .denied(reason: "The user stopped the turn.")
        }
    }

    private func question(_ request: ChappieApprovalRequest) async throws -> ChappieApprovalDecision {
        console.note(ToolApproval.describe(request.call))
        if !request.toolDescription.isEmpty { console.note("  \(request.toolDescription)") }
        while true {
            try await console.drained()
            switch try await ask(
                LineEditor.Prompt("Run it? [y]es, [n]o, [a]lways, [e]dit, [v]iew all: ", endsWhenInterrupted: true))
            {
            case .end: return .denied(reason: "The user said no.")
            case .interrupted:
                _ = Interruption.takesCtrlC.withLock { $0 }?()
                throw CancellationError()
            case .text(let text):
                switch Answer(text) {
                case .once: return .approved()
                case .always: return .approved(scope: .session)
                case .no: return .denied(reason: "The user said no.")
                case .edit: if let edited = try await edit(request.call) { return edited }
                case .view: console.note(ToolApproval.describe(request.call, limit: .max))
                case .unclear: console.note("Please answer y, n, a, e or v.")
                }
            }
        }
    }

    /// `nil` when the user has thought better of it.
    private func edit(_ call: ChappieToolCall) async throws -> ChappieApprovalDecision? {
        var text = call.arguments
        while case .text(let edited) = try await ask(
            LineEditor.Prompt("Arguments: ", initial: text, endsWhenInterrupted: true))
        {
            if call.isCustom { return .approved(arguments: .string(edited)) }
            if let json = try? ChappieJSON(parsing: Array(edited.utf8)) { return .approved(arguments: json) }
            console.note("That is not JSON.")
            try await console.drained()
            text = edited
        }
        return nil
    }
}
