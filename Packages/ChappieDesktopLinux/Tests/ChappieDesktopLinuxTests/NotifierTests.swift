import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct NotifierTests {
    private static let bus = ["DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"]
    private static let busctl = "/usr/bin/busctl"
    private static let gdbus = "/usr/bin/gdbus"
    private static let onBus = [SystemProgram.dbusDaemon, .gdbus, .busctl, .python]

    @Test(
        arguments: [
            (bus, [busctl, gdbus], busctl),
            (bus, [gdbus], gdbus),
            (["XDG_RUNTIME_DIR": "/run/user/1000"], [busctl], busctl),
        ] as [([String: String], [String], String)])
    func takesTheProgramThatIsThere(variables: [String: String], programs: [String], program: String) async throws {
        let scene = Scene(variables, programs: Set(programs), sockets: ["/run/user/1000/bus"])
        try await DBusNotifier(environment: scene.environment).notify(title: "Title", body: "Body")
        #expect(scene.processes.map(\.path) == [program])
        #expect(scene.processes.map(\.limit) == [.seconds(2)])
        #expect(scene.processes.map(\.atLimit) == [.kill])
    }

    @Test(
        arguments: [
            ([:], [busctl], "there is no desktop session bus here"),
            (["DBUS_SESSION_BUS_ADDRESS": "autolaunch:"], [busctl], "there is no desktop session bus here"),
            (["XDG_RUNTIME_DIR": "/run/user/1000"], [busctl], "there is no desktop session bus here"),
            (bus, [], "Install the package systemd or libglib2.0-bin"),
        ] as [([String: String], [String], String)])
    func whatIsMissingIsASentence(variables: [String: String], programs: [String], words: String) async {
        let scene = Scene(variables, programs: Set(programs))
        let error = await #expect(throws: DesktopError.self) {
            try await DBusNotifier(environment: scene.environment).notify(title: "Title", body: "Body")
        }
        #expect(error?.sentence.contains(words) == true)
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
            try await DBusNotifier(environment: scene.environment).notify(title: "Title", body: "Body")
        }
    }

    @Test func textIsPlainAndBounded() {
        let notification = DesktopNotification(
            applicationName: "Chappie", title: "a\u{0}b\tc<i>", body: "1 < 2 & <a href='x'>y</a>\nend")
        #expect(notification.title == "a\u{FFFD}b\tc<i>")
        #expect(notification.body == "1 &lt; 2 &amp; &lt;a href='x'&gt;y&lt;/a&gt;\nend")
        let long = DesktopNotification(
            applicationName: "", title: String(repeating: "t", count: 1000), body: String(repeating: "b", count: 9999))
        #expect(long.title.count == 256)
        #expect(long.body.count == 1024)
    }

    // MARK: Real programs, a real bus

    @Test(.enabled(if: onBus.areUsable, "\(onBus.absence)"), arguments: [SystemProgram.busctl, .gdbus])
    func theServiceIsAskedToShowIt(program: SystemProgram) async throws {
        let bus = try await PrivateBus()
        let service = try await bus.startNotificationService()
        let notifier = DBusNotifier(environment: try environment(of: bus, with: program))
        try await notifier.notify(title: #"--ChatGPT 'Linked'! "ü" \ 🔑"#, body: "Return to the app\n[]")
        let calls = try await bus.notifyCalls()
        #expect(calls.contains("'Chappie'"), "\(calls)")
        #expect(calls.contains(#"--ChatGPT 'Linked'! \"ü\" \\ 🔑"#), "\(calls)")
        #expect(calls.contains(#"Return to the app\n[]"#), "\(calls)")
        withExtendedLifetime(service) {}
    }

    @Test(.enabled(if: onBus.areUsable, "\(onBus.absence)"), arguments: [SystemProgram.busctl, .gdbus])
    func aBusWithoutTheServiceIsASentence(program: SystemProgram) async throws {
        let bus = try await PrivateBus()
        let notifier = DBusNotifier(environment: try environment(of: bus, with: program))
        let error = await #expect(throws: DesktopError.self) { try await notifier.notify(title: "a", body: "b") }
        #expect(error?.sentence.hasPrefix("No notification was shown: ") == true)
        #expect(error?.sentence.contains("org.freedesktop.Notifications") == true, "\(String(describing: error))")
    }

    @Test(.enabled(if: onBus.areUsable, "\(onBus.absence)")) func aServiceThatNeverAnswersIsASentenceInTime()
        async throws
    {
        let bus = try await PrivateBus()
        let service = try await bus.startNotificationService()
        service.signal(SIGSTOP)
        let notifier = DBusNotifier(environment: try environment(of: bus, with: .busctl))
        let start = ContinuousClock.now
        let error = await #expect(throws: DesktopError.self) { try await notifier.notify(title: "a", body: "b") }
        #expect(error?.sentence.hasPrefix("No notification was shown: ") == true)
        #expect(ContinuousClock.now - start < Patience.limit)
    }

    /// Only `program` can be found.
    private func environment(of bus: PrivateBus, with program: SystemProgram) throws -> DesktopEnvironment {
        let path = try program.path()
        let machine = DesktopEnvironment(variables: bus.environment)
        return DesktopEnvironment(
            variables: machine.variables, isExecutable: { $0 == path }, isSocket: machine.isSocket, run: machine.run,
            writeToTerminal: { _ in false })
    }
}
