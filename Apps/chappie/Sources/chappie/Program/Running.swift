import ArgumentParser
import CSpawn
import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMCP
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
import Dispatch
import Glibc
import Synchronization

/// A command that writes to the console.
protocol ConsoleCommand: ParsableCommand, Sendable {
    var options: GlobalOptions { get }
    /// Does the work; errors become messages and exit codes in one place.
    func run(on console: Console, _ environment: ProgramEnvironment) async throws
}

/// A command that runs inside a composed program.
protocol ProgramCommand: ConsoleCommand {
    /// Default `.ignored`.
    var accessTokenUse: AccessTokenUse { get }
    /// Whether the user may be asked to unlock the keyring. Default `true`.
    var mayUnlockKeyring: Bool { get }
    /// Does the work; errors become messages and exit codes in one place.
    func run(in program: Program) async throws
}

extension ConsoleCommand {
    /// Runs the command and ends the process with the right status.
    func runAndExit() async -> Never {
        let interruption = Interruption()
        let console = Console(environment: .process)
        let work = Task { () -> CInt in
            var status = ExitStatus.success.rawValue
            do {
                try await run(on: console, .process)
            } catch  where console.outputFailure != EPIPE || interruption.exitStatus != nil {
                status = interruption.exitStatus ?? report(error, console)
                if interruption.exitStatus != nil { console.leave() }
            } catch {}  // It ended because its reader has left, and ends silently below.
            do {
                try await console.drained()
                if status == ExitStatus.success.rawValue, let reason = console.outputFailure, reason != EPIPE {
                    let failure = CommandLineError(
                        .unavailable, code: "output_failed",
                        "Standard output can't be written: \(String(cString: strerror(reason))).",
                        suggestion: "A part of the output is lost. Check the disk, or where the output goes.")
                    status = report(failure, console)
                    try await console.drained()
                }
            } catch { status = interruption.exitStatus ?? status }
            return status
        }
        // Not at once: a token refresh may be on its way, and ends well (see `settle`).
        for reason in [interruption.received, console.readerHasLeft] {
            Task {
                try await reason.value()
                work.cancel()
            }
        }
        let status = await work.value
        TerminalEcho.restore()
        if interruption.exitStatus == nil, console.outputFailure == EPIPE { Console.endByBrokenPipe() }
        // Without the libraries' clean-up at exit, which other threads of this process would run into.
        _exit(status)
    }

    private func report(_ error: any Error, _ console: Console) -> CInt {
        if let silent = error as? ExitCode { return silent.rawValue }
        let error = CommandLineError(error)
        if options.json { console.json(error.json) }
        console.note("chappie: \(error.message)")
        if let suggestion = error.suggestion { console.note("         \(suggestion)") }
        return error.status.rawValue
    }
}

extension ProgramCommand {
    var accessTokenUse: AccessTokenUse { .ignored }
    var mayUnlockKeyring: Bool { true }

    func run(on console: Console, _ environment: ProgramEnvironment) async throws {
        let program = try await Program(self, environment, console)
        let result: Result<Void, any Error>
        do {
            if options.simulate, !(self is Login) { _ = try await program.session().signIn { _ in } }
            if !(self is Doctor) { try await program.useAccessToken() }
            result = .success(try await run(in: program))
        } catch {
            result = .failure(naming(program.settings, error))
        }
        await program.runtimes.settle()
        await settle(program)
        await program.startedTools.end()
        try result.get()
    }

    /// Lets a token refresh finish, in a task of its own: Ctrl-C may have cancelled this task, and an interrupted
    /// refresh loses the sign-in.
    private func settle(_ program: Program) async {
        let note = Task {
            try await Task.sleep(for: .seconds(2))
            program.console.note(
                "Waiting until the renewed sign-in is stored. Ctrl-C twice ends at once, and may lose it.")
        }
        await uncancelled { await program.credentials.settle() }
        note.cancel()
    }

    /// The same error; but if the sign-in at another issuer than the default is missing, a sentence that names the
    /// issuer: the user may be signed in elsewhere. If the access token of the environment is not accepted, the advice
    /// is about that.
    private func naming(_ settings: Settings, _ error: any Error) -> any Error {
        if error is ChappieMCPError { return error }
        if settings.accessToken != nil {
            let error = CommandLineError(error)
            guard error.status == .signInNeeded else { return error }
            return CommandLineError(
                .signInNeeded, code: error.code, error.message,
                suggestion: "Put a new access token into \(Settings.accessTokenVariable), or unset it.")
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

/// The same error; but its advice names the command that signs in on `route`.
private func withLogin(_ route: Route, _ error: any Error) -> any Error {
    guard !(error is ExitCode) else { return error }
    let error = CommandLineError(error)
    return CommandLineError(
        error.status, code: error.code, error.message,
        suggestion: error.suggestion?.replacing(Route.device.login, with: route.login))
}

/// Ctrl-C, SIGTERM and a closed terminal: the first asks the work to end, the second ends the process.
final class Interruption: Sendable {
    /// A signal handler may do little more than write: it writes the signal's number here.
    private static let pipe: (reader: CInt, writer: CInt)? = {
        var ends: [CInt] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return nil }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }()

    /// Ctrl-C calls this instead of ending the program; it returns whether there was anything to end.
    static let takesCtrlC = Mutex<(@Sendable () -> Bool)?>(nil)

    private let first = Atomic<CInt>(0)
    /// Fulfilled at the first signal.
    let received = Promise<Void>()

    /// 129, 130 or 143 once a signal has come.
    var exitStatus: CInt? {
        let number = first.load(ordering: .acquiring)
        return number == 0 ? nil : 128 + number
    }

    /// Handles the signals from here on; none is lost.
    init() {
        guard let reader = Self.pipe?.reader else { return }
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            // nohup and the background jobs of a script: the program is to outlive its terminal, or the script's Ctrl-C.
            if number != SIGTERM, Self.isIgnored(number) { continue }
            Self.takeOver(number)
        }
        DispatchQueue(label: "chappie.signals").async {
            while let byte = readPiece(of: reader, atMost: 1)?.first { self.handle(CInt(byte)) }
        }
    }

    private static func takeOver(_ number: CInt) {
        var action = sigaction()
        action.sa_flags = SA_RESTART
        action.__sigaction_handler.sa_handler = { number in
            let reason = errno
            var byte = UInt8(truncatingIfNeeded: number)
            _ = write(Interruption.pipe?.writer ?? -1, &byte, 1)
            errno = reason
        }
        sigaction(number, &action, nil)
    }

    /// Whether Ctrl-Z, before it stops the program, shows again what is typed. The line editor stops by itself.
    static func takesStops(_ isTaken: Bool) {
        // Ignored: a shell without job control can't continue the program.
        guard !isIgnored(SIGTSTP) else { return }
        if isTaken { takeOver(SIGTSTP) } else { signal(SIGTSTP, SIG_DFL) }
    }

    /// Lets the system do with the signal what it does by default. Returns when the program goes on.
    private static func obey(_ number: CInt) {
        signal(number, SIG_DFL)
        // Dispatch's threads block signals. This one has to stop before it goes on.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
        takeOver(number)
    }

    private func handle(_ number: CInt) {
        switch number {
        case SIGQUIT:
            TerminalEcho.restore()
            StartedChild.endAll()
            return Self.obey(number)
        case SIGTSTP: return TerminalEcho.showing { Self.obey(number) }
        default: break
        }
        if number == SIGINT, exitStatus == nil, Self.takesCtrlC.withLock({ $0 })?() == true { return }
        if first.compareExchange(expected: 0, desired: number, ordering: .acquiringAndReleasing).exchanged {
            received.fulfil(.success(()))
        } else if number != SIGHUP {
            // Both the system and the shell may report a closed terminal; that is one interruption.
            TerminalEcho.restore()
            StartedChild.endAll()
            _exit(128 + number)
        }
    }

    fileprivate static func isIgnored(_ number: CInt) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        // C's functions can be compared by their addresses alone.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
            == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}

/// Opens something in the place of standard streams that are closed. Otherwise the next file or socket would get such a
/// number, and an answer would be written into it.
func occupyStandardStreams() {
    for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
        // Input is at its end; writing fails, as it does with a closed descriptor. The lowest free number is taken.
        _ = open("/dev/null", O_RDONLY)
    }
}

/// Keeps the memory of this process private, also when it crashes, because it holds tokens. From here on the process
/// writes no core file and has no crash handler, and no other process of this user can read its memory.
func forbidCoreDumps() {
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
    // A handler that the kernel pipes the core to does not ask for the limit.
    cspawn_forbid_dumps()
    // Swift's own backtracer prints registers and memory, and can't attach any more: it would hang.
    for fatal in [SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGQUIT] where !Interruption.isIgnored(fatal) {
        signal(fatal, SIG_DFL)
    }
}
