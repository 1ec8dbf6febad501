import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import Glibc
import SystemPackage

/// The command `chappie completions`. It needs neither settings nor a network, because shells run it when they start.
struct Completions: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completions",
        abstract: "Print a shell's completions for this program.",
        discussion: """
            Put the output into a file that your shell reads when it starts:

              chappie completions bash > ~/.local/share/bash-completion/completions/chappie
              chappie completions zsh > ~/.zfunc/_chappie   (a folder in $fpath)
              chappie completions fish > ~/.config/fish/completions/chappie.fish

            The IDs of threads are completed if their key is in a keyring that is unlocked. With the encrypted file they \
            are not, because each completion would need the passphrase.

            With --json: {"completions":…}.
            """)

    /// The shells that are supported.
    enum Shell: String, ExpressibleByArgument, CaseIterable {
        case bash, zsh, fish

        var known: CompletionShell {
            switch self {
            case .bash: .bash
            case .zsh: .zsh
            case .fish: .fish
            }
        }
    }

    @OptionGroup var options: GlobalOptions

    @Argument(help: "bash, zsh or fish.")
    var shell: Shell

    func run() throws {
        let script = ShellCompletions.script(for: shell.known)
        try write(options.json ? (["completions": .string(script)] as ChappieJSON).serialized() : script)
    }
}

/// The command `chappie manual`. The man page comes from the same declarations as `--help`, so it matches the program.
struct Manual: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "manual",
        abstract: "Print the manual page, in the form that man reads.",
        discussion: """
              chappie manual | man -l -
              chappie manual > ~/.local/share/man/man1/chappie.1

            With --json: {"manual":…}.
            """)

    @OptionGroup var options: GlobalOptions

    func run() throws {
        let page = ManualPage(try ChappieJSON(parsing: ChappieCommand._dumpHelp())).text
        try write(options.json ? (["manual": .string(page)] as ChappieJSON).serialized() : page)
    }
}

/// Writes `text` to standard output, with a line feed at the end if it has none.
private func write(_ text: String) throws {
    let bytes = Array(text.utf8) + (text.utf8.last == UInt8(ascii: "\n") ? [] : [UInt8(ascii: "\n")])
    do {
        try Descriptor.standardOutput.write(bytes)
    } catch {
        if error == .brokenPipe { Console.endByBrokenPipe() }
        try? Descriptor.standardError.write(Array("chappie: Standard output can't be written: \(error).\n".utf8))
        throw ExitCode(ExitStatus.unavailable.rawValue)
    }
}

/// A manual page in roff's man macros (groff_man(7)), made from the argument parser's description of its commands.
struct ManualPage {
    private let root: ChappieJSON
    /// The names of the options that every command takes.
    private let common: Set<String>

    /// - Parameter help: the parser's description of the program.
    init(_ help: ChappieJSON) {
        root = help["command"] ?? .null
        let sets = Self.commands(root).filter { $0.path.count > 1 && $0.json["subcommands"]?.array?.isEmpty != false }
            .map { Set(Self.options($0.json).compactMap(Self.name)) }
        common = sets.dropFirst().reduce(sets.first ?? []) { $0.intersection($1) }
    }

    var text: String {
        let name = root["commandName"]?.string ?? ""
        var page = """
            .TH \(name.uppercased()) 1 "" "\(name) \(ChappieVersion.current)" "User Commands"
            .nh
            .ad l
            .SH NAME
            \(Self.escaped(name)) \\- \(Self.escaped(root["abstract"]?.string ?? ""))
            .SH SYNOPSIS
            .B \(Self.escaped(name))
            .I command
            .RI [ option \\|.\\|.\\|.]
            .RI [ argument \\|.\\|.\\|.]

            """
        let commands = Self.commands(root)
        let sample = commands.first { $0.path.count > 1 }?.json
        // Paragraphs under headings in capitals are separate sections below the text about commands.
        let (description, sections) = Self.split(root["discussion"]?.string ?? "")
        page += ".SH DESCRIPTION\n" + Self.prose(description)
        page += ".SH OPTIONS\nEvery command takes these.\n"
        for option in sample.map(Self.options) ?? [] where Self.name(option).map(common.contains) == true {
            page += Self.entry(option)
        }
        page += ".SH COMMANDS\n"
        for (path, command) in commands where path.count > 1 {
            page += ".SS \"\(Self.escaped(path.joined(separator: " ")))\(Self.operands(command))\"\n"
            page += Self.escaped(command["abstract"]?.string ?? "") + "\n"
            page += Self.prose(command["discussion"]?.string ?? "", isInside: true)
            for option in Self.arguments(command) where Self.name(option).map(common.contains) != true {
                page += Self.entry(option)
            }
        }
        return page + sections
    }

    // MARK: The parser's description

    /// Returns every command and its path in the order of the help, beginning with the program itself.
    private static func commands(_ command: ChappieJSON, below: [String] = []) -> [(path: [String], json: ChappieJSON)]
    {
        let path = below + [command["commandName"]?.string ?? ""]
        // The command `help` belongs to the parser.
        guard path.last != "help" else { return [] }
        return [(path, command)] + (command["subcommands"]?.array ?? []).flatMap { commands($0, below: path) }
    }

    private static func arguments(_ command: ChappieJSON) -> [ChappieJSON] {
        (command["arguments"]?.array ?? []).filter { $0["shouldDisplay"]?.bool != false }
    }

    private static func options(_ command: ChappieJSON) -> [ChappieJSON] {
        arguments(command).filter { $0["kind"] != "positional" }
    }

    private static func name(_ option: ChappieJSON) -> String? { option["preferredName"]?["name"]?.string }

    private static func operands(_ command: ChappieJSON) -> String {
        arguments(command).filter { $0["kind"] == "positional" }.map { argument in
            let name = argument["valueName"]?.string ?? ""
            let repeated = argument["isRepeating"]?.bool == true ? " ..." : ""
            return escaped(argument["isOptional"]?.bool == true ? " [\(name)\(repeated)]" : " \(name)\(repeated)")
        }.joined()
    }

    // MARK: Roff

    private static func entry(_ option: ChappieJSON) -> String {
        let value = option["valueName"]?.string ?? ""
        let names = option["names"]?.array ?? []
        let sorted = names.filter { $0["kind"] != "long" } + names.filter { $0["kind"] == "long" }
        var tag = sorted.compactMap { name in
            name["name"]?.string.map { "\\fB\(escaped((name["kind"] == "long" ? "--" : "-") + $0))\\fR" }
        }.joined(separator: ", ")
        if tag.isEmpty { tag = "\\fI\(escaped(value))\\fR" }
        if option["kind"] == "option" { tag += " \\fI\(escaped(value))\\fR" }
        var words = option["abstract"]?.string ?? ""
        if let usual = option["defaultValue"]?.string, option["kind"] != "flag" { words += " Default: \(usual)." }
        return ".TP\n\(tag)\n\(escaped(words))\n"
    }

    /// Returns the text in roff. Paragraphs are filled, and indented text stays unchanged.
    private static func prose(_ text: String, isInside: Bool = false) -> String {
        paragraphs(text).map { lines in
            let isVerbatim = lines.allSatisfy { $0.hasPrefix(" ") }
            let body = lines.map { escaped(isVerbatim ? String($0) : $0.trimmed) + "\n" }.joined()
            return (isInside ? ".PP\n" : "") + (isVerbatim ? ".nf\n\(body).fi\n" : body)
        }.joined(separator: isInside ? "" : ".PP\n")
    }

    /// Returns the text before the first heading in capitals, and the sections under such headings.
    private static func split(_ text: String) -> (description: String, sections: String) {
        var (before, sections) = ([String](), "")
        for lines in paragraphs(text) {
            if let heading = lines.first, heading == heading.uppercased(), lines.count > 1 {
                let body = lines.dropFirst().joined(separator: "\n")
                sections += ".SH \(escaped(String(heading)))\n" + prose(body)
            } else {
                before.append(lines.joined(separator: "\n"))
            }
        }
        return (before.joined(separator: "\n\n"), sections)
    }

    private static func paragraphs(_ text: String) -> [[Substring]] {
        text.split(separator: "\n", omittingEmptySubsequences: false).split { $0.allSatisfy(\.isWhitespace) }
            .map(Array.init)
    }

    /// Escapes the text for roff, so that hyphens can be copied, backslashes are printed and no line begins with a
    /// request.
    private static func escaped(_ text: String) -> String {
        let safe = text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("\"", with: "\\(dq")
            .replacing("~", with: "\\(ti").replacing("^", with: "\\(ha").replacing("`", with: "\\(ga")
            // JSON may continue on the next line after a comma.
            .replacing(",\\(dq", with: ",\\:\\(dq")
        return safe.first == "." || safe.first == "'" ? "\\&" + safe : safe
    }
}
