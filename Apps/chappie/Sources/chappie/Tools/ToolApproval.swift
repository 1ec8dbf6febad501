@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieMCP
import ChappieSDK
import Synchronization

/// A queue that asks the user whether tools may run, one question at a time.
final class ToolApproval: Sendable {
    private let approvesAll: Bool
    private let reader: any LineReader
    /// The lock that allows one question at a time. A model may make several calls at the same time.
    private let line = AsyncLock()
    /// Promises that are fulfilled when the answer before the call has been written.
    private let announced = Mutex<[String: Promise<Void>]>([:])

    /// - Parameters:
    ///   - approvesAll: whether every call is approved without a question (`--approve-tools`).
    ///   - reader: the reader that asks the user.
    init(approvesAll: Bool = false, reader: any LineReader) {
        self.approvesAll = approvesAll
        self.reader = reader
    }

    // MARK: The order on the screen

    /// Allows the question to follow, because the text before it has been written.
    func announce(_ request: ChappieApprovalRequest) { announcement(of: request.id).fulfil(.success(())) }

    private func announcement(of id: String) -> Promise<Void> {
        announced.withLock { announced in
            if let promise = announced[id] { return promise }
            let promise = Promise<Void>()
            announced[id] = promise
            return promise
        }
    }

    // MARK: Asking

    /// Returns the user's decision, or a denial if the user cannot be asked or stops the turn.
    func decide(_ request: ChappieApprovalRequest) async -> ChappieApprovalDecision {
        // A connected app has the user's private data, so the user decides about each call of its tools.
        if approvesAll, request.call.namespace != ChappieConnectedApps.namespace { return .approved() }
        let ticket = line.reserve()
        defer { line.leave(ticket) }
        do {
            try await announcement(of: request.id).value()
            // Another answer may contain a call with the same id.
            announced.withLock { $0[request.id] = nil }
            try await line.enter(ticket)
            return try await answer(to: request)
        } catch {
            return .denied(reason: "The user stopped the turn.")
        }
    }

    private func answer(to request: ChappieApprovalRequest) async throws -> ChappieApprovalDecision {
        var details = "\n" + request.question()
        let call = request.call
        var arguments = call.isCustom ? ChappieJSON.string(call.arguments).serialized() : call.arguments
        while true {
            let question = Question(
                lines: details + call.reminder,
                prompt: "Run it? [y]es, [n]o, [a]lways, [e]dit, [v]iew all: ")
            guard let entry = try await reader.read(question) else {
                let advice =
                    call.namespace == ChappieConnectedApps.namespace
                    ? "The setting app_tools can name tools that only read."
                    : "A manifest may say \"policy\": \"automatic\", and --approve-tools approves every call."
                return .denied(
                    reason:
                        "The user could not be asked, because there is no terminal, or a pager reads its keys. \(advice)"
                )
            }
            details = ""
            switch Answer(entry) {
            case .once: return .approved()
            case .always: return .approved(scope: .session)
            case .no: return .denied(reason: "The user said no.")
            case .view: details = "\n" + request.question(isWhole: true)
            case .edit:
                let isText = call.isCustom
                let prompt = "The \(isText ? "text, as a JSON string" : "arguments, as JSON") in one line: "
                guard case .text(let text) = try await reader.read(Question(prompt: prompt, initial: arguments)) else {
                    continue
                }
                if let json = try? ChappieJSON(parsing: Array(text.utf8)),
                    isText ? json.string != nil : json.object != nil
                {
                    return .approved(arguments: json)
                }
                arguments = text
                details = "That is not a JSON \(isText ? "string" : "object").\n"
            case .stop:
                _ = Interruption.takesCtrlC.withLock { $0 }?()
                throw CancellationError()
            case .unclear: details = "Please answer y, n, a, e or v.\n"
            }
        }
    }

    /// The user's answers to the question.
    private enum Answer {
        case once, always, edit, view, no
        /// Ctrl-C, which ends the turn.
        case stop
        /// An answer that is none of the letters above.
        case unclear

        init(_ entry: LineEditor.Entry) {
            switch entry {
            case .end: self = .no
            case .interrupted: self = .stop
            case .text(let text):
                switch text.shortAnswer {
                case "y", "yes": self = .once
                case "a", "always": self = .always
                case "e", "edit": self = .edit
                case "v", "view": self = .view
                case "n", "no", "": self = .no
                default: self = .unclear
                }
            }
        }
    }
}
