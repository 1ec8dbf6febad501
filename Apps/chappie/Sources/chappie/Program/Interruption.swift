import CSpawn
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieProcess
import Dispatch
import Glibc
import Synchronization

/// The handling of Ctrl-C, SIGTERM and a closed terminal. The first of them asks the work to end, and the second ends
/// the process. A thread that the system does not allow also asks the work to end.
final class Interruption: Sendable {
    /// The pipe to which a signal handler writes the number of the signal. A handler may do little more than write.
    private static let pipe = try? Descriptor.pipe()

    /// A closure that Ctrl-C calls instead of ending the program. It returns whether there was anything to end.
    static let takesCtrlC = Mutex<(@Sendable () -> Bool)?>(nil)

    /// The number for a missing thread, which is not the number of a signal.
    private static let threadShortage: CInt = 255

    private let first = Atomic<CInt>(0)
    /// A promise that is fulfilled at the first signal.
    let received = Promise<Void>()

    /// The status after an interruption. It is 129, 130 or 143 for a signal, and 69 for a missing thread.
    var exitStatus: CInt? {
        let status = first.load(ordering: .acquiring)
        return status == 0 ? nil : status
    }

    /// Begins to handle the signals. From here on none is lost.
    init() {
        guard let reader = Self.pipe?.reader else { return }
        let numbers = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        // This thread starts before a signal is handled and does not need a free Dispatch thread, so SIGTERM always has
        // an effect.
        startThread {
            // The program that started this one may have blocked the signals.
            Self.unblock(numbers)
            while let byte = try? reader.read(atMost: 1).first { self.handle(CInt(byte)) }
        }
        for number in numbers {
            // With nohup the program must outlive its terminal, and in the background of a script it must outlive the
            // script's Ctrl-C.
            if number != SIGTERM, Self.isIgnored(number) { continue }
            Self.takeOver(number)
        }
    }

    /// Asks the work to end, as the first signal does, because a thread is missing. Any thread may call this function.
    static func reportThreadShortage() { report(threadShortage) }

    private static func report(_ number: CInt) {
        var byte = UInt8(truncatingIfNeeded: number)
        _ = write(pipe?.writer.number ?? -1, &byte, 1)
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

    /// Sets whether Ctrl-Z turns the echo on before it stops the program. The line editor handles its own stops.
    static func takesStops(_ isTaken: Bool) {
        // If the signal is ignored, a shell without job control could not continue the program.
        guard !isIgnored(SIGTSTP) else { return }
        if isTaken { takeOver(SIGTSTP) } else { signal(SIGTSTP, SIG_DFL) }
    }

    /// Lets the system handle the signal in its default way. Returns when the program continues.
    private static func obey(_ number: CInt) {
        signal(number, SIG_DFL)
        // This thread must stop before it continues.
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
            // Both the system and the shell may report a closed terminal. Together they are one interruption.
            TerminalEcho.restore()
            StartedChild.endAll()
            _exit(status)
        }
    }

    fileprivate static func isIgnored(_ number: CInt) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        // C functions can be compared only by their addresses.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
            == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}

/// The echo of the terminal. It is off while the user types a secret, and is restored however the program ends.
enum TerminalEcho {
    private struct Silenced {
        let terminal: CInt
        var settings: termios
    }

    private static let silenced = Mutex<Silenced?>(nil)

    /// Whether the program is asking for a passphrase.
    static var isSilent: Bool { silenced.withLock { $0 != nil } }

    /// Turns the echo off.
    ///
    /// - Returns: whether this succeeded.
    static func silence(_ terminal: CInt) -> Bool {
        silenced.withLock { silenced in
            var settings = termios()
            guard TerminalState.awaitForeground(terminal), tcgetattr(terminal, &settings) == 0 else { return false }
            silenced = Silenced(terminal: terminal, settings: settings)
            settings.c_lflag &= ~tcflag_t(ECHO)
            Interruption.takesStops(true)
            return tcsetattr(terminal, TCSAFLUSH, &settings) == 0
        }
    }

    /// Runs `work` with the echo on. In the meantime another program may use the terminal.
    static func showing(_ work: () -> Void) {
        silenced.withLock { silenced in
            guard let asking = silenced else { return TerminalState.showing(work) }
            var settings = asking.settings
            tcsetattr(asking.terminal, TCSANOW, &settings)
            work()
            // The shell may have continued the program in the background.
            guard TerminalState.awaitForeground(asking.terminal) else { return }
            settings.c_lflag &= ~tcflag_t(ECHO)
            tcsetattr(asking.terminal, TCSANOW, &settings)
        }
    }

    /// Turns the echo on again, and does nothing while it is on. The program calls this function before every `_exit`.
    static func restore() {
        TerminalState.restore()
        silenced.withLock { silenced in
            guard var old = silenced else { return }
            guard TerminalState.isForeground(old.terminal) else { return silenced = nil }
            // `TCSAFLUSH` is not used because it waits for output that a stopped terminal does not take.
            tcflush(old.terminal, TCIFLUSH)
            tcsetattr(old.terminal, TCSANOW, &old.settings)
            if TerminalState.takesOutput(old.terminal) { _ = write(old.terminal, "\n", 1) }
            Interruption.takesStops(false)
            silenced = nil
        }
    }
}

/// Opens a replacement for standard streams that are closed. Otherwise the next file or socket would get such a number,
/// and an answer would be written into it.
func occupyStandardStreams() {
    for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) < 0 {
        // Reading then reports the end of the input, and writing fails as with a closed descriptor. The lowest free
        // number is taken.
        _ = open("/dev/null", O_RDONLY)
    }
}

/// Keeps the memory of this process private because it contains tokens, even when the process crashes. From here on the
/// process does not write a core file and has no crash handler, and no other process of this user can read its memory.
func forbidCoreDumps() {
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
    // A handler to which the kernel pipes the core ignores the limit.
    cspawn_forbid_dumps()
    // Swift's own backtracer prints registers and memory. It can no longer attach and would hang.
    for fatal in [SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGQUIT] where !Interruption.isIgnored(fatal) {
        signal(fatal, SIG_DFL)
    }
}
