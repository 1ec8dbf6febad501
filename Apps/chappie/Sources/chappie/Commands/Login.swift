import ArgumentParser
import ChappieAuth
import ChappieSDK
import FoundationEssentials

/// `chappie login`: the device authorization grant, shown in a terminal.
struct Login: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sign in with your ChatGPT account.",
        discussion: """
            Shows an address and a code. Open the address in any browser, on any device, and enter the code. \
            The credential is kept in the keyring.

            With --json: {"type":"device_code",…} and then {"type":"linked",…}, one object a line.
            """)

    @OptionGroup var options: GlobalOptions

    @Flag(name: .customLong("no-browser"), help: "Don't open a browser here.")
    var noBrowser = false

    func run(in program: Program) async throws {
        let session = try await program.session()
        try await Self.checkStore(of: session)
        try await program.prepareToSave()
        let updates = await session.deviceLinkStateUpdates
        let code: ChappieDeviceCode
        do { code = try await session.startDeviceCodeSignIn() } catch let error as ChappieAuthError {
            throw Task.isCancelled ? CancellationError() : error
        }
        await present(code, program)
        let statusLine = StatusLine(environment: program.environment)
        let countdown = options.json ? nil : Task { try await Self.countDown(code, statusLine) }
        defer {
            countdown?.cancel()
            statusLine.clear()
        }
        try await withTaskCancellationHandler {
            for await state in updates {
                switch state {
                case .linked:
                    countdown?.cancel()
                    statusLine.clear()
                    try remember(program)
                    return await congratulate(session, program)
                case .expired: throw ChappieAuthError.expiredDeviceCode
                case .cancelled: throw CancellationError()
                case .failed(let error): throw await session.lastStoreError ?? error
                default: continue
                }
            }
            throw CancellationError()
        } onCancel: {
            Task { @MainActor in session.cancelSignIn() }
        }
    }

    /// A store that can't keep the credential is better known before the person has typed a code. One that holds
    /// something unreadable is fine: signing in replaces it.
    @MainActor
    private static func checkStore(of session: ChappieAuthSession) throws {
        if let error = session.lastStoreError, error.isLasting { throw error }
    }

    private func present(_ code: ChappieDeviceCode, _ program: Program) async {
        guard !options.json else {
            return Output.json([
                "type": "device_code", "user_code": .string(code.userCode),
                "verification_url": .string(code.verificationURL.absoluteString),
                "expires_at": .optional(code.expiresAt?.formatted(.iso8601)),
            ])
        }
        Output.line("Open this page in a browser and sign in to ChatGPT:")
        Output.line("")
        Output.line("    \(code.verificationURL.absoluteString)")
        Output.line("")
        Output.line("Then enter this code:")
        Output.line("")
        Output.line("    \(code.userCode)")
        Output.line("")
        guard !program.settings.isSimulated else { return }
        do {
            switch try await program.clipboard.copy(code.userCode) {
            case .copied: Output.line("The code is in your clipboard.")
            case .requested:
                Output.line("The terminal was asked to copy the code; if pasting gives something else, type it.")
            }
        } catch { Output.note(error.sentence) }
        guard !noBrowser else { return }
        do {
            try await program.browser.open(code.verificationURL)
            Output.line("A browser was asked to open the page.")
        } catch { Output.note(error.sentence) }
    }

    private static func countDown(_ code: ChappieDeviceCode, _ statusLine: StatusLine) async throws {
        guard let end = code.expiresAt else { return }
        while true {
            let left = Int(end.timeIntervalSinceNow)
            guard left > 0 else { return }
            let seconds = left % 60
            statusLine.show(
                "Waiting for approval: \(left / 60):\(seconds < 10 ? "0" : "")\(seconds) left (Ctrl-C cancels)")
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// The account's name, for `chappie accounts`.
    private func remember(_ program: Program) throws {
        guard !program.settings.isSimulated, program.settings.store != .memory else { return }
        let name = program.settings.configuration.keychainAccount
        try UserSettings.change(program.environment) { $0.add(name) }
    }

    @MainActor
    private func congratulate(_ session: ChappieAuthSession, _ program: Program) {
        let info = session.accountInfo
        guard !options.json else {
            return Output.json(["type": "linked", "account": info?.json ?? .null])
        }
        Output.line("ChatGPT Linked! Return to the app")
        if let info {
            let plan = info.plan.map { " (\($0.displayName))" } ?? ""
            Output.line("Signed in as \(info.email ?? info.accountID ?? "an account without a name")\(plan).")
            Output.line("The credential lies \(program.place).")
        }
    }
}

extension CredentialStoreError {
    fileprivate var isLasting: Bool { if case .corrupt = self { false } else { true } }
}
