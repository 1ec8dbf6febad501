import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieSDK
import ChappieSignInUI
import FoundationEssentials

struct Login: ProgramCommand {
    var settingsUse: SettingsUse { .all }
    var accessTokenUse: AccessTokenUse { .refused }
    var isSignIn: Bool { true }
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Sign in with your ChatGPT account.",
        discussion: """
            Shows an address and a code. Open the address in any browser, on any device, and enter the code. \
            The credential is kept in the keyring, or in the store that CHAPPIE_CREDENTIAL_STORE names.

            A workspace can forbid device codes. Then its administrator can allow them (Settings, Security), or you \
            sign in without one: with --browser, with --route plan, or with an access token of the workspace \
            (--with-access-token).

            --browser signs in with a browser on this machine, which comes back by itself (to port 1455 or 1457). If it \
            runs on another machine, it ends at an address that can't be opened. Paste that address here.

            With --route plan ("Continue with ChatGPT"), your ChatGPT plan pays for what this program asks, if you \
            allow it. The browser must run on this machine: it comes back by itself. If it runs on another one, it ends \
            at an address that can't be opened; paste that whole address here. The commands use the route of the last \
            login, unless --route says otherwise; without --route, login takes the device code.

            If no browser opens here (no display, no xdg-open, --no-browser, or the attempt fails), the address is \
            also a QR code for a telephone. The terminal then needs 256 colours, UTF-8 and room for text and code. \
            With --verbose the code would scroll away, so it is left out. --qr always shows the code in these cases \
            too: with a browser, with --verbose, in spite of NO_COLOR, whatever the locale says, with fewer colours, \
            and when its beginning scrolls out of sight. The terminal's font needs the character ▄, one cell wide: \
            some terminals make it two cells wide (ambiguous width), and a telephone can't read the code there. With \
            --json and --simulate there is no QR code.

            --with-access-token is for servers and jobs without a browser: an access token that its owner made in a \
            ChatGPT Business or Enterprise workspace (https://chatgpt.com/admin/access-tokens) is read from standard \
            input, checked and stored. It is not renewed. Without storing anything, the variable \
            CHAPPIE_ACCESS_TOKEN names one for ask, chat, models, usage, status and doctor.

              printenv TOKEN | chappie login --with-access-token

            With --json: {"type":"device_code",…}, or {"type":"open_page",…} with --browser or --route plan, and \
            then {"type":"linked",…}, one object a line. If another account was signed in under this name, "linked" has it \
            as "replaced".
            """)

    @OptionGroup var given: GlobalOptions

    var options: GlobalOptions {
        var options = given
        options.route = given.route ?? .device
        return options
    }

    @Flag(help: "Sign in with a browser on this machine, without a code.")
    var browser = false

    @Flag(name: .customLong("no-browser"), help: "Don't open a browser here.")
    var noBrowser = false

    @Option(help: ArgumentHelp("Whether to show a QR code.", valueName: "when"))
    var qr = QRChoice.auto

    @Flag(name: .customLong("with-access-token"), help: "Read an access token from standard input.")
    var withAccessToken = false

    @MainActor
    func run(in program: Program) async throws {
        try checkBrowser(program.settings.route)
        if withAccessToken { return try await signInWithAccessToken(program) }
        let usesDesktop = !options.json && !options.simulate
        let opensBrowser = usesDesktop && !noBrowser
        let comesBack = program.settings.configuration.endpoints.usesPlan || browser
        let session = try await program.session()
        let earlier = session.accountInfo
        let model = ChappieSignInModel(
            session: session, showsOnboardingSheet: false, requestsNotificationPermission: false,
            browser: opensBrowser ? program.browser : nil,
            clipboard: usesDesktop ? program.clipboard : nil)
        let qr = QRPlacement(
            // A browser on a telephone cannot return to this machine.
            choice: !usesDesktop || comesBack || qr == .auto && options.verbose ? .never : qr,
            isTerminal: program.console.terminals.output, hasStyles: program.console.terminals.styles,
            environment: program.environment, opensBrowser: opensBrowser && program.canOpenBrowser)
        var screen = Screen(program: program, qr: qr)
        let pasting = PastedAddress()
        defer { pasting.end() }
        if browser { model.signInWithBrowser() } else { model.signIn() }
        for await state in model.stateUpdates {
            screen.show(state)
            if state.ending != nil { break }
            let hasNoBrowser = !opensBrowser || state.notices.contains { $0.part == .browser && $0.isFailure }
            if comesBack, usesDesktop, hasNoBrowser, !screen.isAsking, state.deviceCode != nil,
                program.console.terminals.input
            {
                screen.isAsking = true
                pasting.begin(program.console, host: browser ? "localhost" : "127.0.0.1") {
                    [session = model.session] address in
                    try await session.completeSignIn(pasting: address)
                }
            }
        }
        if pasting.end() { program.console.line() }
        // The user is informed of a stored credential even if Ctrl-C follows immediately.
        guard let ending = model.state.ending, ending.reason == .linked || !Task.isCancelled else {
            model.cancel()
            throw CancellationError()
        }
        if let error = ending.error { throw ending.storeError ?? advising(error, program.settings.route) }
        program.console.clearStatus()
        if program.settings.store != .memory { await program.rememberAccount() }
        guard let info = model.session.accountInfo else { throw ChappieAuthError.cancelledSignIn }
        let sentence = ending.words.sentence
        let replaced = Replacement(of: earlier, by: info)
        program.say(
            .object(ChappieJSONObject([("type", "linked"), ("account", info.json)] + replaced.members)),
            "\(sentence)\(sentence.last?.isLetter == true ? "." : "") \(ending.words.advice)",
            "Signed in as \(info.name)\(info.planInParentheses).", "The credential is stored \(program.place).")
        replaced.tell(program)
        if !options.json { Self.describe(model.session, info, program) }
        // The notification and a late clipboard have no further information that the user needs.
        await model.settle()
    }

    /// Checks the options for a sign-in with the browser.
    ///
    /// - Throws: ``CommandLineError`` if `--browser` does not go with the other options.
    private func checkBrowser(_ route: Route) throws {
        guard browser else { return }
        if withAccessToken {
            throw CommandLineError.usage(
                "--browser and --with-access-token are two ways to sign in.", suggestion: "Leave one out.")
        }
        if options.simulate {
            throw CommandLineError.usage(
                "--simulate signs in without a browser.",
                suggestion: "Run `chappie simulator`, and set CHAPPIE_ISSUER and CHAPPIE_BACKEND as it says.")
        }
        guard route == .device else {
            throw CommandLineError.usage(
                "--route \(route.rawValue) has its own sign-in with a browser.", suggestion: "Leave out --browser.")
        }
    }

    /// Returns the same error. Its advice names the other ways to sign in if the workspace may forbid device codes.
    private func advising(_ error: ChappieAuthError, _ route: Route) -> any Error {
        let words = CommandLineError(error)
        let suggestion: String?
        switch error {
        case .callbackTimeout where browser: suggestion = "Run `chappie login --browser` again."
        case .callbackUnavailable where browser:
            suggestion = [words.suggestion, "Or sign in with a code: `chappie login`."].compactMap(\.self)
                .joined(separator: " ")
        case .expiredDeviceCode where !browser, .pollingTimeout where !browser:
            suggestion = "Start again when you are ready. \(OtherWays.advice)"
        case .authorizationDenied where !browser && route == .device: suggestion = OtherWays.advice
        case _ where error.obstacle == .deviceCodes: suggestion = OtherWays.advice
        default: return error
        }
        return CommandLineError(words.status, code: words.code, words.message, suggestion: suggestion)
    }

    @MainActor
    private func signInWithAccessToken(_ program: Program) async throws {
        guard !options.simulate, program.settings.store != .memory else {
            throw CommandLineError.usage(
                "An access token in memory is lost when this command ends.",
                suggestion: "Name it in \(ProgramEnvironment.accessTokenVariable) for the commands that are to use it.")
        }
        guard program.settings.route == .device else {
            throw CommandLineError.usage(
                "--route \(program.settings.route.rawValue) takes no access token.", suggestion: "Leave out --route.")
        }
        let session = try await program.session()
        let earlier = session.accountInfo
        let info = try await session.signIn(accessToken: try await Self.accessToken())
        await program.rememberAccount()
        let replaced = Replacement(of: earlier, by: info)
        program.say(
            .object(ChappieJSONObject([("type", "linked"), ("account", info.json)] + replaced.members)),
            "Signed in as \(info.name)\(info.planInParentheses).",
            "The access token is stored \(program.place). It is not renewed.")
        replaced.tell(program)
    }

    /// Returns the access token from standard input. On a terminal it is typed without an echo.
    private static func accessToken() async throws -> String {
        var input = StandardInput()
        let missing = CommandLineError.usage(
            "There is no access token on standard input.",
            suggestion: "Write it there: `printenv TOKEN | chappie login --with-access-token`.")
        do {
            if input.kind == .terminal, let token = try await TerminalPassphrase.secret(asking: "Access token: ") {
                return token.withBytes { String(decoding: $0, as: UTF8.self) }
            }
        } catch is CredentialStoreError {
            throw missing
        }
        let token = try await input.readToEnd().trimmed
        guard !token.isEmpty else { throw missing }
        return token
    }

    /// Prints whether the user's plan pays, and how long the sign-in is valid.
    @MainActor
    private static func describe(_ session: ChappieAuthSession, _ info: ChappieAccountInfo, _ program: Program) {
        let endpoints = program.settings.configuration.endpoints
        if info.planUse == .granted, let manageUsage = PlanWords.manageUsage(endpoints) {
            program.console.line("\(PlanWords.inUse). \(manageUsage)")
        }
        let isPlan = endpoints.usesPlan
        if !isPlan, session.isRenewable { return }
        guard case .signedIn(let expiresAt?) = session.state else {
            if !session.isRenewable { program.console.line("The service gave no means to renew this sign-in.") }
            return
        }
        guard session.isRenewable || isPlan else {
            program.console.line(
                "It is good until \(expiresAt.localMinute) and can't be renewed. Then run "
                    + "\(program.settings.route.login) again.")
            return
        }
        program.console.line(
            "It is good until \(expiresAt.localMinute). If the service does not renew it then, run "
                + "\(program.settings.route.login) again: one click is enough.")
    }

    /// The display of a sign-in on the terminal. It shows each line once, and a countdown if the terminal can replace a
    /// line.
    private struct Screen {
        let program: Program
        private var qr: QRPlacement
        /// Whether the user is asked for something on the last line.
        var isAsking = false
        private var hasShownCode = false
        private var shown: Set<ChappieSignInNotice> = []

        init(program: Program, qr: QRPlacement) { (self.program, self.qr) = (program, qr) }

        mutating func show(_ state: ChappieSignInState) {
            if let code = state.deviceCode, !hasShownCode {
                hasShownCode = true
                show(code)
            }
            for notice in state.notices where shown.insert(notice).inserted {
                if notice.isFailure {
                    program.console.note(notice.sentence)
                } else {
                    program.console.line(notice.sentence)
                }
                if notice.part == .browser, notice.isFailure, qr.choice == .auto, qr.opensBrowser,
                    let code = state.deviceCode
                {
                    qr.opensBrowser = false
                    show(code, isAgain: true)
                }
            }
            // If standard output is a pipe, the program that reads it may also write on this terminal at any time.
            if let countdown = state.countdown, !isAsking, !program.options.json, program.console.terminals.output {
                program.console.status(countdown, hint: " (Ctrl-C cancels)")
            }
        }

        /// Shows the text about the code.
        ///
        /// - Parameter isAgain: whether the text is already on the screen. It is shown again only next to a QR code.
        private func show(_ code: ChappieDeviceCode, isAgain: Bool = false) {
            let page = code.verificationURL.absoluteString
            guard !program.options.json else {
                var event: ChappieJSONObject = [
                    "type": .string(code.needsCode ? "device_code" : "open_page"), "user_code": .string(code.userCode),
                    "verification_url": .string(page),
                    "expires_at": .optional(code.expiresAt?.formatted(.iso8601)),
                ]
                if !code.needsCode { event["user_code"] = nil }
                return program.console.json(.object(event))
            }
            let first =
                code.needsCode
                ? "Open this page and sign in to ChatGPT:"
                : !program.settings.configuration.endpoints.usesPlan
                    ? "Open this page in a browser on this machine, and sign in to ChatGPT:"
                    : "Continue with ChatGPT: open this page in a browser on this machine."
            var codeLines = code.needsCode ? ["Then enter this code:", "", "    \(code.userCode)", ""] : []
            // On a small screen, the code is more important.
            if code.needsCode, TerminalState.size().map({ $0.rows >= 24 }) ?? true {
                codeLines += OtherWays.hint + [""]
            }
            let text = ([first, "", "    \(page)", ""] + codeLines).map(UntrustedText.forTerminal)
            do throws(QRPlacement.Obstacle) {
                let whole = text + ["The QR code leads to the same page."]
                if let lines = try qr.lines(whole, page: page, size: TerminalState.size()) {
                    return program.console.draw(lines.map { $0 + "\n" }.joined())
                }
            } catch { program.console.note("chappie: \(error.sentence)") }
            if !isAgain { for line in text { program.console.line(line) } }
        }
    }
}

/// The ways to sign in for members of a workspace that forbids device codes.
private enum OtherWays {
    /// The text to the right of a QR code. Its lines are short.
    static let hint = [
        "Workspaces can forbid device codes. Then", "ask your administrator to allow them, or",
        "use --browser, --route plan or", "--with-access-token (chappie help login).",
    ]
    static let advice =
        "If your workspace forbids device codes, its administrator can allow them (Settings, Security). Other ways: "
        + "`chappie login --browser`, `chappie login --route plan`, or an access token of the workspace "
        + "(`chappie login --with-access-token`)."
}

/// The sign-in of another account that a new sign-in has replaced.
struct Replacement {
    private let account: ChappieAccountInfo?

    init(of earlier: ChappieAccountInfo?, by new: ChappieAccountInfo) {
        account = earlier.flatMap { $0.isSameAccount(as: new) ? nil : $0 }
    }

    /// The members for `--json`.
    var members: [(String, ChappieJSON)] { account.map { [("replaced", $0.json)] } ?? [] }

    func tell(_ program: Program) {
        guard let account, !program.options.json else { return }
        let plan = account.plan.map { " (\($0.displayName))" } ?? ""
        program.console.line(
            UntrustedText.forTerminal(
                "This replaces the sign-in of \(account.name)\(plan). Use --account NAME to keep both."))
    }
}

extension ChappieAuthSession {
    /// Whether the store was read and is empty.
    var isKnownToBeSignedOut: Bool { accountInfo == nil && lastStoreError == nil }
}
