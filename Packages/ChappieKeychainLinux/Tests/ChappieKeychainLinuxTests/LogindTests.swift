@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Whether the login session is locked, from python-dbusmock's logind.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct LogindTests {
    private let outside = SessionLockState.noSession("this program runs outside of a login session")

    @Test func seesThatTheSessionIsLockedAndUnlocked() async throws {
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        try await logind.addSession("c2")
        let lock = logind.lock(["XDG_SESSION_ID": "c2"])
        #expect(try await lock.state() == .unlocked)
        try await logind.setLocked(true, session: "c2")
        #expect(try await lock.state() == .locked)
        #expect(try await logind.lock(["XDG_SESSION_ID": "c1"]).state() == .unlocked)
        try await logind.setLocked(false, session: "c2")
        #expect(try await lock.state() == .unlocked)
    }

    @Test func findsTheSessionThatTheProgramRunsIn() async throws {
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        try await logind.setLocked(true, session: "c1")
        // As logind has it: 0 is the caller.
        try await logind.addMethod(
            "GetSessionByPID", takes: "u", gives: "o",
            code: "assert args[0] == 0; ret = dbus.ObjectPath('/org/freedesktop/login1/session/c1')")
        #expect(try await logind.lock([:]).state() == .locked)
        // A variable that names a session of the past does not keep it from looking.
        try await logind.addMethod(
            "GetSession", takes: "s", gives: "o",
            code: "raise dbus.DBusException('no', name='org.freedesktop.login1.NoSuchSession')")
        #expect(try await logind.lock(["XDG_SESSION_ID": "c0"]).state() == .locked)
    }

    @Test func findsTheDisplaySessionOfAProgramOutsideOfSessions() async throws {
        let logind = try await PrivateLogind()
        try await logind.addMethod(
            "GetSessionByPID", takes: "u", gives: "o",
            code: "raise dbus.DBusException('no', name='org.freedesktop.login1.NoSessionForPID')")
        try await logind.addMethod(
            "GetUser", takes: "u", gives: "o",
            code: "raise dbus.DBusException('no', name='org.freedesktop.login1.NoSuchUser')")
        #expect(try await logind.lock([:]).state() == outside)
        // The template's own method adds a number to a text.
        try await logind.addMethod(
            "GetUser", takes: "u", gives: "o",
            code: "ret = dbus.ObjectPath('/org/freedesktop/login1/user/' + str(args[0]))")
        try await logind.addSession("c1")
        #expect(try await logind.lock([:]).state() == outside)
        try await logind.setDisplay("c1")
        #expect(try await logind.lock([:]).state() == .unlocked)
        try await logind.setLocked(true, session: "c1")
        #expect(try await logind.lock([:]).state() == .locked)
    }

    @Test func aSessionThatHasGoneIsNone() async throws {
        let logind = try await PrivateLogind()
        #expect(
            try await logind.lock(["XDG_SESSION_ID": "c9"]).state()
                == .noSession("the login manager has no lock for this session"))
    }

    // MARK: No service to ask

    @Test func withoutABusThereIsNoSession() async throws {
        let state = SessionLockState.noSession("there is no system bus")
        let lock = LogindSessionLock(busAddress: "unix:path=/tmp/chappie-no-such-bus")
        #expect(try await lock.state() == state)
        #expect(BusAddress.system([:], isSocket: { _ in false }) == nil)
        #expect(
            BusAddress.system([:], isSocket: { _ in true })
                == "unix:path=/var/run/dbus/system_bus_socket")
        #expect(BusAddress.system(["DBUS_SYSTEM_BUS_ADDRESS": "a"], isSocket: { _ in true }) == "a")
    }

    @Test func aSocketThatNobodyListensToIsNoBus() async throws {
        let path = "/tmp/chappie-keyring-\(UUID().uuidString.prefix(8)).sock"
        try SilentSocket.leaveBehind(at: path)
        defer { unlink(path) }
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: "unix:path=\(path)")
        #expect(try await lock.state() == .noSession("there is no system bus"))
    }

    @Test func withoutALoginManagerThereIsNoSession() async throws {
        let bus = try await PrivateBus()
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: bus.address)
        #expect(try await lock.state() == .noSession("there is no login manager on the system bus"))
        withExtendedLifetime(bus) {}
    }

    // MARK: A service that does not say

    @Test func aLoginManagerThatNeverAnswersTimesOut() async throws {
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        logind.process.signal(SIGSTOP)
        let start = ContinuousClock.now
        await #expect(throws: CredentialStoreError.timedOut(.milliseconds(300))) {
            try await logind.lock(["XDG_SESSION_ID": "c1"], deadline: .milliseconds(300)).state()
        }
        #expect(ContinuousClock.now - start < Patience.limit)
        logind.process.signal(SIGCONT)
        #expect(try await logind.lock(["XDG_SESSION_ID": "c1"]).state() == .unlocked)
    }

    @Test func aBusThatNeverAnswersTimesOut() async throws {
        let socket = try SilentSocket()
        let lock = LogindSessionLock(deadline: .milliseconds(300), busAddress: "unix:path=\(socket.path)")
        await #expect(throws: CredentialStoreError.timedOut(.milliseconds(300))) { try await lock.state() }
    }

    @Test func aCancelledQuestionEndsAtOnce() async throws {
        let socket = try SilentSocket()
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: "unix:path=\(socket.path)")
        let task = Task { try await lock.state() }
        try await socket.waitForAConnection()
        let start = ContinuousClock.now
        task.cancel()
        await #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try await task.value }
        #expect(ContinuousClock.now - start < Patience.limit)
    }

    @Test func aLoginManagerThatMayNotBeAskedIsDenied() async throws {
        let bus = try await PrivateBus(rules: #"<deny send_destination="org.freedesktop.login1"/>"#)
        try await bus.startMock("logind", name: "org.freedesktop.login1")
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: bus.address)
        let error = await #expect(throws: CredentialStoreError.self) { try await lock.state() }
        guard case .denied(let detail) = error else {
            Issue.record("not denied: \(String(describing: error))")
            return
        }
        #expect(detail.hasPrefix("the login manager did not say whether the login session is locked ("))
        withExtendedLifetime(bus) {}
    }

    @Test(arguments: [
        ("GetSession", "o", "ret = dbus.ObjectPath('/')"),
        ("GetSession", "s", "ret = 'not a path'"),
        ("GetSession", "", ""),
        ("GetSession", "o", "raise dbus.DBusException('words', name='org.example.Odd')"),
    ])
    func answersThatAreNoneNeverCountAsUnlocked(method: String, gives: String, code: String) async throws {
        let logind = try await PrivateLogind()
        try await logind.addMethod(method, takes: "s", gives: gives, code: code)
        let state = try? await logind.lock(["XDG_SESSION_ID": "c1"]).state()
        #expect(state != .unlocked)
    }
}
