import Foundation
import Synchronization

/// A session bus of a test's own, in a folder of its own, with nothing on it and nothing that it could start.
final class PrivateBus: Sendable {
    let folder: URL
    let address: String
    /// For programs that talk to this bus: nothing of the machine's own session is in it.
    let environment: [String: String]
    private let processes = Mutex<[Process]>([])

    /// - Parameter rules: more rules for the bus's default policy, as dbus-daemon(1) has them.
    init(rules: String = "") async throws {
        // Short: the path of a socket has 107 bytes at most.
        folder = URL(fileURLWithPath: "/tmp/chappie-keyring-\(UUID().uuidString.prefix(8))")
        address = "unix:path=\(folder.path)/bus"
        environment = [
            "DBUS_SESSION_BUS_ADDRESS": address,
            "HOME": folder.path, "XDG_RUNTIME_DIR": folder.path, "XDG_DATA_HOME": folder.path + "/data",
            "XDG_CONFIG_HOME": folder.path + "/config", "XDG_CACHE_HOME": folder.path + "/cache",
            "TMPDIR": folder.path,
            "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin", "LC_ALL": "C.UTF-8",
        ]
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let configuration = folder.appendingPathComponent("bus.conf")
        try Data(
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
            """.utf8
        ).write(to: configuration)
        // The address is printed once the bus listens.
        try await start(
            .dbusDaemon, ["--nofork", "--nopidfile", "--print-address=1", "--config-file=\(configuration.path)"],
            readyAt: "unix:")
    }

    deinit {
        // The bus was started first and goes last. Nobody waits for them: SIGKILL is not to be put off.
        for process in processes.withLock({ $0 }).reversed() { kill(process.processIdentifier, SIGKILL) }
        try? FileManager.default.removeItem(at: folder)
    }

    /// Starts a program on this bus, which ends with it.
    ///
    /// - Parameters:
    ///   - variables: What its environment has beside ``environment``.
    ///   - input: What it reads from its standard input.
    ///   - marker: What it prints once it is ready; `nil` not to wait.
    @discardableResult
    func start(
        _ tool: Tool, _ arguments: [String], variables: [String: String] = [:], input: String = "",
        readyAt marker: String? = nil
    ) async throws -> Process {
        try await onAThreadOfItsOwn { [self] in
            // Kept out of the tests' own output; of interest only when a start fails.
            let log = folder.appendingPathComponent("\(UUID().uuidString.prefix(8)).log")
            try Data().write(to: log)
            let launch = try Launch(
                tool, arguments, environment: environment.merging(variables) { $1 }, input: input,
                errors: FileHandle(forWritingTo: log))
            processes.withLock { $0.append(launch.process) }
            guard let marker else { return launch.process }
            var text = ""
            while !text.contains(marker) {
                let more = launch.output.availableData
                guard !more.isEmpty else {
                    let words = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
                    throw Tool.Failed(description: "\(tool.rawValue) did not start: \(text)\(words)")
                }
                text += String(decoding: more, as: UTF8.self)
            }
            return launch.process
        }
    }

    /// Waits until `name` is owned.
    func wait(for name: String) async throws {
        try await Tool.gdbus.run(["wait", "--session", "--timeout", "60", name], environment: environment)
    }

    /// Calls one method, with arguments as text of GVariant, and gives the answer as such.
    @discardableResult
    func call(_ method: String, at path: String, in name: String, _ arguments: String...) async throws -> String {
        try await Tool.gdbus.run(
            ["call", "--session", "--dest", name, "--object-path", path, "--method", method] + arguments,
            environment: environment)
    }

    /// Where the test's own programs lie.
    static let fakes = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Fakes")
}
