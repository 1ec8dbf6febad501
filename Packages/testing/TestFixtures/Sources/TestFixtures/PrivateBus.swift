import FoundationEssentials
import Synchronization

/// A separate D-Bus session bus for a test, with nothing on it and nothing that it could start.
public final class PrivateBus: Sendable {
    /// The folder of the bus and its programs.
    public let directory: TemporaryDirectory
    /// The address of the bus, as in `DBUS_SESSION_BUS_ADDRESS`.
    public let address: String
    /// The environment for programs that use this bus. It contains nothing of the machine's own session.
    public let environment: [String: String]
    private let programs = Mutex<[RunningProgram]>([])

    /// Creates a bus, and returns when it listens.
    ///
    /// - Parameter rules: additional rules for the bus's default policy, in the form of dbus-daemon(1).
    public init(rules: String = "") async throws {
        directory = try TemporaryDirectory(in: "/tmp")
        address = "unix:path=\(directory.path("bus"))"
        environment = [
            "DBUS_SESSION_BUS_ADDRESS": address,
            "HOME": directory.path, "XDG_RUNTIME_DIR": directory.path, "XDG_DATA_HOME": directory.path("data"),
            "XDG_CONFIG_HOME": directory.path("config"), "XDG_CACHE_HOME": directory.path("cache"),
            "TMPDIR": directory.path,
            "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
        ]
        let configuration = try directory.write(
            """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <type>session</type>
              <listen>\(address)</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
                <allow own="*"/>
                \(rules)
              </policy>
            </busconfig>
            """, to: "bus.conf")
        // The address is printed once the bus listens.
        try await start(
            .dbusDaemon, ["--nofork", "--nopidfile", "--print-address=1", "--config-file=\(configuration)"],
            readyAt: "unix:")
    }

    deinit {
        // The bus was the first program to start, and is the last one to end.
        for program in programs.withLock({ $0 }).reversed() { program.end() }
    }

    /// Starts a program on this bus. The program ends with the bus.
    ///
    /// - Parameters:
    ///   - variables: the variables of its environment in addition to ``environment``.
    ///   - marker: a part of the line that the program prints once it is ready, or `nil` not to wait.
    @discardableResult
    public func start(
        _ program: SystemProgram, _ arguments: [String], variables: [String: String] = [:],
        input: ProgramInput = .nothing, readyAt marker: String? = nil
    ) async throws -> RunningProgram {
        // The log is kept out of the tests' own output. It is of interest only when a start fails.
        let log = directory.path("\(UUID().uuidString.prefix(8)).log")
        let running = try program.start(
            arguments, environment: environment.merging(variables) { $1 }, input: input,
            output: marker == nil ? .file(log) : .pipe, errors: .file(log))
        programs.withLock { $0.append(running) }
        guard let marker else { return running }
        try await onOwnThread {
            while let line = running.output?.line() { if line.contains(marker) { return } }
            let words = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            throw FixtureFailure("\(program.name) did not start: \(words)")
        }
        return running
    }

    /// Waits until `name` has an owner.
    public func wait(for name: String) async throws {
        try await SystemProgram.gdbus.run(["wait", "--session", "--timeout", "60", name], environment: environment)
    }

    /// Calls one method with arguments as text of GVariant, and returns the answer in the same form.
    @discardableResult
    public func call(
        _ method: String, at path: String, in name: String, _ arguments: [String] = []
    ) async throws -> String {
        try await SystemProgram.gdbus.run(
            ["call", "--session", "--dest", name, "--object-path", path, "--method", method] + arguments,
            environment: environment)
    }
}
