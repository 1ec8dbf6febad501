@_spi(ChappieInternals) import ChappieCore

/// The model's answer to a prompt: output items in order.
struct Reply: Sendable, Hashable {
    enum Output: Sendable, Hashable {
        case reasoning(summary: String)
        /// Streamed piece by piece; the pieces joined are the text.
        case message(pieces: [String])
        case functionCall(name: String, namespace: String?, arguments: String)
        case customCall(name: String, namespace: String?, input: String)
        case compaction(encryptedContent: String)
    }

    let outputs: [Output]
}

/// The "model": repeats and formats what it was asked, and does what a ``Directive`` says. The same prompt always gives
/// the same reply.
enum EchoModel {
    /// - Parameter divergesAfter: pieces of its text after which it goes on with other words, as an answer that is asked
    ///   for again may.
    static func reply(to prompt: Prompt, divergesAfter: Int?) -> Reply {
        let reply = reply(to: prompt)
        guard let divergesAfter else { return reply }
        return Reply(
            outputs: reply.outputs.map { output in
                guard case .message(let pieces) = output else { return output }
                return .message(
                    pieces: pieces.prefix(divergesAfter) + ["Or, ", "to ", "put ", "it ", "another ", "way."])
            })
    }

    static func reply(to prompt: Prompt) -> Reply {
        if prompt.wantsCompaction {
            return Reply(outputs: [
                .compaction(encryptedContent: Base64URL.encode(("compacted:" + prompt.text.prefix(400)).utf8))
            ])
        }
        let directives = Directive.parse(prompt.text, tools: prompt.tools)
        let calls = self.calls(for: directives, prompt: prompt)
        // Calls come alone, unless the message says what is to be said before them.
        let words = directives.filter { if case .reply = $0 { true } else { false } }
        let said = calls.isEmpty ? directives : words
        let message =
            calls.isEmpty || !words.isEmpty ? [Reply.Output.message(pieces: pieces(for: said, prompt: prompt))] : []
        let answer = message + calls
        return Reply(outputs: reasoning(for: prompt) + answer)
    }

    // MARK: Reasoning

    private static func reasoning(for prompt: Prompt) -> [Reply.Output] {
        guard let effort = prompt.reasoningEffort else { return [] }
        guard prompt.reasoningSummary != "none" else { return [.reasoning(summary: "")] }
        let next =
            prompt.toolOutputs.isEmpty
            ? "I was asked something and will repeat it in Markdown."
            : "A tool has answered, so I can report what it said."
        return [.reasoning(summary: "**Thinking it over** (\(effort) effort)\n\n\(next)")]
    }

    // MARK: Tool calls

    private static func calls(for directives: [Directive], prompt: Prompt) -> [Reply.Output] {
        if prompt.toolChoice == "none" { return [] }
        let isFirstRound = prompt.toolOutputs.isEmpty
        let asked = directives.compactMap { directive -> Reply.Output? in
            switch directive {
            case .keepCalling(let name, let arguments):
                call(name, arguments, prompt: prompt)
            case .call(let name, let arguments, let isForced) where isFirstRound:
                call(name, arguments, prompt: prompt)
                    ?? (isForced ? .functionCall(name: name, namespace: nil, arguments: arguments ?? "{}") : nil)
            case .run(let command) where isFirstRound: shell(command, prompt: prompt)
            default: nil
            }
        }
        return asked.isEmpty && isFirstRound ? demanded(by: prompt) : asked
    }

    /// A call that `tool_choice` insists on.
    private static func demanded(by prompt: Prompt) -> [Reply.Output] {
        let name =
            prompt.toolChoice["name"]?.string ?? (prompt.toolChoice == "required" ? prompt.tools.first?.name : nil)
        return name.flatMap { call($0, nil, prompt: prompt) }.map { [$0] } ?? []
    }

    private static func call(_ name: String, _ arguments: String?, prompt: Prompt) -> Reply.Output? {
        guard let tool = prompt.tools.first(where: { $0.name == name }) else { return nil }
        switch tool.kind {
        case .custom: return .customCall(name: name, namespace: tool.namespace, input: arguments ?? "example")
        case .function:
            let text = arguments ?? SampleArguments.make(for: tool.parameters).serialized()
            return .functionCall(name: name, namespace: tool.namespace, arguments: text)
        }
    }

    private static func shell(_ command: String, prompt: Prompt) -> Reply.Output? {
        let names = Set(prompt.tools.map(\.name))
        if names.contains("exec_command") {
            return call("exec_command", (["cmd": .string(command)] as ChappieJSON).serialized(), prompt: prompt)
        }
        if names.contains("shell") {
            let argv: ChappieJSON = ["command": ["bash", "-lc", .string(command)]]
            return call("shell", argv.serialized(), prompt: prompt)
        }
        // Code mode: a custom tool that takes a program which calls the other tools.
        let argument = (["cmd": .string(command)] as ChappieJSON).serialized()
        return call("exec", "const r = await tools.exec_command(\(argument)); text(r);\n", prompt: prompt)
    }

    // MARK: Text

    private static func pieces(for directives: [Directive], prompt: Prompt) -> [String] {
        if !prompt.toolOutputs.isEmpty { return TextPieces.split(report(of: prompt.toolOutputs)) }
        for directive in directives {
            switch directive {
            case .repeatWords(let count): return (0..<count).map { vocabulary[$0 % vocabulary.count] }
            case .reply(let text): return TextPieces.split(text)
            case .call(let name, _, _), .keepCalling(let name, _):
                return TextPieces.split(apology(for: "`\(name)`", prompt: prompt))
            case .run: return TextPieces.split(apology(for: "a shell", prompt: prompt))
            }
        }
        return TextPieces.split(echo(of: prompt))
    }

    private static let vocabulary = ["word ", "after ", "word, ", "all ", "the ", "same ", "again ", "and ", "on. "]

    private static func apology(for tool: String, prompt: Prompt) -> String {
        let names = prompt.tools.map { "`\($0.name)`" }
        let offer = names.isEmpty ? "No tools are declared." : "Declared are: \(names.joined(separator: ", "))."
        return "I was asked to call \(tool), but no such tool is declared. \(offer)"
    }

    private static func report(of outputs: [Prompt.ToolOutput]) -> String {
        outputs.map { output in
            let name = output.toolName.isEmpty ? "The tool" : "The tool `\(output.toolName)`"
            return "\(name) returned:\n\n\(fenced(shortened(output.text)))"
        }.joined(separator: "\n\n")
    }

    private static func echo(of prompt: Prompt) -> String {
        let text = shortened(prompt.text)
        guard !text.isEmpty || prompt.imageCount > 0 else {
            return "I was asked nothing, so there is nothing to repeat."
        }
        let quoted = text.split(omittingEmptySubsequences: false) { $0.isNewline }.map { $0.isEmpty ? ">" : "> \($0)" }
        var facts = [
            "Words: \(wordCount(of: prompt.text))", "Characters: \(prompt.text.count)",
            "Model: `\(prompt.model)`", "Turn: \(prompt.turn)",
        ]
        if let effort = prompt.reasoningEffort { facts.append("Reasoning effort: \(effort)") }
        if prompt.imageCount > 0 { facts.append("Images: \(prompt.imageCount)") }
        let list = facts.map { "- \($0)" }.joined(separator: "\n")
        let first = String(text.prefix { !$0.isNewline })
        return """
            # You asked

            \(quoted.joined(separator: "\n"))

            What I can tell about it:

            \(list)

            \(fenced(first))

            That is **all** I know.
            """
    }

    /// A code block whose fence is longer than any run of backticks inside.
    private static func fenced(_ text: String) -> String {
        var longest = 0
        var run = 0
        for byte in text.utf8 {
            run = byte == UInt8(ascii: "`") ? run + 1 : 0
            longest = max(longest, run)
        }
        let fence = String(repeating: "`", count: max(3, longest + 1))
        return "\(fence)text\n\(text)\(text.hasSuffix("\n") ? "" : "\n")\(fence)"
    }

    private static func wordCount(of text: String) -> Int {
        var count = 0
        var isInWord = false
        for scalar in text.unicodeScalars {
            let isSpace = scalar.properties.isWhitespace
            if !isSpace, !isInWord { count += 1 }
            isInWord = !isSpace
        }
        return count
    }

    private static func shortened(_ text: String) -> String {
        text.count <= 20_000 ? text : text.prefix(20_000) + "…"
    }
}

/// Makes up arguments that fit a JSON schema: the required members of objects, the first of an enumeration.
enum SampleArguments {
    static func make(for schema: ChappieJSON, depth: Int = 0) -> ChappieJSON {
        guard depth < 16 else { return .null }
        if let constant = schema["const"] { return constant }
        if let first = schema["enum"]?[0] { return first }
        if let example = schema["default"] ?? schema["examples"]?[0] { return example }
        if let choice = schema["anyOf"]?[0] ?? schema["oneOf"]?[0] { return make(for: choice, depth: depth + 1) }
        switch schema["type"]?.string ?? schema["type"]?[0]?.string ?? "object" {
        case "string": return "example"
        case "integer", "number": return schema["minimum"] ?? 1
        case "boolean": return true
        case "null": return .null
        case "array":
            let count = min(max(schema["minItems"]?.int ?? 0, 0), 8)
            return .array((0..<count).map { _ in make(for: schema["items"] ?? .null, depth: depth + 1) })
        default:
            let required = (schema["required"]?.array ?? []).compactMap(\.string).prefix(64)
            return .object(
                ChappieJSONObject(
                    required.map { ($0, make(for: schema["properties"]?[$0] ?? ["type": "string"], depth: depth + 1)) })
            )
        }
    }
}
