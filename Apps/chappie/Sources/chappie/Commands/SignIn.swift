import ArgumentParser
import ChappieAuth
import ChappieSDK
import FoundationEssentials

struct Login: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Sign in with your ChatGPT account.",
        discussion: """
            Shows an address and a code. Open the address in any browser, on any device, and enter the code. \
            The credential is kept in the keyring.

            With --json: {"type":"device_code",…} and then {"type":"linked",…}, one object a line.
            """)

    @OptionGroup var options: GlobalOptions

    @Flag(name: .customLong("no-browser"), help: "Don't open a browser here.")
    var noBrowser = false

    @MainActor
    func run(in program: Program) async throws {
        let session = try await program.session()
        var presenting: Task<Void, Never>?
        var counting: Task<Void, any Error>?
        defer { counting?.cancel() }
        let info: ChappieAccountInfo
        do {
            info = try await session.signIn { code in
                presenting = Task { await present(code, program) }
                guard !options.json else { return }
                counting = Task { [presenting] in
                    await presenting?.value
                    try await Self.countDown(code, program.console)
                }
            }
        } catch {
            throw Task.isCancelled ? CancellationError() : session.lastStoreError ?? error
        }
        await presenting?.value
        counting?.cancel()
        if program.settings.store != .memory {
            // The sign-in is as good without its name: a failure is only told.
            do { try await program.rememberAccount() } catch let error as CommandLineError {
                program.console.note("chappie: `chappie accounts` does not list this account: \(error.message)")
            }
        }
        program.say(
            ["type": "linked", "account": info.json], "ChatGPT Linked! Return to the app",
            "Signed in as \(info.name)\(info.planInParentheses).", "The credential is stored \(program.place).")
    }

    private func present(_ code: ChappieDeviceCode, _ program: Program) async {
        let console = program.console
        program.say(
            [
                "type": "device_code", "user_code": .string(code.userCode),
                "verification_url": .string(code.verificationURL.absoluteString),
                "expires_at": .optional(code.expiresAt?.formatted(.iso8601)),
            ],
            """
            Open this page in a browser and sign in to ChatGPT:

                \(code.verificationURL.absoluteString)

            Then enter this code:

                \(code.userCode)

            """)
        guard !options.json, !options.simulate else { return }
        do {
            let outcome = try await program.clipboard.copy(code.userCode)
            console.line(
                outcome == .copied
                    ? "The code is in your clipboard."
                    : "The terminal was asked to copy the code; if pasting gives something else, type it.")
        } catch { console.note(error.sentence) }
        guard !noBrowser else { return }
        do {
            try await program.browser.open(code.verificationURL)
            console.line("A browser was asked to open the page.")
        } catch { console.note(error.sentence) }
    }

    private static func countDown(_ code: ChappieDeviceCode, _ console: Console) async throws {
        guard let end = code.expiresAt else { return }
        while true {
            let left = Int(end.timeIntervalSinceNow)
            guard left > 0 else { return }
            let minutes = "\(left / 60):\(left % 60 < 10 ? "0" : "")\(left % 60)"
            console.status("Waiting for approval: \(minutes) left (Ctrl-C cancels)")
            try await Task.sleep(for: .seconds(1))
        }
    }
}

/// `chappie status`: who is signed in, and where the credential is stored. It asks nothing but the store.
struct Status: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show who is signed in and where the credential is stored.",
        discussion: """
            Exits with 77 when you are not signed in.

            With --verbose: also how the last answer travelled.

            With --json: {"signed_in":true,"account":{…},"expires_at":…,"store":…,"slot":…,"issuer":…,"backend":…, \
            "last_answer":{"transport":{"kind":"websocket","reconnects":0,"fell_back":false},"at":…,"backend":…}}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let (console, configuration) = (program.console, program.settings.configuration)
        let profile = configuration.endpoints.profile
        var info: ChappieAccountInfo?
        var expiresAt: Date?
        do {
            info = try await program.client().accountInfo()
            if case .signedIn(let date) = try await program.session().state { expiresAt = date }
        } catch ChappieClientError.missingCredential {}
        if options.json {
            console.json([
                "signed_in": .bool(info != nil), "account": info?.json ?? .null,
                "expires_at": .optional(expiresAt?.formatted(.iso8601)),
                "store": .string(program.settings.store.rawValue),
                "slot": [
                    "service": .string(configuration.keychainService),
                    "account": .string(configuration.keychainAccount),
                ],
                "issuer": .string(profile.issuer.absoluteString), "backend": .string(profile.backend.absoluteString),
                "last_answer": program.lastAnswer?.read() ?? .null,
            ])
        } else if let info {
            console.line("Signed in as \(info.email ?? "an account without an address")\(info.planInParentheses)")
            console.line("Account   \(info.accountID ?? "unknown")")
            if let expiresAt { console.line("Token     good until \(expiresAt.localMinute), renewed automatically") }
            console.line("Stored    \(program.place)")
            if options.verbose { console.line("Transport \(Self.words(program.lastAnswer?.read()))") }
            console.line("Service   \(profile.backend.absoluteString)")
        } else {
            console.line("You are not signed in\(program.settings.issuerWords.map { " at \($0)" } ?? "").")
        }
        if info == nil { throw ExitCode(ExitStatus.signInNeeded.rawValue) }
    }

    private static func words(_ lastAnswer: ChappieJSON?) -> String {
        guard let lastAnswer, let transport = lastAnswer["transport"] else { return "nothing asked yet" }
        let moment = lastAnswer["at"]?.string.flatMap { try? Date($0, strategy: .iso8601) }
        return TransportSummary.words(transport) + (moment.map { ", at \($0.localMinute)" } ?? "")
    }
}

struct Logout: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Sign out: delete the credential and revoke it at the service.",
        discussion: """
            A credential that can't be read is deleted all the same; the service is then not told.

            With --json: {"signed_out":true,"revoked":true|false,"was_signed_in":true|false|null}, null where the \
            credential could not be read.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let session = try await program.session()
        // A credential that can't be read may still be there: deleting it is what the user asked for.
        let isReadable = await session.lastStoreError == nil
        let wasSignedIn = await session.accountInfo != nil
        var failure: (any Error)?
        if isReadable, wasSignedIn {
            do { try await session.signOutAndRevoke() } catch { failure = error }
        } else {
            try await program.credentials.signOut()
        }
        if failure != nil, let storeError = await session.lastStoreError { throw storeError }
        let outcome =
            isReadable
            ? wasSignedIn ? "Signed out." : "You were not signed in."
            : "The stored credential was removed; it could not be read, so the service was not told."
        program.say(
            [
                "signed_out": true, "revoked": .bool(isReadable && wasSignedIn && failure == nil),
                "was_signed_in": isReadable ? .bool(wasSignedIn) : .null,
            ], outcome)
        guard let failure, !options.json else { return }
        program.console.note(
            "chappie: the credential is deleted here, but revoking it at the service failed: "
                + CommandLineError(failure).message)
    }
}
