@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieProcess

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
        let words = FileDescriptor.memory()
        let source = input == nil ? null : FileDescriptor.memory()
        guard null.isOpen, words.isOpen, source.isOpen, source.fill(with: input ?? []) else {
            return .notStarted(String(cString: strerror(errno)))
        }
        let exitCode = Promise<Int32>()
        let child: StartedChild
        do throws(StartFailure) {
            let program = ProgramInvocation(path: path, arguments: arguments, environment: environment)
            child = try StartedChild(program, input: source, output: null, errors: words) {
                exitCode.fulfil(.success($0))
            }
        } catch {
            return .notStarted(error.reason)
        }
        let timer = Task.detached { [limit, exitCode] in
            // A sleep that was cut short means that the program has ended.
            guard (try? await Task.sleep(for: limit, clock: .continuous)) != nil else { return }
            exitCode.fulfil(.failure(CancellationError()))
        }
        defer { timer.cancel() }
        guard let code = try? await exitCode.value() else {
            if atLimit == .kill { child.signalGroup(SIGKILL) }
            return .stillRunning
        }
        return .exited(code: code, words: words.text(limit: 4096))
    }
}

extension FileDescriptor {
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
