#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Ends the children of this process after this process was killed.
///
/// A small shell, a process of its own, reads a pipe that only this process writes to: the number of each child at its
/// start, and again at its end. The pipe ends with this process, however it ends. The shell then sends SIGTERM to the
/// process groups of the children that are left, and ends.
final class OrphanWatch: Sendable {
    private static let script = """
        children=
        while read -r change child; do
            left=
            for other in $children; do [ "$other" = "$child" ] || left="$left $other"; done
            children=$left
            [ "$change" = ended ] || children="$children $child"
        done
        for child in $children; do kill -s TERM -- "-$child"; done
        """

    private let writer: FileDescriptor
    /// Is never read here. While it is open, a write does not fail if the shell has ended.
    private let reader: FileDescriptor

    /// Starts the shell. It inherits nothing, and is in no folder that somebody may want to remove.
    init() throws(StartFailure) {
        (reader, writer) = try FileDescriptor.pipe()
        // A shell that does not read any more must not hold this process up.
        writer.stopBlocking()
        let null = FileDescriptor(open("/dev/null", O_WRONLY | O_CLOEXEC))
        let shell = ProgramInvocation(
            path: "/bin/sh", arguments: ["-c", Self.script], environment: [:], workingDirectory: "/")
        _ = try StartedChild.start(shell, input: reader, output: null, errors: null)
    }

    /// From here on the child ends with this process.
    func started(_ child: pid_t) { tell("started \(child)\n") }

    /// The child has ended, and its number may soon be another process's.
    func ended(_ child: pid_t) { tell("ended \(child)\n") }

    private func tell(_ line: String) {
        // A short line is written at once or not at all (pipe(7)).
        _ = Array(line.utf8).withUnsafeBytes { write(writer.number, $0.baseAddress, $0.count) }
    }
}
