import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK
import Glibc

/// The command `chappie accounts`, for several users or several sign-ins of one user.
struct Accounts: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accounts", abstract: "List accounts, choose the one to use, or remove one.",
        subcommands: [List.self, Use.self, Remove.self], defaultSubcommand: List.self)

    struct List: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the accounts that have signed in here.",
            discussion: """
                Accounts of `chappie login --route plan` are marked: they differ from the accounts of the device code, even \
                with the same name.

                With --json: {"accounts":[{"name":…,"email":…,"is_current":…,"route":"device|plan"},…]}.
                """)

        @OptionGroup var options: GlobalOptions

        func run(in program: Program) async throws {
            let kept = ProgramNotes.read(program.environment).notes
            let settings = program.settings
            let current = settings.configuration.keychainAccount
            // A simulation supports only the device code.
            let routes = program.options.simulate ? [settings.route] : Route.allCases
            let all = routes.flatMap { route in
                let accounts = kept.accounts(of: program.options.simulate ? settings.issuer : settings.issuers[route])
                return accounts.names.map {
                    (
                        name: $0, email: accounts.emails[$0], route: route,
                        isCurrent: route == settings.route && $0 == current
                    )
                }
            }
            let lines = all.map { account in
                let email = UntrustedText.message(account.email, limit: 100).map { " \($0)" } ?? ""
                let mark = account.isCurrent ? "*" : " "
                return "\(mark) \(account.name)\(email)\(account.route == .plan ? " (plan)" : "")"
            }
            program.say(
                [
                    "accounts": .array(
                        all.map {
                            [
                                "name": .string($0.name), "email": .optional($0.email),
                                "is_current": .bool($0.isCurrent), "route": .string($0.route.rawValue),
                            ]
                        })
                ],
                all.isEmpty ? "No account has signed in here." : lines.joined(separator: "\n"))
        }
    }

    struct Use: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "use", abstract: "Use this account from now on.",
            discussion: """
                --account and CHAPPIE_ACCOUNT override it. With --route, also use that kind of sign-in from now on.

                With --json: {"account":…}.
                """)

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The account's name, as --account takes it.")
        var name: String

        func run(in program: Program) async throws {
            try options.refuseSimulation("accounts")
            let settings = program.settings
            try await ProgramNotes.change(program.environment) {
                try $0.use(name, of: settings.issuer)
                $0.use(settings.route)
            }
            program.say(["account": .string(name)], "Using \(name).")
        }
    }

    struct Remove: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove", abstract: "Sign an account out and forget its name.",
            discussion: """
                The sign-in is revoked at the service, which may also end your sign-ins in other programs that use the \
                same sign-in client. --local leaves it valid there.

                With --route plan the app's registration for this account is forgotten as well, so that the next login \
                makes another one: that is the way to another user or workspace under the same name.

                With --json: {"removed":…,"revoked":true|false}.
                """)

        @OptionGroup var given: GlobalOptions

        @Flag(help: "Forget the sign-in here only, without revoking it at the service.")
        var local = false

        @Argument(help: "The account's name.")
        var name: String

        var options: GlobalOptions {
            var options = given
            options.account = name
            return options
        }

        func run(in program: Program) async throws {
            try options.refuseSimulation("accounts")
            let issuer = program.settings.issuer
            let isListed = ProgramNotes.read(program.environment).notes.accounts(of: issuer).names.contains(name)
            let session = try await program.session()
            if !isListed, await session.isKnownToBeSignedOut { throw ProgramNotes.unknown(name) }
            let outcome = try await SignedOut(program, session, isLocal: local)
            if program.settings.route == .plan {
                try await program.registrations.save(nil, for: program.settings.configuration.credentialSlot)
            }
            try await ProgramNotes.change(program.environment) { $0.remove(name, of: issuer) }
            program.say(["removed": .string(name), "revoked": .bool(outcome.isRevoked)], "Removed \(name).")
            guard !options.json else { return }
            if outcome.revocationFailure != nil || outcome.isRevoked || outcome.isLocal {
                outcome.note(program)
            } else {
                program.console.note(
                    outcome.wasAccessToken
                        ? "chappie: \(SignedOut.accessTokenSentence)"
                        : outcome.wasReadable
                            ? "chappie: no sign-in of \(name) was stored \(program.place), so none was revoked"
                            : "chappie: the stored sign-in could not be read, so it was not revoked at the service")
            }
        }
    }
}

/// The command `chappie auth`, which moves a sign-in to another machine.
struct Auth: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "auth", abstract: "Move a sign-in to another machine.", subcommands: [Export.self, Import.self])

    private static let warning = """
        chappie: use this sign-in in one place only: its refresh token works once, and the service ends the sign-in if \
        the token is used twice
        """

    struct Export: ProgramCommand {
        var accessTokenUse: AccessTokenUse { .refused }
        static let configuration = CommandConfiguration(
            commandName: "export", abstract: "Write the sign-in into a new file that only you can read.",
            discussion: """
                Move the file to the other machine in a way that you trust, run `chappie auth import` there, and \
                delete the file. From then on use the sign-in only there. --remove forgets it here at once, without \
                revoking it.

                With --json: {"exported":FILE,"removed":true|false}.
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(help: "Forget the sign-in here once the file is written.")
        var remove = false

        @Argument(help: "The file to create; it must not exist yet.", completion: .file())
        var file: String

        func run(in program: Program) async throws {
            guard file != "-", !file.hasPrefix("/dev/") else {
                throw CommandLineError.usage(
                    "A sign-in is never written to a terminal or a device.", suggestion: "Name a new file.")
            }
            let document = try await program.credentials.exportCredential()
            var bytes = document.withBytes(Array.init)
            defer { for index in bytes.indices { bytes[index] = 0 } }
            do {
                try PrivateFile.create(file, with: bytes)
            } catch {
                throw CommandLineError.usage(
                    "\(file) can't be created: \(error).",
                    suggestion: "Name a file that does not exist yet, in a folder that you may write to.")
            }
            program.console.note(Auth.warning)
            var failure: (any Error)?
            if remove {
                do {
                    try await program.credentials.forgetWithoutRevoking()
                } catch {
                    failure = error
                }
            }
            program.say(
                ["exported": .string(file), "removed": .bool(remove && failure == nil)],
                "The sign-in is in \(file), which only you can read. Delete the file after the import.")
            // By then the user knows the name of the file with live tokens.
            if let failure { throw failure }
        }
    }

    struct Import: ProgramCommand {
        var accessTokenUse: AccessTokenUse { .refused }
        static let configuration = CommandConfiguration(
            commandName: "import", abstract: "Take over a sign-in from a file that `chappie auth export` wrote.",
            discussion: "With --json: {\"imported\":FILE,\"account\":{…}}.")

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The file that `chappie auth export` wrote.", completion: .file())
        var file: String

        func run(in program: Program) async throws {
            // The user deletes the file after the import, so its content must be stored permanently.
            guard program.settings.store != .memory else {
                throw CommandLineError.usage(
                    "A sign-in in memory is lost when this command ends.",
                    suggestion: options.simulate
                        ? "Leave out --simulate." : "Set CHAPPIE_CREDENTIAL_STORE to keyring or file.")
            }
            var bytes = try WholeFile.read(file, .ownAndPrivate)
            defer { for index in bytes.indices { bytes[index] = 0 } }
            let earlier = try await program.session().accountInfo
            let info = try await program.credentials.importCredential(Secret(bytes))
            await program.rememberAccount()
            program.console.note(Auth.warning)
            let replaced = Replacement(of: earlier, by: info)
            program.say(
                .object(ChappieJSONObject([("imported", .string(file)), ("account", info.json)] + replaced.members)),
                "Signed in as \(info.name); stored \(program.place). Delete \(file) now.")
            replaced.tell(program)
        }
    }
}
