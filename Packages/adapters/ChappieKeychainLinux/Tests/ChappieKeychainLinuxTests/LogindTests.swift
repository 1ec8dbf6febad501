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
        // A session that has ended does not count.
        let gone = SessionLockState.noSession("the login manager has no lock for this session")
        #expect(try await logind.lock(["XDG_SESSION_ID": "c9"]).state() == gone)
    }

    private func refusing(_ error: String) -> String {
        "raise dbus.DBusException('no', name='org.freedesktop.login1.\(error)')"
    }

    @Test func findsTheSessionThatTheProgramRunsIn() async throws {
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        try await logind.setLocked(true, session: "c1")
        // As logind has it: 0 is the caller.
        try await logind.addMethod(
            "GetSessionByPID",
            code: "assert args[0] == 0; ret = dbus.ObjectPath('/org/freedesktop/login1/session/c1')")
        #expect(try await logind.lock([:]).state() == .locked)
        // A variable that names a session of the past does not keep it from looking.
        try await logind.addMethod("GetSession", takes: "s", code: refusing("NoSuchSession"))
        #expect(try await logind.lock(["XDG_SESSION_ID": "c0"]).state() == .locked)
    }

    @Test func `the display session is found for a program outside of sessions`() async throws {
        let logind = try await PrivateLogind()
        try await logind.addMethod("GetSessionByPID", code: refusing("NoSessionForPID"))
        try await logind.addMethod("GetUser", code: refusing("NoSuchUser"))
        #expect(try await logind.lock([:]).state() == outside)
        // The template's own method adds a number to a text.
        try await logind.addMethod(
            "GetUser", code: "ret = dbus.ObjectPath('/org/freedesktop/login1/user/' + str(args[0]))")
        try await logind.addSession("c1")
        #expect(try await logind.lock([:]).state() == outside)
        try await logind.setDisplay("c1")
        #expect(try await logind.lock([:]).state() == .unlocked)
        try await logind.setLocked(true, session: "c1")
        #expect(try await logind.lock([:]).state() == .locked)
    }

    // MARK: No service to ask

    @Test func withoutABusThatListensThereIsNoSession() async throws {
        let leftBehind = try SilentSocket(isListening: false)
        for address in ["unix:path=/tmp/chappie-no-such-bus", leftBehind.address] {
            let lock = LogindSessionLock(deadline: .seconds(60), busAddress: address)
            #expect(try await lock.state() == .noSession("there is no system bus"))
        }
    }

    @Test func withoutALoginManagerThereIsNoSession() async throws {
        let bus = try await PrivateBus()
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: bus.address)
        #expect(try await lock.state() == .noSession("there is no login manager on the system bus"))
        withExtendedLifetime(bus) {}
    }

    // MARK: A service that does not say

    private let lateAnswer = CredentialStoreError.sessionUnknown("it did not answer within 300 ms")

    @Test func aLoginManagerThatNeverAnswersTimesOut() async throws {
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        logind.process.signal(SIGSTOP)
        await inGoodTime {
            await #expect(throws: lateAnswer) {
                try await logind.lock(["XDG_SESSION_ID": "c1"], deadline: .milliseconds(300)).state()
            }
        }
        logind.process.signal(SIGCONT)
        #expect(try await logind.lock(["XDG_SESSION_ID": "c1"]).state() == .unlocked)
    }

    @Test func aBusThatNeverAnswersTimesOut() async throws {
        let socket = try SilentSocket()
        let lock = LogindSessionLock(deadline: .milliseconds(300), busAddress: socket.address)
        await #expect(throws: lateAnswer) { try await lock.state() }
        let words = [lateAnswer.errorDescription, lateAnswer.recoverySuggestion].compactMap(\.self)
        #expect(words.count == 2 && words.allSatisfy { $0.contains("logind") && !$0.contains("keyring") })
    }

    @Test func aCancelledQuestionEndsAtOnce() async throws {
        let socket = try SilentSocket()
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: socket.address)
        let task = Task { try await lock.state() }
        try await socket.waitForAConnection()
        await inGoodTime {
            task.cancel()
            await #expect(throws: CredentialStoreError.cancelled) { try await task.value }
        }
    }

    @Test func aLoginManagerThatMayNotBeAskedIsNamed() async throws {
        let bus = try await PrivateBus(rules: #"<deny send_destination="org.freedesktop.login1"/>"#)
        try await bus.startMock("logind", name: "org.freedesktop.login1")
        let lock = LogindSessionLock(deadline: .seconds(60), busAddress: bus.address)
        await refusal("sessionUnknown", saying: "logind does not say whether the screen is locked: ") {
            _ = try await lock.state()
        }
        withExtendedLifetime(bus) {}
    }

    @Test(arguments: [
        ("o", "ret = dbus.ObjectPath('/')"), ("s", "ret = 'not a path'"), ("", ""),
        ("o", "raise dbus.DBusException('words', name='org.example.Odd')"),
    ])
    func answersThatAreNoneNeverCountAsUnlocked(gives: String, code: String) async throws {
        let logind = try await PrivateLogind()
        try await logind.addMethod("GetSession", takes: "s", gives: gives, code: code)
        #expect((try? await logind.lock(["XDG_SESSION_ID": "c1"]).state()) != .unlocked)
    }
}
