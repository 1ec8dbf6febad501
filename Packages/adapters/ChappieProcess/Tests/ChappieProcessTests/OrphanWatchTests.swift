@_spi(ChappieInternals) import ChappieFiles
import Glibc
import SystemPackage
import Testing

@testable import ChappieProcess

struct OrphanWatchTests {
    /// Starts a program that runs until it gets a signal, and returns its number.
    private func sleeper() throws -> pid_t {
        let null = try Descriptor("/dev/null", .readWrite)
        let program = ProgramInvocation(path: "/bin/sleep", arguments: ["1000"], environment: [:])
        return try StartedChild.start(program, input: null, output: null, errors: null)
    }

    /// Waits for the program's end, and returns the signal that ended it.
    private func signal(thatEnds child: pid_t) -> Int32 {
        var status: CInt = 0
        waitpid(child, &status, 0)
        return status & 0x7F
    }

    /// A pipe ends with the last reference to it, as it does with its process.
    @Test func `the end of the pipe ends the children that are left, and no other`() throws {
        let children = try (0..<3).map { _ in try sleeper() }
        var watch: OrphanWatch? = try OrphanWatch()
        for child in children { watch?.started(child) }
        watch?.ended(children[0])
        watch = nil
        #expect(children.dropFirst().map(signal) == [SIGTERM, SIGTERM])
        var status: CInt = 0
        #expect(waitpid(children[0], &status, WNOHANG) == 0)
        kill(children[0], SIGKILL)
        #expect(signal(thatEnds: children[0]) == SIGKILL)
    }
}
