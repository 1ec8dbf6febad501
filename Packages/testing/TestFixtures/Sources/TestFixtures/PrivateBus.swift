import FoundationEssentials
import Synchronization

/// A D-Bus session bus of a test's own, with nothing on it and nothing that it could start.
public final class PrivateBus: Sendable {
    /// The folder of the bus and its programs.
    public let directory: TemporaryDirectory
    /// As in `DBUS_SESSION_BUS_ADDRESS`.
    public let address: String
    /// For programs that talk to this bus: nothing of the machine's own session is in it.
    public let environment: [String: String]
    private let programs = Mutex<[RunningProgram]>([])

    /// Returns when it listens.
    ///
    /// - Parameter rules: more rules for the bus's default policy, as dbus-daemon(1) has them.
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
        // The bus was started first and goes last.
        for program in programs.withLock({ $0 }).reversed() { program.end() }
    }

    /// Starts a program on this bus, which ends with it.
    ///
    /// - Parameters:
    ///   - variables: what its environment has beside ``environment``.
    ///   - marker: what a line has that it prints once it is ready; `nil` not to wait.
    @discardableResult
    public func start(
        _ program: SystemProgram, _ arguments: [String], variables: [String: String] = [:],
        input: ProgramInput = .nothing, readyAt marker: String? = nil
    ) async throws -> RunningProgram {
        // Kept out of the tests' own output; of interest only when a start fails.
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

    /// Waits until `name` is owned.
    public func wait(for name: String) async throws {
        try await SystemProgram.gdbus.run(["wait", "--session", "--timeout", "60", name], environment: environment)
    }

    /// Calls one method, with arguments as text of GVariant, and gives the answer as such.
    @discardableResult
    public func call(
        _ method: String, at path: String, in name: String, _ arguments: [String] = []
    ) async throws -> String {
        try await SystemProgram.gdbus.run(
            ["call", "--session", "--dest", name, "--object-path", path, "--method", method] + arguments,
            environment: environment)
    }
}
