import ArgumentParser
import ChappieSDK
import Glibc

/// `chappie`: chooses adapters, parses, runs, exits. Everything else is in the packages.
@main
struct ChappieCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chappie",
        abstract: "Talk to ChatGPT with your own account, from your own machine.",
        discussion: """
            Every command takes --json, --account NAME, --timeout SECONDS, --verbose and --simulate, before or after \
            its name.

            ENVIRONMENT
              CHAPPIE_ISSUER            where to sign in (default https://auth.openai.com)
              CHAPPIE_BACKEND           the service, up to and including /backend-api
              CHAPPIE_CREDENTIAL_STORE  keyring (default), file (encrypted) or memory
              CHAPPIE_PASSPHRASE_FILE   a file with the passphrase of the encrypted file
              CHAPPIE_ACCOUNT           whose credential to use (default "default")
              CHAPPIE_CA_FILE           a PEM file of more authorities to trust
              CHAPPIE_MINIMUM_TLS       the oldest TLS to speak: 1.2 (default) or 1.3
              HTTPS_PROXY, ALL_PROXY, NO_PROXY   as curl reads them
              NO_COLOR                  no colour and no cursor movement

            EXIT STATUS
              0    done
              64   wrong usage, or a setting that can't be used
              65   the server sent something that makes no sense
              69   the network, the service or the keyring is unavailable
              70   a fault in chappie
              75   the plan's usage limit is reached (the message says when it resets)
              77   sign-in needed
              130  interrupted (129 by a closed terminal, 143 by SIGTERM)
            """,
        version: ChappieVersion.current,
        subcommands: [
            Login.self, Logout.self, Status.self, Ask.self, Chat.self, Models.self, Usage.self, Accounts.self,
            Auth.self, Doctor.self,
            SimulatorCommand.self,
        ])

    static func main() async {
        // A reader that has gone is an errno for us (see Output), and sockets must not kill the process.
        signal(SIGPIPE, SIG_IGN)
        CoreDumps.forbid()
        do {
            let command = try parseAsRoot(GlobalOptions.normalized(Array(CommandLine.arguments.dropFirst())))
            switch command {
            case let command as any ProgramCommand: await Program.run(command)
            case var command: try command.run()
            }
        } catch {
            exit(withError: error)
        }
    }
}
