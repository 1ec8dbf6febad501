import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct NotifierTests {
    private static let bus = ["DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"]
    private static let runtime = ["XDG_RUNTIME_DIR": "/run/user/1000"]
    private static let busctl = "/usr/bin/busctl"
    private static let gdbus = "/usr/bin/gdbus"
    private static let onBus = [SystemProgram.dbusDaemon, .gdbus, .busctl, .python]

    @Test(
        arguments: [(bus, [busctl, gdbus], busctl), (bus, [gdbus], gdbus), (runtime, [busctl], busctl)]
            as [([String: String], [String], String)])
    func takesTheProgramThatIsThere(variables: [String: String], programs: [String], program: String) async throws {
        let scene = Scene(variables, programs: programs, sockets: ["/run/user/1000/bus"])
        try await notify(with: scene.environment)
        #expect(scene.processes.map(\.path) == [program])
        #expect(scene.processes.map(\.limit) == [.seconds(2)])
        #expect(scene.processes.map(\.atLimit) == [.kill])
    }

    private static let noBus = "there is no desktop session bus here"

    @Test(
        arguments: [
            ([:], [busctl], noBus), (["DBUS_SESSION_BUS_ADDRESS": "autolaunch:"], [busctl], noBus),
            (runtime, [busctl], noBus), (bus, [], "Install the package systemd or libglib2.0-bin"),
        ] as [([String: String], [String], String)])
    func whatIsMissingIsASentence(variables: [String: String], programs: [String], words: String) async {
        let scene = Scene(variables, programs: programs)
        await refusal("", saying: words) { try await notify(with: scene.environment) }
        #expect(scene.processes.isEmpty)
    }

    @Test(
        arguments: [
            (.exited(code: 1, words: "Call failed: No such service.\nmore"), "Call failed: No such service."),
            (.exited(code: 1, words: ""), "the notification service refused."),
            (.exited(code: 1, words: "\u{1B}[31mred\u{7}"), "\u{FFFD}[31mred\u{FFFD}."),
            (.stillRunning, "the notification service did not answer within 2 s."),
            (.notStarted("Permission denied"), "Permission denied."),
        ] as [(ChildOutcome, String)])
    func aFailureIsASentence(outcome: ChildOutcome, words: String) async {
        let scene = Scene(Self.bus, programs: [Self.busctl], outcomes: [Self.busctl: outcome])
        await #expect(throws: DesktopError("No notification was shown: \(words)")) {
            try await notify(with: scene.environment)
        }
    }

    @Test(arguments: [
        (
            "a\u{0}b\tc<i>", "1 < 2 & <a href='x'>y</a>", "a\u{FFFD}b\tc<i>",
            "1 &lt; 2 &amp; &lt;a href='x'&gt;y&lt;/a&gt;"
        ),
        (
            String(repeating: "t", count: 1000), String(repeating: "b", count: 9999),
            String(repeating: "t", count: 256), String(repeating: "b", count: 1024)
        ),
    ])
    func textIsPlainAndBounded(title: String, body: String, plainTitle: String, plainBody: String) async throws {
        let scene = Scene(Self.bus, programs: [Self.busctl])
        try await DBusNotifier(environment: scene.environment).notify(title: title, body: body)
        #expect(scene.processes.first?.arguments.suffix(5).prefix(2) == [plainTitle, plainBody])
        #expect(scene.processes.first?.arguments.contains(ProcessInfo.processInfo.processName) == true)
    }

    // MARK: Real programs, a real bus

    @Test(.enabled(if: onBus.areUsable, "\(onBus.absence)"), arguments: [SystemProgram.busctl, .gdbus])
    func theServiceIsAskedToShowIt(program: SystemProgram) async throws {
        let bus = try await PrivateBus()
        let notifier = DBusNotifier(
            applicationName: "Host Program", environment: try environment(of: bus, with: program))
        await refusal("DesktopError", saying: "org.freedesktop.Notifications") {
            try await notifier.notify(title: "a", body: "b")
        }
        try await startService(on: bus)
        try await notifier.notify(title: #"--ChatGPT 'Linked'! "ü" \ 🔑"#, body: "Return to the app\n[]")
        let calls = try await bus.call(
            "org.freedesktop.DBus.Mock.GetMethodCalls", at: "/org/freedesktop/Notifications",
            in: "org.freedesktop.Notifications", ["Notify"])
        for part in ["'Host Program'", #"--ChatGPT 'Linked'! \"ü\" \\ 🔑"#, #"Return to the app\n[]"#] {
            #expect(calls.contains(part), "\(calls)")
        }
    }

    @Test(.enabled(if: onBus.areUsable, "\(onBus.absence)"))
    func `a service that never answers causes an error message in time`() async throws {
        let bus = try await PrivateBus()
        try await startService(on: bus).signal(SIGSTOP)
        let environment = try environment(of: bus, with: .busctl)
        await inGoodTime {
            await refusal("", saying: "No notification was shown: ") { try await notify(with: environment) }
        }
    }

    private func notify(with environment: DesktopEnvironment) async throws {
        try await DBusNotifier(environment: environment).notify(title: "Title", body: "Body")
    }

    /// python-dbusmock's notification service.
    @discardableResult
    private func startService(on bus: PrivateBus) async throws -> RunningProgram {
        let service = try await bus.start(
            .python, ["-m", "dbusmock", "--session", "--template", "notification_daemon"])
        try await bus.wait(for: "org.freedesktop.Notifications")
        return service
    }

    /// Only `program` can be found.
    private func environment(of bus: PrivateBus, with program: SystemProgram) throws -> DesktopEnvironment {
        let path = try program.path()
        var environment = DesktopEnvironment(variables: bus.environment)
        environment.isExecutable = { $0 == path }
        return environment
    }
}
