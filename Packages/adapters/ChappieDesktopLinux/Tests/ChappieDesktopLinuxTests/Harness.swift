import ChappieAuth
@_spi(ChappieInternals) import ChappieFiles
import ChappieProcess
import Foundation
import Synchronization
import SystemPackage
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

extension SystemProgram {
    static let xclip = SystemProgram("xclip", packages: "xclip")
    static let xvfb = SystemProgram("Xvfb", packages: "xvfb")
    static let busctl = SystemProgram("busctl", packages: "systemd")
}

/// A made-up machine: its programs, how they end, whether there is a terminal; and a record of everything that was done.
final class Scene: Sendable {
    private let record = Mutex<(processes: [ChildProcess], terminal: [UInt8])>(([], []))
    private let variables: [String: String]
    private let programs: [String]
    private let sockets: [String]
    private let hasTerminal: Bool
    private let outcomes: [String: ChildOutcome]

    init(
        _ variables: [String: String], programs: [String] = [], sockets: [String] = [], hasTerminal: Bool = false,
        outcomes: [String: ChildOutcome] = [:]
    ) {
        self.variables = variables.merging(["PATH": "relative::/first:/usr/bin"]) { given, _ in given }
        self.programs = programs
        self.sockets = sockets
        self.hasTerminal = hasTerminal
        self.outcomes = outcomes
    }

    var environment: DesktopEnvironment {
        var environment = DesktopEnvironment(variables: variables)
        environment.isExecutable = { [programs] in programs.contains($0) }
        environment.isSocket = { [sockets] in sockets.contains($0) }
        environment.run = { [self] process in
            record.withLock { $0.processes.append(process) }
            return outcomes[process.path] ?? .exited(code: 0, words: "")
        }
        environment.writeToTerminal = { [self] bytes in
            if hasTerminal { record.withLock { $0.terminal += bytes } }
            return hasTerminal
        }
        return environment
    }

    var processes: [ChildProcess] { record.withLock(\.processes) }
    var terminal: [UInt8] { record.withLock(\.terminal) }
}

/// A folder of a test's own, with programs of its own.
struct Folder {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    func path(_ name: String) -> String { directory.path(name) }

    func read(_ name: String) throws -> String { try directory.read(name) }

    /// Puts a program into the folder: Tests/Fakes/program.sh under the name `name`, doing `body`.
    func script(_ name: String, _ body: String) throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        try directory.write("\(body)\n", to: "\(name).sh")
        try FileManager.default.createSymbolicLink(
            atPath: path(name), withDestinationPath: tests.appendingPathComponent("Fakes/program.sh").path)
    }

    /// Puts a program into the folder that writes its number to `out` and runs until the test writes to `pipe`.
    func waitingScript(_ name: String) throws {
        #expect(mkfifo(path("pipe"), 0o600) == 0)
        try script(name, #"echo $$ > "$OUT"; read line < "$FOLDER/pipe""#)
    }

    /// The number of the program that waits.
    func waitingID() throws -> pid_t { try #require(pid_t(try read("out").trimmingCharacters(in: .newlines))) }

    /// An environment in which the folder's programs come first.
    func environment(_ variables: [String: String]) -> DesktopEnvironment {
        let own = ["PATH": "\(directory.path):/usr/bin:/bin", "FOLDER": directory.path, "OUT": path("out")]
        return DesktopEnvironment(variables: own.merging(variables) { _, given in given })
    }
}

/// A terminal whose screen the test reads.
final class PseudoTerminal {
    let path: String
    private let screen: Descriptor
    private let program: Descriptor

    init() throws {
        // Linux's own way (pty(7), ioctl_tty(2)); Swift does not see posix_openpt.
        let (lock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        screen = try Descriptor("/dev/ptmx", .readWrite)
        var (isLocked, number): (Int32, Int32) = (0, -1)
        guard ioctl(screen.number, lock, &isLocked) == 0, ioctl(screen.number, getNumber, &number) == 0
        else { throw FixtureFailure("no pseudo-terminal: \(String(cString: strerror(errno)))") }
        path = "/dev/pts/\(number)"
        program = try Descriptor(path, .readWrite)
        // Bytes are to arrive as they were written, without carriage returns added.
        var settings = termios()
        tcgetattr(program.number, &settings)
        cfmakeraw(&settings)
        tcsetattr(program.number, TCSANOW, &settings)
    }

    /// The descriptor that a program inside the terminal has.
    var inside: Int32 { program.number }

    func read(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count, let chunk = try? screen.read(atMost: count - bytes.count), !chunk.isEmpty {
            bytes += chunk
        }
        return bytes
    }
}
