@_spi(ChappieInternals) import ChappieCore

/// One output item of the model's answer.
enum ReplyOutput: Sendable, Hashable {
    /// The place of a message in a turn.
    enum Phase: String, Sendable { case commentary, finalAnswer = "final_answer" }

    /// The call of a tool, with its arguments or its input.
    struct Call: Sendable, Hashable {
        let kind: DeclaredTool.Kind
        let name: String
        let namespace: String?
        let payload: String
    }

    case reasoning(summary: String)
    /// A message that is streamed piece by piece. The joined pieces are its text.
    ///
    /// - Parameter cites: whether its Markdown links are annotated as citations.
    case message(pieces: [String], phase: Phase = .finalAnswer, cites: Bool = false)
    /// A message that refuses with this text.
    case refusal(String)
    case call(Call)
    case webSearch(query: String)
    case toolSearch(arguments: ChappieJSON)
    case compaction(encryptedContent: String)
    /// No item. The answer ends, but the turn doesn't.
    case unfinishedTurn
}

/// The "model", which repeats and formats its prompt and follows each ``Directive``. The same prompt always gives the
/// same reply.
enum EchoModel {
    /// Returns the reply to a prompt.
    ///
    /// - Parameter effect: the changes to the model that a scenario specifies.
    static func reply(to prompt: Prompt, effect: ScenarioEffect = ScenarioEffect()) -> [ReplyOutput] {
        if prompt.wantsCompaction {
            let content = SealedContent.seal("compacted:" + prompt.text.prefix(400), for: prompt.model)
            return [.compaction(encryptedContent: content)]
        }
        let all = Directive.parse(prompt.text, tools: prompt.tools)
        var answer = reasoning(for: prompt) + commentary(for: all, prompt: prompt, effect: effect)
        if let step = step(for: all, prompt: prompt) { return answer + [step, .unfinishedTurn] }
        let directives = all.filter(\.isAnswer)
        if case .refuse(let words)? = directives.first { return answer + [.refusal(words)] }
        let queries = all.compactMap { if case .search(let query) = $0 { query } else { nil } }
        let searches = prompt.offersWebSearch && prompt.toolOutputs.isEmpty ? queries : []
        answer += searches.map(ReplyOutput.webSearch)
        let lookups = all.compactMap { if case .find(let arguments) = $0 { arguments } else { nil } }
        if !lookups.isEmpty, prompt.offersToolSearch, prompt.foundTools == nil {
            return answer + lookups.map(ReplyOutput.toolSearch)
        }
        let serviceCalls = serviceCalls(for: all, prompt: prompt)
        let calls = serviceCalls + self.calls(for: directives, prompt: prompt)
        // Calls have no text before them, unless the message specifies it.
        let words = serviceCalls.isEmpty ? directives.filter { if case .reply = $0 { true } else { false } } : []
        if calls.isEmpty || !words.isEmpty {
            let pieces = pieces(for: calls.isEmpty ? all : words, prompt: prompt)
            let others = ["Or, ", "to ", "put ", "it ", "another ", "way."]
            answer.append(
                .message(
                    pieces: effect.divergesAfter.map { pieces.prefix($0) + others } ?? pieces,
                    phase: calls.isEmpty ? .finalAnswer : .commentary, cites: !searches.isEmpty))
        }
        return answer + calls.map(ReplyOutput.call)
    }

    /// Returns the messages that the model outputs once, before the first step of a turn.
    private static func commentary(
        for directives: [Directive], prompt: Prompt, effect: ScenarioEffect
    ) -> [ReplyOutput] {
        guard prompt.toolOutputs.isEmpty, prompt.stepsTaken == 0 else { return [] }
        let asked = directives.compactMap { if case .comment(let text) = $0 { text } else { nil } }
        return (asked + (effect.commentary.map { [$0] } ?? [])).map {
            .message(pieces: TextPieces.split($0), phase: .commentary)
        }
    }

    private static func step(for directives: [Directive], prompt: Prompt) -> ReplyOutput? {
        let counts = directives.compactMap { if case .steps(let count) = $0 { count } else { nil } }
        guard let count = counts.first, prompt.stepsTaken < count else { return nil }
        let text = "Step \(prompt.stepsTaken + 1) of \(count)."
        return .message(pieces: TextPieces.split(text), phase: .commentary)
    }

    private static func reasoning(for prompt: Prompt) -> [ReplyOutput] {
        guard let effort = prompt.reasoningEffort else { return [] }
        guard prompt.body["reasoning"]?["summary"] != "none" else { return [.reasoning(summary: "")] }
        let next =
            prompt.toolOutputs.isEmpty
            ? "I was asked something and will repeat it in Markdown."
            : "A tool has answered, so I can report what it said."
        return [.reasoning(summary: "**Thinking it over** (\(effort) effort)\n\n\(next)")]
    }

    // MARK: Tool calls

    private static func calls(for directives: [Directive], prompt: Prompt) -> [ReplyOutput.Call] {
        if prompt.toolChoice == "none" { return [] }
        let isFirstRound = prompt.toolOutputs.isEmpty
        let asked = directives.compactMap { directive -> ReplyOutput.Call? in
            switch directive {
            case .call(let name, let arguments, let isForced, let isKept) where isFirstRound || isKept:
                call(name, arguments, prompt: prompt) ?? (isForced ? forcedCall(name, arguments) : nil)
            case .run(let command) where isFirstRound: shell(command, prompt: prompt)
            default: nil
            }
        }
        guard asked.isEmpty, isFirstRound else { return asked }
        // `tool_choice` requires a call.
        let isRequired = prompt.toolChoice == "required"
        let name = prompt.toolChoice["name"]?.string ?? (isRequired ? prompt.tools.first?.name : nil)
        return name.flatMap { call($0, nil, prompt: prompt) }.map { [$0] } ?? []
    }

    /// Returns the call of a tool that is not declared. Its name may be preceded by a namespace and a full stop.
    private static func forcedCall(_ name: String, _ arguments: String?) -> ReplyOutput.Call {
        let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
        let namespace = parts.count == 2 ? parts[0] : nil
        return .init(kind: .function, name: parts.last ?? name, namespace: namespace, payload: arguments ?? "{}")
    }

    /// Returns the calls of the tools by which a client searches and makes pictures itself. The official client has
    /// them in namespaces.
    private static func serviceCalls(for directives: [Directive], prompt: Prompt) -> [ReplyOutput.Call] {
        guard prompt.toolOutputs.isEmpty, prompt.toolChoice != "none" else { return [] }
        return directives.compactMap { directive in
            switch directive {
            case .search(let query) where !prompt.offersWebSearch:
                let arguments = (["search_query": [["q": .string(query)]]] as ChappieJSON).serialized()
                return call("web_search", arguments, prompt: prompt) ?? call("web.run", arguments, prompt: prompt)
            case .draw(let words):
                let arguments = (["prompt": .string(words)] as ChappieJSON).serialized()
                return call("image_generation", arguments, prompt: prompt)
                    ?? call("image_gen.imagegen", arguments, prompt: prompt)
            default: return nil
            }
        }
    }

    /// Returns the call of a declared tool. Its name may be preceded by its namespace and a full stop.
    private static func call(_ name: String, _ arguments: String?, prompt: Prompt) -> ReplyOutput.Call? {
        if let tool = prompt.tools.first(where: { $0.name == name || $0.qualifiedName == name }) {
            let made = tool.kind == .custom ? "example" : sample(of: tool.parameters).serialized()
            return .init(kind: tool.kind, name: tool.name, namespace: tool.namespace, payload: arguments ?? made)
        }
        // In code mode, a program calls the tools of namespaces.
        guard name.contains("."), name != "exec" else { return nil }
        let function = name.replacing(".", with: "__")
        let program = "const r = await tools.\(function)(\(arguments ?? "{}")); text(r);\n"
        return call("exec", program, prompt: prompt)
    }

    private static func shell(_ command: String, prompt: Prompt) -> ReplyOutput.Call? {
        let argument = (["cmd": .string(command)] as ChappieJSON).serialized()
        let argv: ChappieJSON = ["command": ["bash", "-lc", .string(command)]]
        // The last form is code mode, a custom tool that takes a program which calls the other tools.
        return call("exec_command", argument, prompt: prompt) ?? call("shell", argv.serialized(), prompt: prompt)
            ?? call("exec", "const r = await tools.exec_command(\(argument)); text(r);\n", prompt: prompt)
    }

    /// Generates a value that fits a JSON schema, with the required members of objects and the first value of an
    /// enumeration.
    private static func sample(of schema: ChappieJSON) -> ChappieJSON {
        sample(of: schema, definitions: schema["$defs"] ?? .null, depth: 0)
    }

    private static func sample(of schema: ChappieJSON, definitions: ChappieJSON, depth: Int) -> ChappieJSON {
        func part(_ schema: ChappieJSON) -> ChappieJSON {
            sample(of: schema, definitions: definitions, depth: depth + 1)
        }
        guard depth < 10 else { return .null }
        if let name = schema["$ref"]?.string?.split(separator: "/").last {
            return part(definitions[String(name)] ?? .null)
        }
        if let given = schema["const"] ?? schema["enum"]?[0] ?? schema["default"] { return given }
        if let first = schema["anyOf"]?[0] { return part(first) }
        // Of several types, the first one applies. The others are for missing values.
        switch schema["type"]?.string ?? schema["type"]?[0]?.string {
        case "string": return schema["format"] == "date-time" ? "2026-11-22T12:00:00Z" : "example"
        case "integer", "number": return schema["minimum"] ?? 1
        case "boolean": return true
        case "array": return []
        default:
            let required = (schema["required"]?.array ?? []).compactMap(\.string)
            return .object(ChappieJSONObject(required.map { ($0, part(schema["properties"]?[$0] ?? .null)) }))
        }
    }

    // MARK: Text

    private static let vocabulary = ["word ", "after ", "word, ", "all ", "the ", "same ", "again ", "and ", "on. "]

    private static func pieces(for directives: [Directive], prompt: Prompt) -> [String] {
        // After a search or a picture, the reply may be specified.
        let isServed = directives.contains {
            if case .search = $0 { true } else if case .draw = $0 { true } else { false }
        }
        let directives = directives.filter(\.isAnswer)
        let isReply = if case .reply? = directives.first { true } else { false }
        if !prompt.toolOutputs.isEmpty, !(isServed && isReply) {
            return TextPieces.split(report(of: prompt.toolOutputs))
        }
        if case .repeatWords(let count) = directives.first {
            return (0..<count).map { vocabulary[$0 % vocabulary.count] }
        }
        if directives.isEmpty, let schema = prompt.outputSchema {
            return TextPieces.split(sample(of: schema).serialized())
        }
        if !directives.contains(where: \.isAnswer), let found = prompt.foundTools {
            let names = found.map { "`\($0.qualifiedName ?? $0.name)`" }
            return TextPieces.split(names.isEmpty ? "I found no tool." : "I found: \(names.joined(separator: ", ")).")
        }
        let text =
            switch directives.first {
            case .reply(let text): text
            case .call(let name, _, _, _): apology(for: "`\(name)`", prompt: prompt)
            case .run: apology(for: "a shell", prompt: prompt)
            case .repeatWords, .comment, .steps, .search, .draw, .find, .refuse, nil: echo(of: prompt)
            }
        return TextPieces.split(text)
    }

    private static func apology(for tool: String, prompt: Prompt) -> String {
        let names = prompt.tools.map { "`\($0.name)`" }
        let offer = names.isEmpty ? "No tools are declared." : "Declared are: \(names.joined(separator: ", "))."
        return "I was asked to call \(tool), but no such tool is declared. \(offer)"
    }

    private static func report(of outputs: [Prompt.ToolOutput]) -> String {
        outputs.map { output in
            let name = output.toolName.isEmpty ? "The tool" : "The tool `\(output.toolName)`"
            let images =
                output.imageCount > 0 ? " \(output.imageCount) image\(output.imageCount == 1 ? "" : "s") and" : ""
            return "\(name) returned\(images):\n\n\(fenced(shortened(output.text)))"
        }.joined(separator: "\n\n")
    }

    private static func echo(of prompt: Prompt) -> String {
        let text = shortened(prompt.text)
        guard !text.isEmpty || prompt.imageCount > 0 else {
            return "I was asked nothing, so there is nothing to repeat."
        }
        let lines = text.split(omittingEmptySubsequences: false) { $0.isNewline }
        let quoted = lines.map { $0.isEmpty ? ">" : "> \($0)" }
        var facts = [
            "Words: \(prompt.text.split { $0.isWhitespace }.count)", "Characters: \(prompt.text.count)",
            "Model: `\(prompt.model)`", "Turn: \(prompt.turn)",
        ]
        if let effort = prompt.reasoningEffort { facts.append("Reasoning effort: \(effort)") }
        if prompt.imageCount > 0 { facts.append("Images: \(prompt.imageCount)") }
        return """
            # You asked

            \(quoted.joined(separator: "\n"))

            What I can tell about it:

            \(facts.map { "- \($0)" }.joined(separator: "\n"))

            \(fenced(String(lines[0])))

            That is **all** I know.
            """
    }

    /// Returns a code block whose fence is longer than any run of backticks inside it.
    private static func fenced(_ text: String) -> String {
        let runs = text.split { $0 != "`" }.map(\.count)
        let fence = String(repeating: "`", count: max(3, (runs.max() ?? 0) + 1))
        return "\(fence)text\n\(text)\(text.hasSuffix("\n") ? "" : "\n")\(fence)"
    }

    private static func shortened(_ text: String) -> String {
        text.count <= 20_000 ? text : text.prefix(20_000) + "…"
    }
}

/// The pieces into which text is cut for streaming.
enum TextPieces {
    /// The maximum number of characters of a piece. A longer word is cut between characters.
    static let lengthLimit = 64

    /// Returns one piece for each word, with the white space after it. The joined pieces are `text`, and no piece
    /// splits a character.
    static func split(_ text: String) -> [String] {
        var pieces: [String] = []
        var rest = text[...]
        while !rest.isEmpty {
            let word = rest.prefix(lengthLimit).prefix { !$0.isWhitespace }
            let space = rest[word.endIndex...].prefix(lengthLimit - word.count).prefix { $0.isWhitespace }
            pieces.append(String(word + space))
            rest = rest[space.endIndex...]
        }
        return pieces
    }
}
