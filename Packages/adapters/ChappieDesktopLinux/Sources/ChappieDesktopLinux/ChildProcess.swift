@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieProcess
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The outcome of running a program.
enum ChildOutcome: Sendable, Hashable {
    /// The program ended by itself. `code` is its exit code, or 128 plus the number of the signal that ended it, or -1
    /// if another part of this process has reaped it. `words` contains the first 4096 bytes of its standard error.
    case exited(code: Int32, words: String)
    /// The limit has passed, or the task was cancelled. The program was left running or killed, as the caller
    /// specified.
    case stillRunning
    /// The program could not be started. The text is the system's message.
    case notStarted(String)
}

/// A program to run, as a value.
///
/// swift-subprocess does not fit. A program may be left running at the limit, and must still be reaped then. A program
/// that moves to the background keeps its standard error open, and its caller must not wait for that. Long standard
/// error is cut off, which is not an error.
struct ChildProcess: Sendable, Hashable {
    /// The treatment of a program that is still running at the limit.
    enum AtLimit: Sendable, Hashable {
        /// The program keeps running, for example a browser that stays in the foreground.
        case leave
        /// The program is killed together with its process group.
        case kill
    }

    /// The path of the program, which is also its first argument.
    let path: String
    /// The arguments after the program's name. Every process of the machine can read them, so text to copy is never
    /// passed as an argument.
    let arguments: [String]
    let environment: [String: String]
    /// The content of the program's standard input, or `nil` for /dev/null.
    var input: [UInt8]?
    let limit: Duration
    let atLimit: AtLimit

    /// Starts the program and waits until it ends or the limit has passed.
    ///
    /// The program runs in its own session, without a terminal. An interrupt from the keyboard does not reach it, and
    /// it can't read the user's input. Its output is written to /dev/null unless it is captured. The program is reaped
    /// whenever it ends.
    func run() async -> ChildOutcome { await run(writingTo: nil) }

    /// Runs the program and returns its output.
    ///
    /// - Returns: The output, or `nil` if the program fails or writes more than `limit` bytes.
    func output(upTo limit: Int) async -> [UInt8]? {
        guard let output = try? Descriptor.memory(), case .exited(code: 0, _) = await run(writingTo: output) else {
            return nil
        }
        let bytes = output.bytes(limit: limit + 1)
        return bytes.count > limit ? nil : bytes
    }

    private func run(writingTo output: Descriptor?) async -> ChildOutcome {
        // Unnamed files replace pipes. A grandchild that keeps its copy open blocks nothing, and a program that does
        // not read causes no signal.
        let exitCode = Promise<Int32>()
        let child: StartedChild
        let words: Descriptor
        do {
            let null = try Descriptor("/dev/null", .readWrite)
            words = try Descriptor.memory()
            let source = try input.map(Self.file) ?? null
            let program = ProgramInvocation(path: path, arguments: arguments, environment: environment)
            child = try StartedChild(program, input: source, output: output ?? null, errors: words) {
                exitCode.fulfil(.success($0))
            }
        } catch let error as StartFailure {
            return .notStarted(error.reason)
        } catch {
            return .notStarted("\(error)")
        }
        let late = CancellationError()
        guard
            let code = try? await withDeadline(limit, clock: SystemClock(), late: late, { try await exitCode.value() })
        else {
            if atLimit == .kill { child.endGroup(by: SIGKILL) }
            return .stillRunning
        }
        return .exited(code: code, words: String(decoding: words.bytes(limit: 4096), as: UTF8.self))
    }

    /// Returns a file with this content.
    private static func file(_ bytes: [UInt8]) throws -> Descriptor {
        let file = try Descriptor.memory()
        try file.write(bytes)
        lseek(file.number, 0, SEEK_SET)
        return file
    }
}

extension Descriptor {
    /// Returns the first bytes of the file, at most `limit` of them.
    fileprivate func bytes(limit: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: min(limit, max(Int(lseek(number, 0, SEEK_END)), 0))) { buffer, count in
            count = max(pread(number, buffer.baseAddress, buffer.count, 0), 0)
        }
    }
}
