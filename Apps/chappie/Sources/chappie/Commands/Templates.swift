import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK

/// The command `chappie templates` for the user's templates.
struct Templates: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates", abstract: "List, show and edit the prompts that ask -t uses.",
        discussion: """
            A template is a file NAME.md in $XDG_CONFIG_HOME/chappie/templates (~/.config/chappie/templates). chappie \
            ask --help describes the form, and chappie ask --save NAME writes one.
            """,
        subcommands: [List.self, Show.self, Edit.self], defaultSubcommand: List.self)

    struct List: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the templates with the beginning of their prompts.",
            discussion: "With --json: {\"templates\":[{\"name\":…,\"path\":…},…]}.")

        @OptionGroup var options: GlobalOptions

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            let names = Template.names(environment)
            guard !options.json else {
                let all = try names.map { name -> ChappieJSON in
                    ["name": .string(name), "path": .string(try Template.path(name, environment))]
                }
                return console.json(["templates": .array(all)])
            }
            var table = Table(["Template", "Prompt"])
            for name in names {
                let words = (try? Template(named: name, environment)).map(\.prompt) ?? "(can't be used)"
                table.rows.append([UntrustedText.forTerminal(name), words.terminalLine(limit: 80)])
            }
            for line in table.lines(isTerminal: console.terminals.output) { console.line(line) }
            if names.isEmpty { console.note("There are no templates yet. Write one: chappie ask --save NAME …") }
        }
    }

    struct Show: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Print a template.",
            discussion: "With --json: {\"name\":…,\"path\":…,\"text\":…}.")

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The template.", completion: .templates)
        var name: String

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            _ = try Template(named: name, environment)
            let path = try Template.path(name, environment)
            let text = String(decoding: try WholeFile.read(path), as: UTF8.self)
            guard !options.json else {
                return console.json(["name": .string(name), "path": .string(path), "text": .string(text)])
            }
            console.write(text.hasSuffix("\n") ? text : text + "\n")
        }
    }

    struct Edit: ConsoleCommand {
        static let configuration = CommandConfiguration(
            commandName: "edit", abstract: "Edit a template, or write a new one, with $VISUAL or $EDITOR.",
            discussion: """
                The text is kept even if it can't be used as a template; the command then names the line. With --json: \
                {"path":…,"is_changed":…}.
                """)

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The template.", completion: .templates)
        var name: String

        func run(on console: Console, _ environment: ProgramEnvironment) async throws {
            let path = try Template.path(name, environment)
            let before = WholeFile.exists(path) ? try WholeFile.read(path) : []
            let isChanged = try await TextEditor(environment, console).edit(before, ending: ".md") { after in
                if before != after { try UserFile(path: path).write(after) }
                return before != after
            }
            if options.json {
                console.json(["path": .string(path), "is_changed": .bool(isChanged)])
            } else {
                console.line(isChanged ? "The template is in \(path)." : "Nothing is changed.")
            }
            if isChanged { _ = try Template(named: name, environment) }
        }
    }
}

extension CompletionKind {
    static var templates: CompletionKind { .custom { _, _, _ in Template.names(.process) } }
}

extension Template {
    /// Returns the path of the template with this name, which need not exist. A name with a slash is a path.
    ///
    /// - Throws: ``CommandLineError``.
    static func path(_ name: String, _ environment: ProgramEnvironment) throws -> String {
        guard !name.contains("/") else { return name }
        guard !name.isEmpty, name.first != ".", name.allSatisfy({ !$0.isNewline }) else {
            throw CommandLineError.usage("A template's name is the name of a file, without its ending.")
        }
        return try environment.folder(\.configuration, for: "templates") + "/templates/\(name).md"
    }

    /// Writes a new template.
    ///
    /// - Parameter settings: the values of `model`, `system`, `effort` and `verbosity`.
    /// - Returns: the path of its file.
    /// - Throws: ``CommandLineError``, also if there is a template with this name.
    static func save(
        _ name: String, _ settings: [(name: String, value: String?)], prompt: String, _ environment: ProgramEnvironment
    ) throws -> String {
        let path = try path(name, environment)
        let lines = settings.compactMap { setting in
            setting.value.map { "\(setting.name): \($0.replacing("\n", with: "\n  "))\n" }
        }
        let head = lines.isEmpty && !prompt.hasPrefix("---") ? "" : "---\n\(lines.joined())---\n"
        PrivateFile.makeFolder(of: path)
        do {
            try PrivateFile.create(path, with: Array("\(head)\(prompt)\n".utf8))
        } catch {
            throw CommandLineError.usage(
                "The template \(path) can't be written: \(error).",
                suggestion: "Choose another name, or change it with `chappie templates edit \(name)`.")
        }
        return path
    }
}
