import ArgumentParser
import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMCP
import ChappieProgramTools
import ChappieSDK

/// The command `chappie tools` for the tools and tool servers of manifests, and the user's sign-ins at such servers.
struct Tools: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tools", abstract: "List tools and tool servers; sign in at a tool server.",
        subcommands: [List.self, Login.self, Logout.self], defaultSubcommand: List.self)

    /// The manifests that a command uses.
    struct Manifests: ParsableArguments {
        @Option(
            help: ArgumentHelp(
                "A manifest of tools (repeatable). Default: those of chappie config.", valueName: "file"),
            completion: .file())
        var tools: [String] = []

        /// Reads each manifest with its path.
        ///
        /// - Throws: ``CommandLineError`` or `ChappieToolManifestError`.
        func read(_ settings: ResolvedSettings, _ environment: ProgramEnvironment) throws -> [ChappieToolManifest] {
            let paths = tools.isEmpty ? settings.tools : tools.filter { !$0.isEmpty }
            return try paths.map { path in
                try ChappieToolManifest(WholeFile.read(path), file: path) { environment[$0] }
            }
        }

        /// Returns the sign-in at the server with that name.
        ///
        /// - Throws: ``CommandLineError`` if there is no such server, or if it does not take a sign-in.
        fileprivate func signIn(at name: String, in program: Program) throws -> ChappieMCPAuthorization {
            try program.options.refuseSimulation("sign-ins at tool servers")
            let servers = try read(program.settings, program.environment).flatMap(\.servers)
            guard let server = servers.first(where: { $0.name == name }) else {
                throw CommandLineError.usage(
                    "No manifest has a tool server \"\(name)\".",
                    suggestion: servers.isEmpty
                        ? "Name the manifest: --tools FILE." : "It has: \(servers.map(\.name).joined(separator: ", "))."
                )
            }
            guard let signIn = program.toolSignIns.authorization(at: server) else {
                throw CommandLineError.usage(
                    "\(name) takes no sign-in: \(server.url == nil ? "it is a program" : "its manifest has a token").")
            }
            return signIn
        }
    }

    struct List: ProgramCommand {
        var settingsUse: SettingsUse { .all }
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the tools and tool servers of manifests.",
            discussion: """
                Starts and asks no server.

                With --json: {"tools":[…], "servers":[{"name":…, "url":…|null, "signed_in":true|false|null},…]}; null \
                for a server that takes no sign-in, or if the store can't be read.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var manifests: Manifests

        func run(in program: Program) async throws {
            let manifests = try manifests.read(program.settings, program.environment)
            var lines: [String] = manifests.flatMap(\.tools).map { "\($0.name)  a program" }
            var servers: [ChappieJSON] = []
            for server in manifests.flatMap(\.servers) {
                var isSignedIn: Bool?
                var words = server.url == nil ? "a server, started here" : "a token of its manifest"
                if let signIn = program.toolSignIns.authorization(at: server) {
                    do throws(CredentialStoreError) {
                        isSignedIn = try await signIn.isSignedIn()
                        words = isSignedIn == true ? "signed in" : "not signed in"
                    } catch {
                        words = "sign-in unknown: \(error.errorDescription ?? "")"
                    }
                }
                // A query may contain a key.
                let address = server.url.map { String($0.absoluteString.prefix { $0 != "?" }) }
                lines.append(([server.name] + [address].compactMap(\.self) + [words]).joined(separator: "  "))
                servers.append([
                    "name": .string(server.name), "url": .optional(address),
                    "signed_in": isSignedIn.map { .bool($0) } ?? .null,
                ])
            }
            program.say(
                [
                    "tools": .array(manifests.flatMap(\.tools).map { .string($0.name) }), "servers": .array(servers),
                ],
                lines.isEmpty
                    ? "There are no tools. Name a manifest with --tools FILE, or chappie config set tools FILE."
                    : UntrustedText.forTerminal(lines.joined(separator: "\n")))
        }
    }

    struct Login: ProgramCommand {
        var settingsUse: SettingsUse { .all }
        static let configuration = CommandConfiguration(
            commandName: "login", abstract: "Sign in at a tool server, in a browser.",
            discussion: """
                For a server with a "url" in a manifest that wants a sign-in (OAuth). Shows the address of a page, and \
                opens it. The browser must run on this machine: it comes back by itself. If it runs on another one, it \
                ends at an address that can't be opened; paste that whole address here.

                The sign-in is kept where your own one is, apart from it, and is sent to that server alone. It is \
                renewed by itself; if it ends, the commands that need it say so, and open no page.

                --scope asks for more permissions, beside those that the sign-in has. If the server's service does not \
                register programs by itself, register one there, with the redirect address http://127.0.0.1/callback at \
                any port, and put its id into the manifest: "oauth": {"clientId": "…", "scopes": ["…"]}.

                With --json: {"type":"open_page", "server":…, "verification_url":…, "expires_at":…}, and then \
                {"type":"signed_in", "server":…, "scopes":[…]}, one object a line.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var manifests: Manifests

        @Argument(help: "The server's name in the manifest.", completion: .toolServers)
        var name: String

        @Option(help: ArgumentHelp("A permission to ask for (repeatable).", valueName: "permission"))
        var scope: [String] = []

        @Flag(name: .customLong("no-browser"), help: "Don't open a browser here.")
        var noBrowser = false

        func run(in program: Program) async throws {
            let signIn = try manifests.signIn(at: name, in: program)
            guard program.settings.keptStore != .memory else {
                throw CommandLineError.usage(
                    "A sign-in in memory is lost when this command ends.",
                    suggestion: "Unset CHAPPIE_CREDENTIAL_STORE, or set it to keyring or file.")
            }
            let pasting = PastedAddress()
            defer { pasting.end() }
            let scopes = try await signIn.signIn(
                scopes: scope, listener: program.callbackListener, cryptography: program.signInCryptography
            ) { [self] page in
                await show(page, program, pasting)
            }
            if pasting.end() { program.console.line() }
            program.console.clearStatus()
            program.say(
                [
                    "type": "signed_in", "server": .string(name),
                    "scopes": .array(scopes.map { .string($0) }),
                ],
                "Signed in at \(name)." + (scopes.isEmpty ? "" : " Its permissions: \(scopes.joined(separator: ", ")).")
            )
        }

        private func show(_ page: ChappieMCPSignInPage, _ program: Program, _ pasting: PastedAddress) async {
            let console = program.console
            guard !options.json else {
                return console.json([
                    "type": "open_page", "server": .string(name), "verification_url": .string(page.url.absoluteString),
                    "expires_at": .string(page.expiresAt.formatted(.iso8601)),
                ])
            }
            console.line("\(name) asks you to sign in at \(page.host). Open this page in a browser on this machine:")
            console.line()
            console.line("    \(page.url.absoluteString)")
            console.line()
            var isOpened = false
            if !noBrowser {
                do throws(DesktopError) {
                    try await program.browser.open(page.startAddress() ?? page.url)
                    isOpened = true
                } catch {
                    console.note("chappie: \(error.sentence)")
                }
            }
            if !isOpened, console.terminals.input {
                pasting.begin(console) { try page.complete(pasting: $0) }
            } else if console.terminals.output {
                console.status("Waiting for the browser", hint: " (Ctrl-C cancels)")
            }
        }
    }

    struct Logout: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "logout", abstract: "Delete the sign-in at a tool server, and revoke it there.",
            discussion: """
                With --json: {"signed_out":true, "server":…, "revoked":true|false, "was_signed_in":true|false}.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var manifests: Manifests

        @Argument(help: "The server's name in the manifest.", completion: .toolServers)
        var name: String

        func run(in program: Program) async throws {
            let outcome = try await manifests.signIn(at: name, in: program).signOut()
            program.say(
                [
                    "signed_out": true, "server": .string(name), "revoked": .bool(outcome.isRevoked),
                    "was_signed_in": .bool(outcome.wasSignedIn),
                ],
                outcome.wasSignedIn ? "Signed out of \(name)." : "You were not signed in at \(name).")
            guard outcome.wasSignedIn, !outcome.isRevoked, !options.json else { return }
            program.console.note(
                "chappie: the sign-in is deleted here, but the server did not confirm the revocation.")
        }
    }
}
