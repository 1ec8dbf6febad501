import ArgumentParser
import ChappieSDK

/// `chappie accounts`: several people, or several sign-ins of one, side by side.
struct Accounts: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List accounts, choose the one to use, or remove one.",
        subcommands: [List.self, Use.self, Remove.self], defaultSubcommand: List.self)

    /// What is kept about accounts is the person's own.
    private static func refuseSimulation(_ program: Program) throws {
        guard program.settings.isSimulated else { return }
        throw CommandLineError.usage("A simulation has no accounts.", suggestion: "Leave out --simulate.")
    }

    /// `chappie accounts list`
    struct List: ProgramCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the accounts that have signed in here.",
            discussion: "With --json: {\"accounts\":[{\"name\":…,\"is_current\":…},…]}.")

        @OptionGroup var options: GlobalOptions

        func run(in program: Program) async throws {
            let names = try UserSettings(environment: program.environment).accounts
            let current = program.settings.configuration.keychainAccount
            if options.json {
                let accounts = names.map { name -> ChappieJSON in
                    ["name": .string(name), "is_current": .bool(name == current)]
                }
                return Output.json(["accounts": .array(accounts)])
            }
            if names.isEmpty { Output.line("Nobody has signed in here.") }
            for name in names { Output.line("\(name == current ? "*" : " ") \(name)") }
        }
    }

    /// `chappie accounts use NAME`
    struct Use: ProgramCommand {
        static let configuration = CommandConfiguration(
            abstract: "Use this account from now on.",
            discussion: "--account and CHAPPIE_ACCOUNT override it. With --json: {\"account\":…}.")

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The account's name, as --account takes it.")
        var name: String

        func run(in program: Program) async throws {
            try Accounts.refuseSimulation(program)
            try UserSettings.change(program.environment) { kept in
                guard kept.accounts.contains(name) else {
                    throw CommandLineError.usage(
                        "No account \"\(name)\" has signed in here.",
                        suggestion: "Run `chappie login --account \(name)`, or see `chappie accounts list`.")
                }
                kept.account = name
            }
            if options.json { Output.json(["account": .string(name)]) } else { Output.line("Using \(name).") }
        }
    }

    /// `chappie accounts remove NAME`
    struct Remove: ProgramCommand {
        static let configuration = CommandConfiguration(
            abstract: "Sign an account out and forget its name.",
            discussion: "With --json: {\"removed\":…}.")

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The account's name.")
        var name: String

        func run(in program: Program) async throws {
            try Accounts.refuseSimulation(program)
            try await program.credentials(for: name).signOut()
            try UserSettings.change(program.environment) { $0.remove(name) }
            if options.json { Output.json(["removed": .string(name)]) } else { Output.line("Removed \(name).") }
        }
    }
}
