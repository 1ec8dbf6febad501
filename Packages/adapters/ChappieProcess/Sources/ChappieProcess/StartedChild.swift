import CSpawn
@_spi(ChappieInternals) public import ChappieFiles
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
/// The child has its own session, without a terminal. An interrupt from the keyboard does not reach it, and it can't
/// read the user's input. It inherits only the three open files that it was given.
public final class StartedChild: Sendable {
    /// The number of the child's process and of its process group.
    private let id: pid_t
    private struct State {
        /// Whether the child has been reaped. Its number may then belong to another process.
        var isReaped = false
        /// Whether processes that the child leaves running are killed at its end.
        var endsGroup: Bool
    }
    private let state: Mutex<State>
    /// The children that must not outlive the program, by their numbers.
    private static let ending = Mutex<[pid_t: StartedChild]>([:])
    /// The watch, which starts with the first child that ends with the program. It is `nil` if the system has no shell.
    private static let watch = try? OrphanWatch()

    /// Starts the program.
    ///
    /// - Parameters:
    ///   - endsGroup: Whether processes that the child leaves running are killed at its end. The default is `false`.
    ///   - endsWithProgram: Whether ``endAll()`` kills the child, and the child receives SIGTERM if this process is
    ///     killed. The default is `false`.
    ///   - onExit: A closure that receives the exit code. This is 128 plus the number of the signal if a signal ended
    ///     the child, and -1 if another part of this process has reaped it.
    @_spi(ChappieInternals) public init(
        _ program: ProgramInvocation, input: Descriptor, output: Descriptor, errors: Descriptor,
        endsGroup: Bool = false, endsWithProgram: Bool = false, onExit: @escaping @Sendable (Int32) -> Void
    ) throws(StartFailure) {
        // The watch starts before the child, because a child without it would survive a kill of this process.
        let watch = endsWithProgram ? Self.watch : nil
        id = try Self.start(program, input: input, output: output, errors: errors)
        state = Mutex(State(endsGroup: endsGroup))
        if endsWithProgram { Self.ending.withLock { $0[id] = self } }
        watch?.started(id)
        DispatchQueue(label: "chappie.child").async { onExit(self.waitToTheEnd()) }
    }

    /// Starts the program. The caller must wait for its end.
    ///
    /// - Returns: The number of its process and of its process group.
    static func start(
        _ program: ProgramInvocation, input: Descriptor, output: Descriptor, errors: Descriptor
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
    /// When the child ends, the rest of the group is killed, because it may ignore the signal that the child obeyed.
    public func endGroup(by number: Int32) {
        state.withLock { state in
            guard !state.isReaped else { return }
            state.endsGroup = true
            _ = killpg(id, number)
        }
    }

    /// Kills every child that ends with the program, and its group. Use it in a program that ends at once.
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

@_spi(ChappieInternals) extension Descriptor {
    /// Creates an empty file without a name.
    ///
    /// - Throws: ``StartFailure`` with the system's reason.
    public static func memory() throws(StartFailure) -> Descriptor {
        do {
            return try Descriptor(cspawn_memory_file())
        } catch {
            throw StartFailure("\(error)")
        }
    }

    /// Creates a pipe. A child inherits its ends only if they are passed to it.
    ///
    /// - Throws: ``StartFailure`` with the system's reason.
    public static func pipe() throws(StartFailure) -> (reader: Descriptor, writer: Descriptor) {
        var ends: [CInt] = [-1, -1]
        do {
            _ = cspawn_pipe(&ends)
            return (try Descriptor(ends[0]), try Descriptor(ends[1]))
        } catch {
            throw StartFailure("\(error)")
        }
    }
}
