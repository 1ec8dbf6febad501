import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// `chappie config`: the user's settings. `path` and `edit` also work while the file is broken.
struct Config: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Show and change your settings.",
        discussion: """
            Settings are members of a JSON file, settings.json in $XDG_CONFIG_HOME/chappie (~/.config/chappie). A flag \
            overrides a template, a template the environment, the environment the file. An empty value on the command \
            line leaves a setting out for once: --tools "" or --template "".

            \(Setting.allCases.map { "  \($0.rawValue.padded(to: 15))\($0.meaning)" }.joined(separator: "\n"))

            Paths in tools begin at the folder of the file, or at your home after ~/. A file with \
            another member, or with a value that can't be used, is an error that names the line.

              chappie config set model gpt-6-sol
              chappie config set tools tools.json ~/more-tools.json
              chappie config unset model
              chappie config --effort low
            """,
        subcommands: [List.self, Set.self, Unset.self, Path.self, Edit.self], defaultSubcommand: List.self)

    private static func path(_ environment: ProgramEnvironment) throws -> String {
        if let path = UserSettings.path(environment) { return path }
        throw UserSettings.homeless
    }

    struct List: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List every setting, its value, and the origin of the value.",
            discussion: """
                With --json: {"settings":[{"name":…,"value":…,"source":"flag|environment|file|default"},…]}; the value \
                of a default is null.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var answerOptions: AnswerOptions

        @Option(
            name: .shortAndLong, help: "Ask with a template (see chappie ask --help).",
            completion: .custom { _, _, _ in Template.names(.process) })
        var template: String?

        @Flag(inversion: .prefixedNo, help: "Keep nothing of the conversation.")
        var ephemeral: Bool?

        @Flag(inversion: .prefixedNo, help: "Show model, context and limits below the prompt of a chat.")
        var statusLine: Bool?

        /// The options of the command line, as settings.
        private var given: [Setting: ChappieJSON] {
            var given = answerOptions.given
            given[.template] = template.map { .string($0) }
            given[.keepThreads] = ephemeral.map { .bool(!$0) }
            given[.statusLine] = statusLine.map { .bool($0) }
            return given
        }

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            let kept = try options.simulate ? nil : UserSettings(environment: environment)
            let given = given
            let all = try Setting.allCases.map { setting in
                let flag = given[setting].map { (value: $0, source: Setting.Source.flag) }
                return (setting: setting, chosen: try flag ?? setting.chosen(environment, kept))
            }
            guard !options.json else {
                return console.json([
                    "settings": .array(
                        all.map { setting, chosen in
                            [
                                "name": .string(setting.rawValue), "value": chosen?.value ?? .null,
                                "source": .string((chosen?.source ?? .default).rawValue),
                            ]
                        })
                ])
            }
            var table = Table(["Setting", "From", "Value"])
            for (setting, chosen) in all {
                let variable = chosen?.source == .environment ? setting.variable : nil
                table.rows.append([
                    setting.rawValue, variable ?? (chosen?.source ?? .default).rawValue,
                    chosen.map { Setting.shown($0.value) } ?? setting.usual,
                ])
            }
            for line in table.lines(isTerminal: console.terminals.output) { console.line(line) }
        }
    }

    struct Set: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "set", abstract: "Set a value.", discussion: "With --json: {\"name\":…,\"value\":…}.")

        @OptionGroup var options: GlobalOptions

        @Argument(
            help: "The setting (see chappie config --help).",
            completion: .list(Setting.allCases.map(\.rawValue)))
        var name: String

        @Argument(
            help: "The value; tools takes several.",
            completion: .custom { words, _, _ in Setting.completions(in: words, .process) })
        var value: [String]

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            try options.refuseSimulation("settings")
            let setting = try Setting.named(name)
            var words = value
            // The manifest that is here now, wherever the settings are used.
            if case .files = setting.kind { words = value.map(Self.absolute) }
            let chosen = try setting.value(from: words, name: setting.rawValue)
            for path in chosen.array?.compactMap(\.string) ?? [] { _ = try SmallFile.read(path) }
            if setting == .template, let name = chosen.string { _ = try Template(named: name, environment) }
            try await UserSettings.change(environment) { $0[setting] = chosen }
            guard !options.json else {
                return console.json(["name": .string(setting.rawValue), "value": chosen])
            }
            console.line("\(setting.rawValue) is \(Setting.shown(chosen)) now.")
            if let variable = setting.variable, environment[variable] != nil {
                console.note("chappie: \(variable) is set, and overrides it here.")
            }
        }

        private static func absolute(_ path: String) -> String {
            path.isEmpty || path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
        }
    }

    struct Unset: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "unset", abstract: "Go back to a default.",
            discussion: "With --json: {\"name\":…,\"value\":null}.")

        @OptionGroup var options: GlobalOptions

        @Argument(
            help: "The setting (see chappie config --help).",
            completion: .list(Setting.allCases.map(\.rawValue)))
        var name: String

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            try options.refuseSimulation("settings")
            let setting = try Setting.named(name)
            try await UserSettings.change(environment) { $0[setting] = nil }
            if options.json { return console.json(["name": .string(setting.rawValue), "value": .null]) }
            console.line("\(setting.rawValue) is the default now: \(setting.usual).")
        }
    }

    struct Path: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "path", abstract: "Print the path of the settings' file.",
            discussion: "The file need not be there. With --json: {\"path\":…}.")

        @OptionGroup var options: GlobalOptions

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            let path = try Config.path(environment)
            if options.json { console.json(["path": .string(path)]) } else { console.line(path) }
        }
    }

    struct Edit: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "edit", abstract: "Edit the settings with $VISUAL or $EDITOR.",
            discussion: """
                The text that you save replaces the file if it can be used; otherwise the command names the line and asks \
                whether to edit it again. With --json: {"path":…,"is_changed":…}.
                """)

        @OptionGroup var options: GlobalOptions

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            try options.refuseSimulation("settings")
            let path = try Config.path(environment)
            let before = try UserSettings.contents(of: path) ?? []
            let start = before.isEmpty ? Array("{\n}\n".utf8) : before
            var text = start
            let isTerminal = console.terminals.input && console.terminals.error && !options.json
            let reader = TerminalLineReader(console: console)
            while true {
                let edited = try await TextEditor(environment, console).edit(text, ending: ".json")
                do {
                    _ = try UserSettings(parsing: edited, path: path)
                } catch {
                    guard isTerminal else { throw error }
                    console.note("chappie: \(CommandLineError(error).message)")
                    guard try await reader.confirms("Edit it again?") else { throw error }
                    text = edited
                    continue
                }
                let isChanged = edited != start
                if isChanged {
                    try await UserSettings.replace(environment, with: edited, ifStill: before)
                }
                if options.json {
                    console.json(["path": .string(path), "is_changed": .bool(isChanged)])
                } else {
                    console.line(isChanged ? "The settings are changed." : "Nothing is changed.")
                }
                return
            }
        }
    }
}

extension Setting {
    /// A value as the user reads it.
    static func shown(_ value: ChappieJSON) -> String {
        let text =
            value.string ?? value.array.map { $0.compactMap(\.string).joined(separator: " ") } ?? value.serialized()
        return UntrustedText.message(text, limit: 1000) ?? text
    }

    /// The values that a shell offers after `chappie config set NAME`.
    static func completions(in words: [String], _ environment: ProgramEnvironment) -> [String] {
        guard let name = words.first(where: { Setting(rawValue: $0) != nil }), let setting = Setting(rawValue: name)
        else { return [] }
        return switch (setting, setting.kind) {
        case (.model, _): KnownNames.models(environment)
        case (.template, _): Template.names(environment)
        case (_, .text(let words)), (_, .oneOf(let words)): words
        case (_, .yesOrNo): ["true", "false"]
        case (_, .size), (_, .files): []
        }
    }
}
