@_spi(ChappieInternals) import ChappieFiles
import SystemPackage

/// A watch that ends the children of this process after this process was killed.
///
/// A small shell, which is a separate process, reads a pipe that only this process writes to. This process writes the
/// number of each child when the child starts, and again when it ends. The pipe ends with this process, however it
/// ends. The shell then sends SIGTERM to the process groups of the remaining children, and ends.
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

    private let writer: Descriptor
    /// The read end of the pipe, which is never read here. While it is open, a write does not fail if the shell has
    /// ended.
    private let reader: Descriptor

    /// Starts the shell. It inherits nothing, and its working directory is not a folder that the user may want to
    /// remove.
    init() throws {
        (reader, writer) = try Descriptor.pipe()
        // A shell that has stopped reading must not delay this process.
        writer.stopBlocking()
        let null = try Descriptor("/dev/null", .writeOnly)
        let shell = ProgramInvocation(
            path: "/bin/sh", arguments: ["-c", Self.script], environment: [:], workingDirectory: "/")
        _ = try StartedChild.start(shell, input: reader, output: null, errors: null)
    }

    /// Adds a child, which from now on ends with this process.
    func started(_ child: Int32) { tell("started \(child)\n") }

    /// Removes a child that has ended, because its number may soon belong to another process.
    func ended(_ child: Int32) { tell("ended \(child)\n") }

    private func tell(_ line: String) {
        // A short line is written completely or not at all (pipe(7)).
        _ = try? writer.writeSome(Array(line.utf8)[...])
    }
}
