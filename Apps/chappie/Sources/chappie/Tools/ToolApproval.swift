@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import Glibc

/// Asks the user at the terminal whether a tool may be run, one question at a time.
struct ToolApproval: Sendable {
    /// Shows a text and returns the line that the user types; `nil` where there is no terminal, or at its end.
    typealias Dialogue = @Sendable (String) async -> String?

    /// How much of an argument is shown before the user asks for all of it, in characters.
    private static let shownCharacters = 1000

    /// `--approve-tools`: every call is approved without a question.
    let approvesAll: Bool
    let ask: Dialogue
    private let line = AsyncLock()

    init(approvesAll: Bool, ask: @escaping Dialogue) {
        self.approvesAll = approvesAll
        self.ask = ask
    }

    /// At the terminal of this process, once what `console` was given is on it. Standard input may be a pipe.
    init(approvesAll: Bool, console: Console) {
        self.init(approvesAll: approvesAll) { question in
            console.clearStatus()
            try? await console.drained()
            return try? await onThread { Self.askAtTerminal(question) }
        }
    }

    /// The user's decision; where nobody can be asked, or the turn was cancelled, a denial.
    func decide(_ request: ChappieApprovalRequest) async -> ChappieApprovalDecision {
        if approvesAll { return .approved() }
        let ticket = line.reserve()
        defer { line.leave(ticket) }
        guard (try? await line.enter(ticket)) != nil else { return .denied(reason: "The turn was cancelled.") }
        var question = "\n\(Self.describe(request.call))\n"
        while true {
            let prompt = question + "Run it? [y]es, [n]o, [a]lways, [e]dit, [v]iew all: "
            guard let answer = await ask(prompt) else {
                return .denied(
                    reason: "The user could not be asked, because there is no terminal. A manifest may say "
                        + "\"policy\": \"automatic\", and --approve-tools approves every call.")
            }
            switch answer.filter({ !$0.isWhitespace }).lowercased() {
            case "y", "yes": return .approved()
            case "n", "no": return .denied(reason: "The user said no.")
            case "a", "always": return .approved(scope: .session)
            case "v", "view": question = "\n\(Self.describe(request.call, limit: .max))\n"
            case "e", "edit":
                guard let text = await ask("The arguments, as JSON in one line: ") else { continue }
                if let arguments = try? ChappieJSON(parsing: text), arguments.object != nil {
                    return .approved(arguments: arguments)
                }
                question = "That is not a JSON object.\n"
            default: question = ""
            }
        }
    }

    /// The tool and its arguments, with everything that could deceive the eye written out.
    static func describe(_ call: ChappieToolCall, limit: Int = shownCharacters) -> String {
        let name = (call.namespace.map { "\($0)/" } ?? "") + call.name
        let text = "The model wants to run \(UntrustedText.writtenOut(name))"
        guard let members = call.argumentsJSON?.object?.members else {
            return "\(text):\n  \(shown(call.arguments, limit))"
        }
        guard !members.isEmpty else { return "\(text) without arguments." }
        let lines = members.map { "  \(shown($0.name, limit)): \(shown($0.value.serialized(), limit))" }
        return "\(text):\n\(lines.joined(separator: "\n"))"
    }

    private static func shown(_ text: String, _ limit: Int) -> String {
        let left = text.count - limit
        let part = UntrustedText.writtenOut(left > 0 ? String(text.prefix(limit)) : text)
        return left > 0 ? "\(part)… (\(left) more characters)" : part
    }

    private static func askAtTerminal(_ question: String) -> String? {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard terminal >= 0 else { return nil }
        defer { close(terminal) }
        // Keys pressed before the question was asked are no answer to it.
        tcflush(terminal, TCIFLUSH)
        let text = Array(question.utf8)
        guard text.withUnsafeBytes({ ChappieCore.writeAll($0, to: terminal) }) == 0 else { return nil }
        var line: [UInt8] = []
        while line.count < 64 << 10, let byte = readPiece(of: terminal, atMost: 1)?.first {
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }
}
