import CSpawn
import Glibc

/// What lies in memory stays there, also when the program crashes: tokens are in it.
enum CoreDumps {
    /// No core file, no crash handler and no other process of this user reads this process's memory from here on.
    static func forbid() {
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        // A handler that the kernel pipes the core to does not ask for the limit.
        cspawn_forbid_dumps()
        // Swift's own backtracer prints registers and memory, and can't attach any more: it would hang.
        for fatal in [SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGQUIT] { signal(fatal, SIG_DFL) }
    }
}
