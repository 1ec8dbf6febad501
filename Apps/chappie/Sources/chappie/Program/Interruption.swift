import CSpawn
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieProcess
import Dispatch
import Glibc
import Synchronization

/// Ctrl-C, SIGTERM and a closed terminal: the first asks the work to end, the second ends the process. A thread that
/// the system does not allow asks as well.
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

    /// Stands for a missing thread, as the number of no signal.
    private static let threadShortage: CInt = 255

    private let first = Atomic<CInt>(0)
    /// Fulfilled at the first signal.
    let received = Promise<Void>()

    /// The status after an interruption: 129, 130 or 143 for a signal, 69 for a missing thread.
    var exitStatus: CInt? {
        let status = first.load(ordering: .acquiring)
        return status == 0 ? nil : status
    }

    /// Handles the signals from here on; none is lost.
    init() {
        guard let reader = Self.pipe?.reader else { return }
        let numbers = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        // This thread starts before a signal is handled, and none of Dispatch's has to be free for it: SIGTERM always
        // has an effect.
        startThread {
            // The program that started this one may have blocked them.
            Self.unblock(numbers)
            while let byte = readPiece(of: reader, atMost: 1)?.first { self.handle(CInt(byte)) }
        }
        for number in numbers {
            // nohup and the background jobs of a script: the program is to outlive its terminal, or the script's
            // Ctrl-C.
            if number != SIGTERM, Self.isIgnored(number) { continue }
            Self.takeOver(number)
        }
    }

    /// Asks the work to end, as the first signal does, because a thread is missing. Any thread may call it.
    static func reportThreadShortage() { report(threadShortage) }

    private static func report(_ number: CInt) {
        var byte = UInt8(truncatingIfNeeded: number)
        _ = write(pipe?.writer ?? -1, &byte, 1)
    }

    private static func takeOver(_ number: CInt) {
        var action = sigaction()
        action.sa_flags = SA_RESTART
        action.__sigaction_handler.sa_handler = { number in
            let reason = errno
            Interruption.report(number)
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

    /// Lets the system do with the signal what it does by default. Returns when the program continues.
    private static func obey(_ number: CInt) {
        signal(number, SIG_DFL)
        // This thread has to stop before it continues.
        unblock([number])
        raise(number)
        takeOver(number)
    }

    private static func unblock(_ numbers: [CInt]) {
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in numbers { sigaddset(&signals, number) }
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
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
        let status = number == Self.threadShortage ? ExitStatus.unavailable.rawValue : 128 + number
        if first.compareExchange(expected: 0, desired: status, ordering: .acquiringAndReleasing).exchanged {
            received.fulfil(.success(()))
        } else if number != SIGHUP, number != Self.threadShortage {
            // Both the system and the shell may report a closed terminal; that is one interruption.
            TerminalEcho.restore()
            StartedChild.endAll()
            _exit(status)
        }
    }

    fileprivate static func isIgnored(_ number: CInt) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        // C's functions can be compared only by their addresses.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
            == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}

/// Hides what the user types, and restores the terminal however the program ends.
enum TerminalEcho {
    private struct Silenced {
        let terminal: CInt
        var settings: termios
    }

    private static let silenced = Mutex<Silenced?>(nil)

    /// Whether a passphrase is being asked for.
    static var isSilent: Bool { silenced.withLock { $0 != nil } }

    /// - Returns: whether it could be done.
    static func silence(_ terminal: CInt) -> Bool {
        silenced.withLock { silenced in
            var settings = termios()
            guard tcgetattr(terminal, &settings) == 0 else { return false }
            silenced = Silenced(terminal: terminal, settings: settings)
            settings.c_lflag &= ~tcflag_t(ECHO)
            Interruption.takesStops(true)
            return tcsetattr(terminal, TCSAFLUSH, &settings) == 0
        }
    }

    /// Runs `work`, during which another program may use the terminal, with the echo on.
    static func showing(_ work: () -> Void) {
        silenced.withLock { silenced in
            guard let asking = silenced else { return TerminalState.showing(work) }
            var settings = asking.settings
            tcsetattr(asking.terminal, TCSANOW, &settings)
            work()
            settings.c_lflag &= ~tcflag_t(ECHO)
            tcsetattr(asking.terminal, TCSANOW, &settings)
        }
    }

    /// Does nothing while the echo is on. The program calls it before every `_exit`.
    static func restore() {
        TerminalState.restore()
        silenced.withLock { silenced in
            guard var old = silenced else { return }
            // Not `TCSAFLUSH`, which waits for output that a stopped terminal does not take.
            tcflush(old.terminal, TCIFLUSH)
            tcsetattr(old.terminal, TCSANOW, &old.settings)
            if TerminalState.takesOutput(old.terminal) { _ = write(old.terminal, "\n", 1) }
            Interruption.takesStops(false)
            silenced = nil
        }
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
