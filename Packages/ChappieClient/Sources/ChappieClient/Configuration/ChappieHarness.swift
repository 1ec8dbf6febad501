@_spi(ChappieInternals) import ChappieCore

/// Who the assistant is inside the host app: the first item of every transcript.
///
/// ```swift
/// let harness: ChappieHarness = "Answer in one sentence."
/// ```
public struct ChappieHarness: Sendable, Hashable, ExpressibleByStringLiteral {
    /// The name of the harness.
    public var name: String
    /// One sentence for people; the model does not see it.
    public var summary: String
    /// What the model is told. Empty: no item is sent.
    public var instructions: String
    /// What the assistant can do, one phrase each; told to the model as a list below the instructions.
    public var capabilities: [String]

    /// A harness of this name with these instructions.
    public init(name: String, summary: String = "", instructions: String, capabilities: [String] = []) {
        self.name = name
        self.summary = summary
        self.instructions = instructions
        self.capabilities = capabilities
    }

    /// Instructions only; the name is `Inline Harness`.
    public init(stringLiteral value: String) { self.init(name: "Inline Harness", instructions: value) }

    /// A plain assistant that says what it is, and nothing else.
    public static let `default` = ChappieHarness(
        name: "Chappie", summary: "A plain assistant inside an app.",
        instructions: """
            You are an assistant inside an application that uses the person's own ChatGPT account. \
            Answer the person directly. Do not present yourself as the Codex app, a coding agent or any other \
            OpenAI product surface, and do not claim abilities that the conversation does not show.
            """)

    /// No instructions at all.
    public static let none = ChappieHarness(name: "None", instructions: "")

    /// The first input item, or `nil` when there is nothing to say. The same harness always gives the same bytes.
    var inputItem: ChappieJSON? {
        let list = capabilities.map { "- \($0)" }.joined(separator: "\n")
        let parts = [instructions, list.isEmpty ? "" : "You can:\n\(list)"].filter { !$0.isEmpty }
        guard !parts.isEmpty else { return nil }
        return ChappieInputMessage.developer(parts.joined(separator: "\n\n")).inputItem
    }
}
