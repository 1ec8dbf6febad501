@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

/// A line for the chat itself and not for the model.
enum ChatCommand: Equatable {
    case model(String?), effort(String?), system(String?), template(String?)
    case file(String?), image(String?), paste
    case resource(String?), prompt(String?)
    case edit(String?)
    case retry, undo, copy
    case threads(String?), open(String?)
    case usage, compact, clear
    case save(String?)
    case tools, transport, help, quit
    /// Web search on or off. `nil` switches it.
    case web(Bool?)
    /// Pictures on or off. `nil` switches it.
    case draw(Bool?)
    /// The connected apps that the model may use. `nil` lists them.
    case apps(String?)
    /// A word that is not one of these commands, with its slash.
    case unknown(String)

    /// The form of each command in the help, and what it does.
    static let overview: [(form: String, meaning: String)] = [
        ("/model [SLUG]", "show the model, or choose another"),
        ("/effort [LEVEL]", "show how hard the model thinks, or choose another level"),
        ("/system [TEXT]", "give instructions with the next message"),
        ("/template [NAME]", "put messages into a template; without a name, stop that"),
        ("/file [PATH]", "attach a file, a folder or an address to the next message"),
        ("/image [PATH]", "attach an image"),
        ("/resource [NAME]", "list what tool servers give to be read, or attach SERVER:ADDRESS"),
        ("/prompt [NAME …]", "list prompts of tool servers, or ask with SERVER:NAME ARGUMENT=VALUE"),
        ("/paste", "attach the image or text on the clipboard"),
        ("/edit [TEXT]", "write the message in your editor ($VISUAL, $EDITOR)"),
        ("/retry", "ask the last message again"),
        ("/undo", "take back the last message and its answer"),
        ("/copy", "copy the last answer"),
        ("/threads [WORDS]", "list kept conversations, or find words in them"),
        ("/open ID", "continue a kept conversation"),
        ("/web [on|off]", "let the model search the web"),
        ("/draw [on|off]", "let the model make pictures, which are saved in the current folder"),
        ("/apps [NAMES|off]", "list the apps connected in ChatGPT, or let the model use some"),
        ("/usage", "show how much of the plan's limits and of the context is used"),
        ("/compact", "let the model sum up the conversation, which makes room"),
        ("/clear", "begin a new conversation"),
        ("/save [FILE]", "write the conversation to a Markdown file"),
        ("/tools", "list the tools that the model may call"),
        ("/transport", "show the transport of the last answer"),
        ("/help", "show this list"),
        ("/quit", "end the conversation"),
    ]

    static var names: [String] { overview.compactMap { $0.form.split(separator: " ").first.map(String.init) } }

    static var helpText: String {
        let width = (overview.map(\.form.count).max() ?? 0) + 2
        return overview.map { "\($0.form.padded(to: width))\($0.meaning)\n" }.joined() + """

            Return sends. A backslash before it, or Alt or Shift with it, begins another line; pasted lines stay together. \
            Ctrl-C stops an answer and clears a line, Ctrl-D ends the conversation, Tab completes, Ctrl-R searches \
            what you have typed. A file that you drop on the window is offered as an attachment. A message that begins \
            with a blank is sent as it is, and is not remembered.
            """
    }

    /// Returns `nil` for a message, which is a text that begins with a blank, has several lines, or names a path
    /// instead of a command.
    init?(_ text: String) {
        guard text.first == "/", !text.contains("\n") else { return nil }
        let words = text.split(separator: " ", maxSplits: 1)
        let (name, rest) = (String(words[0]), words.count > 1 ? words[1].trimmed : "")
        guard name.count > 1, name.dropFirst().allSatisfy({ $0.isLetter || $0 == "-" }) else { return nil }
        let argument = rest.isEmpty ? nil : rest
        switch name.lowercased() {
        case "/model": self = .model(argument)
        case "/effort": self = .effort(argument)
        case "/system": self = .system(argument)
        case "/template": self = .template(argument)
        case "/file": self = .file(argument)
        case "/image": self = .image(argument)
        case "/resource", "/resources": self = .resource(argument)
        case "/prompt", "/prompts": self = .prompt(argument)
        case "/edit": self = .edit(argument)
        case "/threads": self = .threads(argument)
        case "/open": self = .open(argument)
        case "/save": self = .save(argument)
        case "/web" where ["on", "off", nil].contains(argument?.lowercased()):
            self = .web(argument.map { $0.lowercased() == "on" })
        case "/draw" where ["on", "off", nil].contains(argument?.lowercased()):
            self = .draw(argument.map { $0.lowercased() == "on" })
        case "/apps": self = .apps(argument)
        case "/paste" where argument == nil: self = .paste
        case "/retry" where argument == nil: self = .retry
        case "/undo" where argument == nil: self = .undo
        case "/copy" where argument == nil: self = .copy
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

    /// Whether the command sends a message.
    var asks: Bool {
        switch self {
        case .edit, .retry, .prompt(_?): true
        default: false
        }
    }

    /// The command's name if it reads or writes files or starts programs. A line from a pipe may do so only with
    /// `--commands`.
    var nameOfRestricted: String? {
        switch self {
        case .file(_?): "/file"
        case .image(_?): "/image"
        case .resource(_?): "/resource"
        case .paste: "/paste"
        case .save: "/save"
        case .edit: "/edit"
        case .draw: "/draw"
        default: nil
        }
    }

    /// Returns the message about a word that is not a command.
    static func correction(of name: String) -> String {
        if ["/web", "/draw"].contains(name.lowercased()) {
            let name = name.lowercased()
            return "Write \(name) on or \(name) off. Without a word, \(name) toggles."
        }
        if names.contains(name.lowercased()) { return "\(name) takes no argument. /help lists the commands." }
        let similar = names.filter { $0.hasPrefix(name.prefix(3).lowercased()) && name.count > 2 }
        let guess = similar.isEmpty ? "" : " Did you mean \(similar.joined(separator: " or "))?"
        return
            "There is no \(name).\(guess) /help lists the commands; to send the line unchanged, begin it with a blank."
    }

    /// The names that Tab offers after a command.
    struct Known: Sendable {
        var models: @Sendable () -> [String] = { [] }
        var efforts: @Sendable () -> [String] = { Setting.efforts }
        var templates: @Sendable () -> [String] = { [] }
        var threads: @Sendable () -> [String] = { [] }
        var resources: @Sendable () -> [String] = { [] }
        var prompts: @Sendable () -> [String] = { [] }
    }

    /// Returns the names that this chat knows. They are requested at the first need. A call blocks for at most two
    /// seconds.
    static func known(to client: ChappieClient, _ program: Program) -> Known {
        let (models, threads) = (BlockingValue<[String]>(), BlockingValue<[String]>())
        let (resources, prompts) = (BlockingValue<[String]>(), BlockingValue<[String]>())
        let offers = program.startedTools.offers
        return Known(
            models: { models.value(within: 2) { try await client.models().map(\.slug) } ?? [] },
            templates: { Template.names(program.environment) },
            threads: {
                threads.value(within: 2) {
                    let all = try await Threads.store(program).readableThreads().threads
                    return all.latestFirst(includeArchived: false).map(\.shortID)
                } ?? []
            },
            resources: { resources.value(within: 2) { try await offers.names(.resources) } ?? [] },
            prompts: { prompts.value(within: 2) { try await offers.names(.prompts) } ?? [] })
    }

    /// Returns the complete lines that Tab can offer for the text.
    static func completions(of text: String, _ known: Known) -> [String] {
        guard text.first == "/" else { return [] }
        for (name, words) in [
            ("/model ", known.models), ("/effort ", known.efforts), ("/template ", known.templates),
            ("/open ", known.threads),
            ("/resource ", known.resources), ("/prompt ", known.prompts),
        ] where text.hasPrefix(name) {
            return words().map { name + $0 }
        }
        for name in ["/file ", "/image ", "/save "] where text.hasPrefix(name) {
            return PathArgument.completions(of: String(text.dropFirst(name.count))).map { name + $0 }
        }
        return overview.map { $0.form.contains(" ") ? String($0.form.prefix { $0 != " " }) + " " : $0.form }
    }
}
