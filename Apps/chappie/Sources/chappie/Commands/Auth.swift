import ArgumentParser
import ChappieSDK
import Glibc

/// `chappie auth`: moves a sign-in to another machine.
struct Auth: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Move a sign-in to another machine.", subcommands: [Export.self, Import.self])

    private static let warning = """
        chappie: the copy must be the only user of this sign-in: its refresh token works once, and the service ends the \
        sign-in when it comes twice
        """

    /// `chappie auth export FILE`
    struct Export: ProgramCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write the sign-in into a new file that only you can read.",
            discussion: """
                Move the file to the other machine by a way that you trust, run `chappie auth import` there, and delete \
                it. From then on use the sign-in there alone; --remove forgets it here at once, without revoking it.

                With --json: {"exported":FILE,"removed":true|false}.
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(help: "Forget the sign-in here once the file is written.")
        var remove = false

        @Argument(help: "The file to make; it must not be there.", completion: .file())
        var file: String

        func run(in program: Program) async throws {
            guard file != "-", !file.hasPrefix("/dev/") else {
                throw CommandLineError.usage(
                    "A sign-in is never written to a terminal or a device.", suggestion: "Name a new file.")
            }
            let document = try await program.credentials.exportCredential()
            var bytes = document.withBytes(Array.init)
            defer { for index in bytes.indices { bytes[index] = 0 } }
            guard PrivateFile.create(file, with: bytes) else {
                throw CommandLineError.usage(
                    "\(file) can't be made: \(String(cString: strerror(errno))).",
                    suggestion: "Name a file that is not there, in a folder that you may write to.")
            }
            if remove { try await program.credentials.forgetWithoutRevoking() }
            Output.note(Auth.warning)
            if options.json {
                Output.json(["exported": .string(file), "removed": .bool(remove)])
            } else {
                Output.line("Written to \(file), readable for you alone. Delete it once it is imported.")
            }
        }
    }

    /// `chappie auth import FILE`
    struct Import: ProgramCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take a sign-in over from a file that `chappie auth export` has written.",
            discussion: "With --json: {\"imported\":FILE,\"account\":{…}}.")

        @OptionGroup var options: GlobalOptions

        @Argument(help: "The file.", completion: .file())
        var file: String

        func run(in program: Program) async throws {
            try Self.checkPlace(program)
            var bytes = try SmallFile.readPrivate(file)
            defer { for index in bytes.indices { bytes[index] = 0 } }
            let info = try await program.credentials.importCredential(Secret(bytes))
            let name = program.settings.configuration.keychainAccount
            try UserSettings.change(program.environment) { $0.add(name) }
            Output.note(Auth.warning)
            if options.json {
                Output.json(["imported": .string(file), "account": info.json])
            } else {
                let who = info.email ?? info.accountID ?? "somebody"
                Output.line("Signed in as \(who); the credential lies \(program.place). Delete \(file) now.")
            }
        }

        /// The file is deleted after this: what it holds must lie somewhere that lasts.
        private static func checkPlace(_ program: Program) throws {
            guard program.settings.store == .memory else { return }
            throw CommandLineError.usage(
                "What is imported into memory is lost when this command ends.",
                suggestion: program.settings.isSimulated
                    ? "Leave out --simulate." : "Set CHAPPIE_CREDENTIAL_STORE to keyring or file.")
        }
    }
}
