import CSpawn
import Dispatch
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// A child of this process. A separate thread waits for its end and reaps it.
///
/// The child has its own session, without a terminal: an interrupt from the keyboard does not reach it, and it can't
/// read the user's input. It inherits only the three open files that it was given.
@_spi(ChappieInternals) public final class StartedChild: Sendable {
    /// The number of the child's process and of its process group.
    private let id: pid_t
    private struct State {
        /// From then on the number may belong to another process.
        var isReaped = false
        /// Whether processes that the child leaves running are killed at its end.
        var endsGroup: Bool
    }
    private let state: Mutex<State>
    /// The children that a program's end must not leave behind, by their numbers.
    private static let ending = Mutex<[pid_t: StartedChild]>([:])
    /// Starts with the first child that ends with the program; `nil` if the system has no shell.
    private static let watch = try? OrphanWatch()

    /// Starts the program.
    ///
    /// - Parameters:
    ///   - endsGroup: whether processes that the child leaves running are killed at its end. Default `false`.
    ///   - endsWithProgram: whether ``endAll()`` kills it, and it gets SIGTERM if this process is killed. Default `false`.
    ///   - onExit: gets its exit code, 128 and the number of the signal that ended it, or -1 when another part of this
    ///     process has reaped it.
    public init(
        _ program: ProgramInvocation, input: FileDescriptor, output: FileDescriptor, errors: FileDescriptor,
        endsGroup: Bool = false, endsWithProgram: Bool = false, onExit: @escaping @Sendable (Int32) -> Void
    ) throws(StartFailure) {
        // The watch starts first: a child without it would outlive a kill of this process.
        let watch = endsWithProgram ? Self.watch : nil
        id = try Self.start(program, input: input, output: output, errors: errors)
        state = Mutex(State(endsGroup: endsGroup))
        if endsWithProgram { Self.ending.withLock { $0[id] = self } }
        watch?.started(id)
        DispatchQueue(label: "chappie.child").async { onExit(self.waitToTheEnd()) }
    }

    /// Starts the program, and leaves it to the caller to wait for it.
    ///
    /// - Returns: the number of its process and of its process group.
    static func start(
        _ program: ProgramInvocation, input: FileDescriptor, output: FileDescriptor, errors: FileDescriptor
    ) throws(StartFailure) -> pid_t {
        var id: pid_t = 0
        let arguments = ([program.path] + program.arguments).map { strdup($0) } + [nil]
        let variables = program.environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        let status = cspawn_start(
            program.path, arguments, variables, program.workingDirectory, input.number, output.number, errors.number,
            &id)
        for text in arguments + variables { free(text) }
        guard status == 0 else { throw StartFailure(String(cString: strerror(status))) }
        return id
    }

    /// Sends a signal to the child and every process of its session's first process group, unless the child has ended.
    /// The rest of the group is killed when the child ends: it may ignore the signal that the child obeyed.
    public func endGroup(by number: Int32) {
        state.withLock { state in
            guard !state.isReaped else { return }
            state.endsGroup = true
            _ = killpg(id, number)
        }
    }

    /// Kills every child that ends with the program, and its group: for a program that ends at once.
    public static func endAll() {
        for child in ending.withLock({ Array($0.values) }) { child.endGroup(by: SIGKILL) }
    }

    private func waitToTheEnd() -> Int32 {
        var information = siginfo_t()
        while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        if Self.ending.withLock({ $0.removeValue(forKey: id) }) != nil { Self.watch?.ended(id) }
        return state.withLock { state in
            // The number still belongs to the group, because the child has not been reaped.
            if state.endsGroup { _ = killpg(id, SIGKILL) }
            state.isReaped = true
            var status: CInt = 0
            guard waitpid(id, &status, 0) == id else { return -1 }
            let signal = status & 0x7F
            return signal == 0 ? (status >> 8) & 0xFF : 128 + signal
        }
    }
}

/// An open file, which is closed with the last reference to it.
@_spi(ChappieInternals) public final class FileDescriptor: Sendable {
    /// The system's number of the file.
    public let number: Int32

    /// Takes over `number`; a negative number is the result of a call that failed.
    public init(_ number: Int32) { self.number = number }

    deinit { if isOpen { close(number) } }

    /// Whether there is a file.
    public var isOpen: Bool { number >= 0 }

    /// An empty file without a name.
    public static func memory() -> FileDescriptor { FileDescriptor(cspawn_memory_file()) }

    /// A pipe whose ends a child does not inherit unless it is given them.
    ///
    /// - Throws: ``StartFailure`` with the system's reason.
    public static func pipe() throws(StartFailure) -> (reader: FileDescriptor, writer: FileDescriptor) {
        var ends: [CInt] = [-1, -1]
        guard cspawn_pipe(&ends) == 0 else { throw StartFailure(String(cString: strerror(errno))) }
        return (FileDescriptor(ends[0]), FileDescriptor(ends[1]))
    }

    /// Makes reads and writes return at once instead of waiting. The other end of a pipe stays as it is.
    func stopBlocking() { _ = fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK) }
}
