import ArgumentParser
import CMain
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
import ChappieSDK
import Glibc

/// The program `chappie`, which parses the arguments and runs a command.
@main
struct ChappieCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chappie",
        abstract: "Talk to ChatGPT with your own account, from your own machine.",
        discussion: """
            chappie "a question" is short for chappie ask "a question", and so is a question from a pipe.

            Every command takes --json, --account NAME, --route ROUTE, --timeout SECONDS, --verbose and --simulate, \
            before or after its name.

            ENVIRONMENT
              CHAPPIE_ISSUER            where to sign in (default https://auth.openai.com)
              CHAPPIE_BACKEND           the service, up to and including /backend-api
              CHAPPIE_CREDENTIAL_STORE  keyring (default), file (encrypted) or memory
              CHAPPIE_PASSPHRASE_FILE   a file with the passphrase of the encrypted file
              CHAPPIE_ACCESS_TOKEN      an access token in place of the stored sign-in
              CHAPPIE_ACCOUNT           the account to use (default "default")
              CHAPPIE_MODEL             the model of new conversations
              CHAPPIE_THREADS_LIMIT     MiB that kept conversations may take (default 512)
              CHAPPIE_CA_FILE           a PEM file of additional authorities to trust
              CHAPPIE_MINIMUM_TLS       the oldest TLS to speak: 1.2 (default) or 1.3
              SSL_CERT_FILE, SSL_CERT_DIR        authorities in place of the system's
              HTTPS_PROXY, ALL_PROXY, NO_PROXY   as curl reads them; socks:// is socks5h://
              NO_COLOR                  no colour and no cursor movement

            FILES
              ~/.config/chappie/settings.json     settings
              ~/.config/chappie/templates         templates
              ~/.local/state/chappie/threads      kept conversations, encrypted
              ~/.local/share/chappie/credentials  sign-ins without a keyring, encrypted
              ~/.cache/chappie                    lists of models
              (XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME, XDG_CACHE_HOME)

            EXIT STATUS
              0    done
              64   wrong usage, or a setting that can't be used
              65   data can't be used: nonsense from the server, damage, a newer format
              69   the network, service or keyring is unavailable, or an answer ended early
              70   a fault in chappie
              75   the plan's usage limit is reached (the message says when it resets)
              77   sign-in needed
              130  interrupted (129 by a closed terminal, 143 by SIGTERM)
            """,
        version: ChappieVersion.current,
        subcommands: [
            Login.self, Logout.self, Lock.self, Status.self, Ask.self, Chat.self, SearchWeb.self, Draw.self,
            Threads.self, Models.self, Usage.self, Apps.self,
            Accounts.self, Config.self, Templates.self,
            Auth.self, Tools.self, ToolServer.self, Doctor.self, SimulatorCommand.self, Completions.self, Manual.self,
        ])

    /// The commands that other programs call by these names.
    static let namesElsewhere = ["version": "--version", "list": "threads", "logs": "threads"]

    /// The names of the commands.
    static let names = configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"]

    /// Returns the names of the commands in a group such as `threads`.
    static func names(in group: String) -> [String] {
        let group = configuration.subcommands.first { $0.configuration.commandName == group }
        return group?.configuration.subcommands.compactMap { $0.configuration.commandName } ?? []
    }

    /// Runs the program. It does not wait for anything, because a task needs a thread and the system may not allow one.
    static func main() {
        occupyStandardStreams()
        // Writing to a reader or a peer that has closed then fails with an error number (see Console) and does not end
        // the process.
        signal(SIGPIPE, SIG_IGN)
        forbidCoreDumps()
        run((0..<cmain_argument_count()).compactMap { cmain_argument($0).map { String(cString: $0) } })
    }

    /// Runs the command in `words`, which are the arguments with the program's name.
    private static func run(_ words: [String]) -> Never {
        do {
            // Linux passes an empty name if a program is started without any argument.
            guard words.contains(where: { !$0.isEmpty }) else {
                throw CommandLineError(
                    .internalError, code: "no_arguments",
                    "The program was started without arguments, even its own name.",
                    suggestion: "Start it with its name as the first argument.")
            }
            // The parser would first look at the options of every command, which takes a third of the time.
            if words.dropFirst() == ["--version"] { throw CleanExit.message(ChappieVersion.current) }
            let arguments = try GlobalOptions.normalized(Array(words.dropFirst())) { StandardInput().isGiven }
            var command = try parseAsRoot(arguments)
            if let command = command as? any ConsoleCommand { command.runAndExit() }
            try command.run()
            Glibc.exit(ExitStatus.success.rawValue)
        } catch let error as CommandLineError {
            error.end(asJSON: false)
        } catch {
            if repeatsSecret(error, of: words.dropFirst()) { secretInArguments.end(asJSON: false) }
            end(with: error)
        }
    }

    /// Returns whether the parser's message repeats an argument after `login`, which may be a secret in the wrong
    /// place.
    private static func repeatsSecret(_ error: any Error, of words: ArraySlice<String>) -> Bool {
        guard let command = words.firstIndex(of: "login"), !exitCode(for: error).isSuccess else { return false }
        let message = fullMessage(for: error)
        return words[words.index(after: command)...].contains { word in
            // A prefix like the name of an option, such as `-q` or `--no-browser`. A token is longer or has digits.
            let name = word.prefix { $0 == "-" || $0.isLowercase }
            let isOption = name.hasPrefix("--") || name.count == 2 && name.hasPrefix("-")
            let value = isOption && name.count < 24 ? word.dropFirst(name.count).drop { $0 == "=" } : word[...]
            return !value.isEmpty && message.contains(value)
        }
    }

    private static let secretInArguments = CommandLineError.usage(
        "login takes options only, and one here is unknown or has a value that it does not take.",
        suggestion: "An access token is read from standard input: `printenv TOKEN | chappie login --with-access-token`."
    )

    /// Returns the parser's message in the form of this program's messages.
    private static func words(of error: any Error) -> String {
        var text = fullMessage(for: error)
        guard text.hasPrefix("Error: ") else { return text }
        text = "chappie: " + text.dropFirst("Error: ".count)
        let parts = text.split(separator: "'", maxSplits: 4, omittingEmptySubsequences: false)
        guard parts.first == "chappie: Unknown option ", parts.count > 2 else { return text }
        let option = parts[1]
        // The parser also suggests options that have nothing in common with the unknown one.
        if parts.count == 5, parts[2] == ". Did you mean ",
            Spelling.nearest(to: String(option), in: [String(parts[3])]) == nil
        {
            text = "\(parts[0])'\(option)'.\(parts[4].drop { $0 != "\n" })"
        }
        if option.contains(" ") || option.dropFirst().first?.isNumber == true {
            text += "\n  A question that begins with a hyphen follows two: chappie -- \"\(option)\""
        }
        return text
    }

    /// Prints help to standard output, and errors of a command line to standard error.
    private static func end(with error: any Error) -> Never {
        let status = exitCode(for: error)
        let stream = status.isSuccess ? Descriptor.standardOutput : .standardError
        var text = words(of: error)
        // The library does not break usage lines.
        if let size = TerminalState.size(of: stream.number) { text = PlainText.wrapped(text, width: size.columns) }
        if !text.isEmpty { try? stream.write(Array("\(text)\n".utf8)) }
        _exit(status.rawValue)
    }
}

extension GlobalOptions {
    /// Moves these options from before the command's name to after it, because the parser looks for them there.
    /// Arguments without a command are a question, and so is standard input without arguments.
    ///
    /// - Parameter isInputGiven: whether standard input may hold a question. A misspelt command is then a question
    ///   about it.
    /// - Throws: `ValidationError` for a misspelt command.
    static func normalized(_ arguments: [String], isInputGiven: () -> Bool = { false }) throws -> [String] {
        var leading: [String] = []
        var rest = arguments[...]
        while let first = rest.first {
            if ["--json", "--verbose", "-v", "--simulate"].contains(first)
                || ["--account=", "--route=", "--timeout="].contains(where: first.hasPrefix)
            {
                leading.append(rest.removeFirst())
            } else if ["--account", "--route", "--timeout"].contains(first), rest.count > 1 {
                leading += rest.prefix(2)
                rest = rest.dropFirst(2)
            } else {
                break
            }
        }
        guard let command = rest.first else { return isInputGiven() ? ["ask"] + leading : arguments }
        guard ChappieCommand.names.contains(command) else {
            // The parser's own options stay unchanged. An argument that looks like a misspelt command is refused.
            let own = ["-h", "--help", "--version", "---completion", "--generate-completion-script", "--experimental-"]
            guard !own.contains(where: command.hasPrefix) else { return arguments }
            // A question of one or two short words may be a misspelt command.
            if rest.count <= 2 || rest.dropFirst().first?.hasPrefix("-") == true, command.first?.isLowercase == true,
                let meant = Spelling.nearest(to: command, in: ChappieCommand.names)
                    ?? (rest.count == 1 ? ChappieCommand.namesElsewhere[command] : nil),
                !isInputGiven()
            {
                throw ValidationError(
                    "There is no command \(command). Did you mean \(meant)? To ask it: chappie ask \(command)")
            }
            return ["ask"] + leading + pairs(separated(rest))
        }
        rest = rest.dropFirst()
        if ["ask", "chat"].contains(command) { rest = pairs(separated(rest)) }
        if command == "draw" { rest = separated(rest) }
        // The options belong to the innermost command.
        guard ["accounts", "auth", "config", "templates", "threads"].contains(command), let inner = rest.first,
            !inner.hasPrefix("-")
        else {
            return [command] + leading + rest
        }
        let names = ChappieCommand.names(in: command)
        if !names.contains(inner), let meant = Spelling.nearest(to: inner, in: names) {
            throw ValidationError("There is no command \(command) \(inner). Did you mean \(meant)?")
        }
        return [command, inner] + leading + rest.dropFirst()
    }

    /// Separates `-mMODEL`, as users of other programs write it, because the parser takes it for several flags.
    private static func separated(_ arguments: ArraySlice<String>) -> ArraySlice<String> {
        var parts: [String] = []
        var rest = arguments
        while let first = rest.popFirst() {
            if first == "--" { return (parts + [first] + rest)[...] }
            let hasValue = first.first == "-" && first.dropFirst().first.map("msfitop".contains) == true
            if hasValue, first.count > 2, !first.dropFirst(2).hasPrefix("=") {
                parts += [String(first.prefix(2)), String(first.dropFirst(2))]
            } else {
                parts.append(first)
            }
        }
        return parts[...]
    }

    /// Joins `-p name value`, as users of other programs write it, to one argument for the parser: `-p name=value`.
    private static func pairs(_ arguments: ArraySlice<String>) -> ArraySlice<String> {
        var (pairs, rest) = ([String](), arguments)
        while let first = rest.popFirst() {
            pairs.append(first)
            if first == "--" { break }
            guard first == "-p" || first == "--param", let name = rest.first, !name.contains("=") else { continue }
            rest = rest.dropFirst()
            guard let value = rest.popFirst() else { return (pairs + [name])[...] }
            pairs.append("\(name)=\(value)")
        }
        return (pairs + rest)[...]
    }
}
