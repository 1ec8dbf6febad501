@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieSDK
import Synchronization

/// Asks the user whether a tool may be run, one question at a time.
final class ToolApproval: Sendable {
    /// How many arguments are shown before the user asks for all of them.
    private static let shownArguments = 30
    /// How much of them is shown, in Unicode scalars: a character may be any number of these.
    private static let shownLength = 2000

    private let approvesAll: Bool
    private let reader: any LineReader
    /// One question at a time, although a model may make several calls at once.
    private let line = AsyncLock()
    /// Fulfilled when the answer before the call has been written.
    private let announced = Mutex<[String: Promise<Void>]>([:])

    /// - Parameters:
    ///   - approvesAll: `--approve-tools`: every call is approved without a question.
    ///   - reader: asks the user.
    init(approvesAll: Bool = false, reader: any LineReader) {
        self.approvesAll = approvesAll
        self.reader = reader
    }

    // MARK: The order on the screen

    /// The text before the question has been written: the question may follow.
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

    /// The user's decision; a denial if the user can't be asked, or stops the turn meanwhile.
    func decide(_ request: ChappieApprovalRequest) async -> ChappieApprovalDecision {
        if approvesAll { return .approved() }
        let ticket = line.reserve()
        defer { line.leave(ticket) }
        do {
            try await announcement(of: request.id).value()
            // Another answer may have a call of the same id.
            announced.withLock { $0[request.id] = nil }
            try await line.enter(ticket)
            return try await answer(to: request)
        } catch {
            return .denied(reason: "The user stopped the turn.")
        }
    }

    private func answer(to request: ChappieApprovalRequest) async throws -> ChappieApprovalDecision {
        var details = "\n" + Self.describe(request)
        var arguments = request.call.arguments
        while true {
            let question = Question(
                lines: details + Self.reminder(of: request.call),
                prompt: "Run it? [y]es, [n]o, [a]lways, [e]dit, [v]iew all: ")
            guard let entry = try await reader.read(question) else {
                return .denied(
                    reason: "The user could not be asked, because there is no terminal. A manifest may say "
                        + "\"policy\": \"automatic\", and --approve-tools approves every call.")
            }
            details = ""
            switch Answer(entry) {
            case .once: return .approved()
            case .always: return .approved(scope: .session)
            case .no: return .denied(reason: "The user said no.")
            case .view: details = "\n" + Self.describe(request, isWhole: true)
            case .edit:
                let question = Question(prompt: "The arguments, as JSON in one line: ", initial: arguments)
                guard case .text(let text) = try await reader.read(question) else { continue }
                if let json = try? ChappieJSON(parsing: Array(text.utf8)), json.object != nil {
                    return .approved(arguments: json)
                }
                arguments = text
                details = "That is not a JSON object.\n"
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
        /// None of the letters above.
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

    // MARK: The question

    /// The tool's description and the arguments, which a server and the model wrote: as JSON, which has no line feeds, with
    /// what could deceive the eye written out, and bounded unless the user wants the whole.
    static func describe(_ request: ChappieApprovalRequest, isWhole: Bool = false) -> String {
        let call = request.call
        var lines: [String] = []
        if let description = UntrustedText.message(request.toolDescription) {
            lines.append("\(name(of: call)) describes itself as \(written(.string(description)))")
        }
        lines.append("The model wants to run \(name(of: call)):")
        guard let members = call.argumentsJSON?.object?.members else {
            lines.append("  \(cut(written(.string(call.arguments)), to: isWhole ? .max : shownLength))")
            return lines.joined(separator: "\n") + "\n"
        }
        let shown = isWhole ? members[...] : members.prefix(shownArguments)
        var room = isWhole ? Int.max : shownLength
        for (index, member) in shown.enumerated() {
            // Room that short arguments leave is given to the arguments after them.
            let argument = cut(
                "\(written(.string(member.name))): \(written(member.value))", to: room / (shown.count - index))
            room -= min(room, argument.unicodeScalars.count)
            lines.append("  \(argument)")
        }
        let left = members.count - shown.count
        if left > 0 { lines.append("  … and \(left) more") }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The call in our own words alone, for the line right above the prompt: nothing can push it off the screen.
    static func reminder(of call: ChappieToolCall) -> String {
        let count = call.argumentsJSON?.object?.members.count
        let arguments =
            switch count {
            case nil: "arguments that are not an object"
            case 0: "no arguments"
            case 1: "1 argument"
            case let count?: "\(count) arguments"
            }
        return "This is \(name(of: call)) with \(arguments).\n"
    }

    /// The call on one short line.
    static func line(of call: ChappieToolCall) -> String {
        "\(name(of: call)) \(cut(written(call.argumentsJSON ?? .string(call.arguments)), to: 200))"
    }

    private static func name(of call: ChappieToolCall) -> String {
        UntrustedText.writtenOut((call.namespace.map { "\($0)/" } ?? "") + call.name)
    }

    private static func written(_ json: ChappieJSON) -> String { UntrustedText.writtenOut(json.serialized()) }

    private static func cut(_ text: String, to limit: Int) -> String {
        let left = text.unicodeScalars.count - limit
        guard left > 0 else { return text }
        return "\(String(text.unicodeScalars.prefix(limit)))… (\(left) more characters)"
    }
}
