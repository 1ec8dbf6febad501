import ChappieAuth
import Foundation
import Synchronization
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
    struct Record {
        var processes: [ChildProcess] = []
        var terminal: [UInt8] = []
    }

    let environment: DesktopEnvironment
    private let record: Shared

    init(
        _ variables: [String: String], programs: Set<String> = [], sockets: Set<String> = [], hasTerminal: Bool = false,
        outcomes: [String: ChildOutcome] = [:]
    ) {
        let record = Shared()
        self.record = record
        environment = DesktopEnvironment(
            variables: variables.merging(["PATH": "relative::/first:/usr/bin"]) { given, _ in given },
            isExecutable: { programs.contains($0) },
            isSocket: { sockets.contains($0) },
            run: { process in
                record.value.withLock { $0.processes.append(process) }
                return outcomes[process.path] ?? .exited(code: 0, words: "")
            },
            writeToTerminal: { bytes in
                if hasTerminal { record.value.withLock { $0.terminal += bytes } }
                return hasTerminal
            })
    }

    var processes: [ChildProcess] { record.value.withLock(\.processes) }
    var terminal: [UInt8] { record.value.withLock(\.terminal) }

    private final class Shared: Sendable {
        let value = Mutex(Record())
    }
}

/// A folder of a test's own, with programs of its own.
struct Folder {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    func path(_ name: String) -> String { directory.path(name) }

    func read(_ name: String) throws -> String { try directory.read(name) }

    func write(_ text: String, to name: String) throws { try directory.write(text, to: name) }

    /// Puts a program into the folder: Tests/Fakes/program.sh under the name `name`, doing `body`.
    func script(_ name: String, _ body: String) throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        try directory.write("\(body)\n", to: "\(name).sh")
        try FileManager.default.createSymbolicLink(
            atPath: path(name), withDestinationPath: tests.appendingPathComponent("Fakes/program.sh").path)
    }

    /// An environment where the folder's programs come first.
    func environment(_ variables: [String: String] = [:]) -> DesktopEnvironment {
        let own = ["PATH": "\(directory.path):/usr/bin:/bin", "FOLDER": directory.path, "OUT": path("out")]
        return DesktopEnvironment(variables: own.merging(variables) { _, given in given })
    }

    func browser(patience: Duration) -> XDGOpenBrowser {
        XDGOpenBrowser(environment: environment(["DISPLAY": ":0"]), patience: patience)
    }
}

/// A terminal whose screen the test reads.
final class PseudoTerminal {
    let path: String
    private let screen: FileDescriptor
    private let program: FileDescriptor

    init() throws {
        // Linux's own way (pty(7), ioctl_tty(2)); Swift does not see posix_openpt.
        let (lock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        screen = FileDescriptor(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC))
        var (isLocked, number): (Int32, Int32) = (0, -1)
        guard screen.isOpen, ioctl(screen.number, lock, &isLocked) == 0, ioctl(screen.number, getNumber, &number) == 0
        else { throw FixtureFailure("no pseudo-terminal: \(String(cString: strerror(errno)))") }
        path = "/dev/pts/\(number)"
        program = FileDescriptor(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC))
        guard program.isOpen else { throw FixtureFailure("\(path): \(String(cString: strerror(errno)))") }
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
        while bytes.count < count {
            var chunk = [UInt8](repeating: 0, count: count - bytes.count)
            let got = Glibc.read(screen.number, &chunk, chunk.count)
            guard got > 0 else { break }
            bytes += chunk.prefix(got)
        }
        return bytes
    }
}

/// A real X server without a screen, on a number that is free. It ends with this value.
struct VirtualDisplay {
    let variables: [String: String]
    private let server: RunningProgram

    init() async throws {
        let environment = ["PATH": "/usr/bin:/bin"]
        let server = try SystemProgram.xvfb.start(
            ["-displayfd", "1", "-screen", "0", "320x240x8", "-nolisten", "tcp", "-noreset"], environment: environment,
            output: .pipe, errors: .file("/dev/null"))
        // It prints its number once it is ready.
        guard let number = try await onOwnThread({ server.output?.line() }) else {
            throw FixtureFailure("Xvfb ended before it was ready")
        }
        self.server = server
        variables = environment.merging(["DISPLAY": ":\(number)"]) { $1 }
    }
}

extension PrivateBus {
    /// Starts python-dbusmock's notification service.
    func startNotificationService() async throws -> RunningProgram {
        let service = try await start(.python, ["-m", "dbusmock", "--session", "--template", "notification_daemon"])
        try await wait(for: "org.freedesktop.Notifications")
        return service
    }

    /// The calls that the mock has received, in GVariant's text format.
    func notifyCalls() async throws -> String {
        try await call(
            "org.freedesktop.DBus.Mock.GetMethodCalls", at: "/org/freedesktop/Notifications",
            in: "org.freedesktop.Notifications", ["Notify"])
    }
}
