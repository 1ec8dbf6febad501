import CSpawn
@_spi(ChappieInternals) import ChappieCore
import Dispatch
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// How a program ended, or that it did not.
enum ChildOutcome: Sendable, Hashable {
    /// It ended by itself. `code` is its exit code, 128 and the number of the signal that ended it, or -1 when another
    /// part of this process has reaped it; `words` are the first 4096 bytes of its standard error.
    case exited(code: Int32, words: String)
    /// The limit has passed, or the task was cancelled; the program was left alone or killed, as it was asked.
    case stillRunning
    /// It could not be started; the system's own words.
    case notStarted(String)
}

/// A program to run, as a value.
///
/// Not swift-subprocess's: a program may be left running at the limit, and must be reaped all the same; one that goes
/// into the background keeps its standard error open, which must not be waited for; and its words are cut off, not an
/// error, when they are many.
struct ChildProcess: Sendable, Hashable {
    /// The end of a program that is still running at the limit.
    enum AtLimit: Sendable, Hashable {
        /// It goes on, on its own: a browser that stays in the foreground.
        case leave
        /// It is killed, and its process group with it.
        case kill
    }

    /// Where the program is; the first argument as well.
    let path: String
    /// The arguments after the program's name. Every process of the machine can read them: never a text to copy.
    let arguments: [String]
    let environment: [String: String]
    /// The content of its standard input; `nil` is /dev/null.
    var input: [UInt8]?
    let limit: Duration
    let atLimit: AtLimit

    /// Starts the program and waits until it ends, at most for the limit.
    ///
    /// It runs in a session of its own, without a terminal: an interrupt from the keyboard does not reach it, and it
    /// can't read what the user types. Its output goes to /dev/null. Whenever it ends, it is reaped.
    func run() async -> ChildOutcome {
        // Files without a name instead of pipes: a grandchild that keeps its copy open holds nothing up, and a program
        // that does not read causes no signal.
        let null = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC))
        let words = FileDescriptor(cspawn_memory_file())
        let source = input == nil ? null : FileDescriptor(cspawn_memory_file())
        guard null.isOpen, words.isOpen, source.isOpen, source.fill(with: input ?? []) else {
            return .notStarted(String(cString: strerror(errno)))
        }
        var id: pid_t = 0
        let arguments = ([path] + arguments).map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        let status = cspawn_start(path, arguments, variables, source.number, null.number, words.number, &id)
        for text in arguments + variables { free(text) }
        guard status == 0 else { return .notStarted(String(cString: strerror(status))) }
        let child = StartedChild(id)
        let timer = Task.detached { [limit] in
            // A sleep that was cut short means that the program has ended.
            guard (try? await Task.sleep(for: limit, clock: .continuous)) != nil else { return }
            child.exitCode.fulfil(.failure(CancellationError()))
        }
        defer { timer.cancel() }
        guard let code = try? await child.exitCode.value() else {
            if atLimit == .kill { child.kill() }
            return .stillRunning
        }
        return .exited(code: code, words: words.text(limit: 4096))
    }
}

/// A child of this process, watched on a thread of its own for as long as it lives.
private final class StartedChild: Sendable {
    let exitCode = Promise<Int32>()
    private let id: pid_t
    /// From then on the number may be another program's.
    private let isReaped = Mutex(false)

    init(_ id: pid_t) {
        self.id = id
        DispatchQueue(label: "chappie.child").async { self.waitToTheEnd() }
    }

    /// Kills it and everything in its session's first process group, unless it has ended.
    func kill() { isReaped.withLock { if !$0 { _ = killpg(id, SIGKILL) } } }

    private func waitToTheEnd() {
        var information = siginfo_t()
        while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        let code: Int32 = isReaped.withLock { isReaped in
            isReaped = true
            var status: CInt = 0
            guard waitpid(id, &status, 0) == id else { return -1 }
            let signal = status & 0x7F
            return signal == 0 ? (status >> 8) & 0xFF : 128 + signal
        }
        exitCode.fulfil(.success(code))
    }
}

/// One open file, closed with the last reference to it.
final class FileDescriptor: Sendable {
    let number: Int32

    /// Takes over `number`; a negative one is the answer of a call that failed.
    init(_ number: Int32) { self.number = number }

    deinit { if isOpen { close(number) } }

    var isOpen: Bool { number >= 0 }

    /// Writes `bytes` and goes back to the start; nothing for no bytes.
    fileprivate func fill(with bytes: [UInt8]) -> Bool {
        bytes.isEmpty || (bytes.withUnsafeBytes { writeAll($0, to: number) } == 0 && lseek(number, 0, SEEK_SET) == 0)
    }

    /// The file's first bytes, at most `limit` of them.
    fileprivate func text(limit: Int) -> String {
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
            count = max(pread(number, buffer.baseAddress, buffer.count, 0), 0)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
