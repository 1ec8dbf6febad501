import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import FoundationEssentials

/// The command `chappie config` for the user's settings. `path` and `edit` also work while the file is broken.
struct Config: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Show and change your settings.",
        discussion: """
            Settings are members of a JSON file, settings.json in $XDG_CONFIG_HOME/chappie (~/.config/chappie). A flag \
            overrides a template, a template the environment, the environment the file. An empty value on the command \
            line leaves a setting out for once: --tools "" or --template "".

            \(Setting.allCases.map { "  \($0.rawValue.padded(to: 15))\($0.meaning)" }.joined(separator: "\n"))

            Paths in tools begin at the folder of the file, or at your home after ~/. A member that is no setting is \
            named in a line, and stops only set and edit; unset removes any member. A value that can't be used also stops \
            commands that ask or sign in.

              chappie config set model gpt-6-sol
              chappie config set tools tools.json ~/more-tools.json
              chappie config unset model
              chappie config --effort low
            """,
        subcommands: [List.self, Set.self, Unset.self, Path.self, Edit.self], defaultSubcommand: List.self)

    struct List: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List every setting, its value, and the origin of the value.",
            discussion: """
                With --json: {"settings":[{"name":…,"value":…,"source":"flag|environment|file|login|default"},…]}; the \
                value of a default is null. A sign-in may have set the store (login).
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

        /// The options of the command line as settings.
        private var given: [Setting: ChappieJSON] {
            var given = answerOptions.given
            given[.template] = template.map { .string($0) }
            given[.keepThreads] = ephemeral.map { .bool(!$0) }
            given[.statusLine] = statusLine.map { .bool($0) }
            return given
        }

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            let kept = options.simulate ? SettingsFile() : SettingsFile(environment: environment)
            try kept.check(.unusable)
            if let notice = kept.notice { console.note("chappie: \(notice)") }
            let notes = options.simulate ? ProgramNotes() : ProgramNotes.read(environment).notes
            let given = given
            let all = try Setting.allCases.map { setting in
                let flag = given[setting].map { (value: $0, source: Setting.Source.flag) }
                return (setting: setting, chosen: try flag ?? setting.chosen(environment, kept, notes))
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
            help: "The value; tools and app_tools take several.",
            completion: .custom { words, _, _ in Setting.completions(in: words, .process) })
        var value: [String]

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            try options.refuseSimulation("settings")
            let setting = try Setting.named(name)
            var words = value
            // An absolute path names the manifest that exists here now, wherever the settings are used.
            let areFiles = if case .files = setting.kind { true } else { false }
            if areFiles { words = try value.map(Self.absolute) }
            let chosen = try setting.value(from: words, name: setting.rawValue)
            if areFiles { for path in chosen.array?.compactMap(\.string) ?? [] { _ = try WholeFile.read(path) } }
            if setting == .template, let name = chosen.string { _ = try Template(named: name, environment) }
            try await SettingsFile.change(environment) { $0[setting] = chosen }
            guard !options.json else {
                return console.json(["name": .string(setting.rawValue), "value": chosen])
            }
            console.line("\(setting.rawValue) is \(Setting.shown(chosen)) now.")
            if let variable = setting.variable, environment[variable] != nil {
                console.note("chappie: \(variable) is set, and overrides it here.")
            }
        }

        private static func absolute(_ path: String) throws -> String {
            guard !path.isEmpty, !path.hasPrefix("/") else { return path }
            let folder = FileManager.default.currentDirectoryPath
            guard !folder.isRepaired else {
                throw CommandLineError.usage(
                    "The name of this folder is not UTF-8, so the settings can't hold it.",
                    suggestion: "Move \(path) to another folder.")
            }
            return "\(folder)/\(path)"
        }
    }

    struct Unset: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "unset", abstract: "Go back to a default.",
            discussion: "With --json: {\"name\":…,\"value\":null}.")

        @OptionGroup var options: GlobalOptions

        @Argument(
            help: "The setting (see chappie config --help), or any other member of the file.",
            completion: .list(Setting.allCases.map(\.rawValue)))
        var name: String

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            try options.refuseSimulation("settings")
            let setting = try? Setting.named(name)
            let member = setting?.rawValue ?? name
            let isFound = try await SettingsFile.remove(member, environment)
            guard setting != nil || isFound else {
                _ = try Setting.named(name)
                return
            }
            if setting == .store, ProgramNotes.read(environment).notes.store != nil {
                try await ProgramNotes.change(environment) { $0.store = nil }
            }
            if options.json { return console.json(["name": .string(member), "value": .null]) }
            console.line(
                setting.map { "\(member) is the default now: \($0.usual)." }
                    ?? "Removed \(UntrustedText.message(member, limit: 100) ?? "\"\"").")
        }
    }

    struct Path: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "path", abstract: "Print the path of the settings' file.",
            discussion: "The file need not be there. With --json: {\"path\":…}.")

        @OptionGroup var options: GlobalOptions

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            let path = try SettingsFile.path(environment)
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
            let path = try SettingsFile.path(environment)
            let before = try SettingsFile.text(environment)
            let start = UserFile.isBlank(before) ? Array("{\n}\n".utf8) : UserFile.unmarked(before)
            var text = start
            let isTerminal = console.terminals.input && console.terminals.error && !options.json
            let reader = TerminalLineReader(console: console)
            let editor = try TextEditor(environment, console)
            var isChanged: Bool?
            while isChanged == nil {
                isChanged = try await editor.edit(text, ending: ".json") { edited in
                    let edited = UserFile.unmarked(edited)
                    do {
                        try SettingsFile(parsing: edited, path: path).check(.blank)
                    } catch {
                        guard isTerminal else { throw error }
                        console.note("chappie: \(CommandLineError(error).message)")
                        guard try await reader.confirms("Edit it again?") == true else { throw error }
                        text = edited
                        return nil
                    }
                    guard edited != start else { return false }
                    try await SettingsFile.replace(environment, with: edited, ifStill: before)
                    return true
                }
            }
            if options.json {
                console.json(["path": .string(path), "is_changed": .bool(isChanged == true)])
            } else {
                console.line(isChanged == true ? "The settings are changed." : "Nothing is changed.")
            }
        }
    }
}

extension Setting {
    /// Returns a value in the form that the user reads.
    static func shown(_ value: ChappieJSON) -> String {
        let text =
            value.string ?? value.array.map { $0.compactMap(\.string).joined(separator: " ") } ?? value.serialized()
        return UntrustedText.message(text, limit: 1000) ?? text
    }

    /// Returns the values that a shell offers after `chappie config set NAME`.
    static func completions(in words: [String], _ environment: ProgramEnvironment) -> [String] {
        guard let name = words.first(where: { Setting(rawValue: $0) != nil }), let setting = Setting(rawValue: name)
        else { return [] }
        return switch (setting, setting.kind) {
        case (.model, _): KnownNames.models(environment)
        case (.template, _): Template.names(environment)
        case (_, .oneOf(let words)): words
        case (_, .yesOrNo): ["true", "false"]
        case (_, .text), (_, .word), (_, .size), (_, .files), (_, .names): []
        }
    }
}
