@_spi(ChappieInternals) import ChappieCore

/// A line that is meant for the chat itself, and not for the model.
enum ChatCommand: Equatable {
    case model(String?)
    case usage, compact, clear
    case save(String?)
    case tools, transport, help, quit
    /// A word that is none of these, with its slash.
    case unknown(String)

    /// Each command as help shows it, and what it does.
    static let overview: [(form: String, meaning: String)] = [
        ("/model [SLUG]", "show the model, or choose another"),
        ("/usage", "show how much of the plan's limits and of the context is used"),
        ("/compact", "let the model sum up the conversation, which makes room"),
        ("/clear", "begin a new conversation"),
        ("/save [FILE]", "write the conversation to a Markdown file"),
        ("/tools", "list the tools that the model may call"),
        ("/transport", "show how the last answer travelled"),
        ("/help", "show this list"),
        ("/quit", "end the conversation"),
    ]

    static var names: [String] { overview.compactMap { $0.form.split(separator: " ").first.map(String.init) } }

    static var helpText: String {
        let width = (overview.map(\.form.count).max() ?? 0) + 2
        return overview.map { "\($0.form.padded(to: width))\($0.meaning)\n" }.joined() + """

            Return sends. A backslash before it, or Alt with it, begins another line; pasted lines stay together. \
            Ctrl-C stops an answer and clears a line, Ctrl-D ends the conversation, Tab completes, Ctrl-R searches \
            what you have typed. A message that begins with a blank is sent as it is, and is not remembered.
            """
    }

    /// `nil` for a message: a text that begins with a blank, has several lines, or names a path instead of a command.
    init?(_ text: String) {
        guard text.first == "/", !text.contains("\n") else { return nil }
        let words = text.split(separator: " ", maxSplits: 1)
        let (name, rest) = (String(words[0]), words.count > 1 ? words[1].trimmed : "")
        guard name.count > 1, name.dropFirst().allSatisfy({ $0.isLetter || $0 == "-" }) else { return nil }
        let argument = rest.isEmpty ? nil : rest
        switch name.lowercased() {
        case "/model": self = .model(argument)
        case "/save": self = .save(argument)
        case "/usage" where argument == nil: self = .usage
        case "/compact" where argument == nil: self = .compact
        case "/clear" where argument == nil, "/new" where argument == nil: self = .clear
        case "/tools" where argument == nil: self = .tools
        case "/transport" where argument == nil: self = .transport
        case "/help" where argument == nil, "/?" where argument == nil: self = .help
        case "/quit" where argument == nil, "/exit" where argument == nil, "/bye" where argument == nil: self = .quit
        default: self = .unknown(name)
        }
    }

    /// The sentence for a word that is not a command.
    static func correction(of name: String) -> String {
        if names.contains(name.lowercased()) { return "\(name) takes no argument. /help lists the commands." }
        let similar = names.filter { $0.hasPrefix(name.prefix(3).lowercased()) && name.count > 2 }
        let guess = similar.isEmpty ? "" : " Did you mean \(similar.joined(separator: " or "))?"
        return
            "There is no \(name).\(guess) /help lists the commands; to send the line as it is, begin it with a blank."
    }

    /// Whole lines that Tab may make of what was typed.
    static func completions(of text: String, models: () -> [String]) -> [String] {
        guard text.first == "/" else { return [] }
        if text.hasPrefix("/model ") { return models().map { "/model \($0)" } }
        return overview.map { $0.form.contains(" ") ? String($0.form.prefix { $0 != " " }) + " " : $0.form }
    }
}
