import ArgumentParser
import CMain
import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieMCP
import ChappieSDK
import Dispatch
import Glibc
import SystemPackage

/// A command that writes to the console.
protocol ConsoleCommand: ParsableCommand, Sendable {
    var options: GlobalOptions { get }
    /// Does the work. Errors become messages and exit codes in one place.
    func run(on console: Console, _ environment: ProgramEnvironment) async throws
}

/// A command that runs inside a composed program.
protocol ProgramCommand: ConsoleCommand {
    /// The use of the access token. Default `.ignored`.
    var accessTokenUse: AccessTokenUse { get }
    /// The use of the settings. Default `.credential`.
    var settingsUse: SettingsUse { get }
    /// Whether the command itself signs the user in. A simulation then does not sign in before it. Default `false`.
    var isSignIn: Bool { get }
    /// Does the work. Errors become messages and exit codes in one place.
    func run(in program: Program) async throws
}

extension ConsoleCommand {
    /// Runs the command and ends the process with the status of its result.
    func runAndExit() -> Never {
        ThreadShortage.endsTheProgram(asJSON: options.json)
        let interruption = Interruption()
        let console = Console(environment: .process)
        Task { await run(on: console, interruption) }
        dispatchMain()
    }

    private func run(on console: Console, _ interruption: Interruption) async -> Never {
        let work = Task { () -> CInt in
            var status = ExitStatus.success.rawValue
            do {
                try Self.checkArguments()
                try await run(on: console, .process)
            } catch  where console.outputFailure != .brokenPipe || interruption.exitStatus != nil {
                status = interruption.exitStatus ?? report(error, console)
                if interruption.exitStatus != nil { console.leave() }
            } catch {}  // It ended because its reader has left, and ends silently below.
            do {
                try await console.drained()
                if status == ExitStatus.success.rawValue, let reason = console.outputFailure, reason != .brokenPipe {
                    let failure = CommandLineError(
                        .unavailable, code: "output_failed",
                        "Standard output can't be written: \(reason).",
                        suggestion: "A part of the output is lost. Check the disk, or where the output goes.")
                    status = report(failure, console)
                    try await console.drained()
                }
            } catch { status = interruption.exitStatus ?? status }
            return status
        }
        // The work is not ended at once because a token refresh may be running, which finishes normally (see `settle`).
        for reason in [interruption.received, console.readerHasLeft] {
            Task {
                try await reason.value()
                work.cancel()
            }
        }
        let status = await work.value
        TerminalEcho.restore()
        if interruption.exitStatus == nil, console.outputFailure == .brokenPipe { Console.endByBrokenPipe() }
        // The libraries' clean-up at exit is left out because other threads of this process would collide with it.
        _exit(status)
    }

    /// Refuses arguments that are not UTF-8. Otherwise a question would be sent with other characters, and a path would
    /// lead somewhere else.
    private static func checkArguments() throws {
        for number in 1..<max(1, cmain_argument_count()) {
            guard let argument = cmain_argument(number), String(validatingCString: argument) == nil else { continue }
            throw CommandLineError.usage(
                "Argument \(number) is not UTF-8: \(UntrustedText.forTerminal(String(cString: argument))).",
                suggestion:
                    "Write it in UTF-8. Text in another encoding can be piped in, by iconv -f ENCODING -t UTF-8.")
        }
    }

    private func report(_ error: any Error, _ console: Console) -> CInt {
        if let silent = error as? ExitCode { return silent.rawValue }
        let error = CommandLineError(error)
        if options.json { console.json(error.json) }
        console.note("chappie: \(error.message)", isError: true)
        if let suggestion = error.suggestion { console.note("         \(suggestion)", isError: true) }
        return error.status.rawValue
    }
}

extension ProgramCommand {
    var accessTokenUse: AccessTokenUse { .ignored }
    var settingsUse: SettingsUse { .credential }
    var isSignIn: Bool { false }

    func run(on console: Console, _ environment: ProgramEnvironment) async throws {
        let program = try await Program(
            options, environment, console, accessTokenUse: accessTokenUse, use: settingsUse, mayUnlockKeyring: true,
            isSignIn: isSignIn)
        let result: Result<Void, any Error>
        do {
            if options.simulate, !isSignIn { _ = try await program.session().signIn { _ in } }
            if accessTokenUse == .signsIn { try await program.useAccessToken() }
            result = .success(try await run(in: program))
        } catch {
            result = .failure(naming(program.settings, ResetCredits(program).explained(error)))
        }
        await program.runtimes.settle()
        await settle(program)
        program.connectedApps.close()
        await program.startedTools.end()
        try result.get()
    }

    /// Lets a token refresh finish in a separate task. Ctrl-C may have cancelled this task, and an interrupted refresh
    /// loses the sign-in.
    private func settle(_ program: Program) async {
        let note = Task {
            try await Task.sleep(for: .seconds(2))
            program.console.note(
                "Waiting until the renewed sign-in is stored. Ctrl-C twice ends at once, and may lose it.")
        }
        await uncancelled { await program.credentials.settle() }
        note.cancel()
    }

    /// Returns the same error with adapted texts. If the sign-in at an issuer other than the default is missing, the
    /// message names the issuer, because the user may be signed in elsewhere. If the access token of the environment is
    /// not accepted, the advice is about that.
    private func naming(_ settings: ResolvedSettings, _ error: any Error) -> any Error {
        if error is ChappieMCPError { return error }
        if settings.accessToken != nil {
            var error = CommandLineError(error)
            guard error.status == .signInNeeded else { return error }
            error.suggestion = "Put a new access token into \(ProgramEnvironment.accessTokenVariable), or unset it."
            return error
        }
        return switch (error, settings.issuerWords) {
        case (ChappieClientError.missingCredential, let issuer?), (ChappieAuthError.missingCredential, let issuer?):
            CommandLineError(
                .signInNeeded, code: "sign_in_needed",
                "You are not signed in at \(issuer). A sign-in at another service is not used there.",
                suggestion: "Run \(settings.route.login).")
        default: settings.route == .device ? error : withLogin(settings.route, error)
        }
    }
}

/// Returns the same error with advice that names the command that signs in on `route`.
private func withLogin(_ route: Route, _ error: any Error) -> any Error {
    guard !(error is ExitCode) else { return error }
    var error = CommandLineError(error)
    error.suggestion = error.suggestion?.replacing(Route.device.login, with: route.login)
    return error
}
