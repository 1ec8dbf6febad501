import ChappieAuth
import Testing

@testable import ChappieKeychainLinux

struct SessionBusTests {
    @Test(arguments: [
        (["DBUS_SESSION_BUS_ADDRESS": "unix:path=/x/bus"], "unix:path=/x/bus"),
        (["DBUS_SESSION_BUS_ADDRESS": "unix:path=/x/bus", "XDG_RUNTIME_DIR": "/run/user/1"], "unix:path=/x/bus"),
        (["DBUS_SESSION_BUS_ADDRESS": "autolaunch:;unix:path=/x/bus"], "unix:path=/x/bus"),
        (["DBUS_SESSION_BUS_ADDRESS": "", "XDG_RUNTIME_DIR": "/run/user/1"], "unix:path=/run/user/1/bus"),
        (["XDG_RUNTIME_DIR": "/run/a b,c;d=é"], "unix:path=/run/a%20b%2cc%3bd%3d%c3%a9/bus"),
    ])
    func findsTheBus(environment: [String: String], address: String) throws {
        #expect(try SessionBus.address(environment: environment, isSocket: { _ in true }) == address)
    }

    @Test(arguments: [
        [:],
        ["DBUS_SESSION_BUS_ADDRESS": ""],
        ["DBUS_SESSION_BUS_ADDRESS": "autolaunch:"],
        ["DBUS_SESSION_BUS_ADDRESS": "autolaunch:scope=*;autolaunch:"],
        ["XDG_RUNTIME_DIR": "run/user/1"],
    ])
    func isAbsentWithoutARunningBus(environment: [String: String]) throws {
        let error = #expect(throws: CredentialStoreError.self) {
            try SessionBus.address(environment: environment, isSocket: { _ in true })
        }
        guard case .absent = error else {
            Issue.record("not absent: \(String(describing: error))")
            return
        }
    }

    @Test func aMissingSocketIsNoBus() {
        #expect(throws: CredentialStoreError.self) {
            try SessionBus.address(environment: ["XDG_RUNTIME_DIR": "/nowhere"], isSocket: SessionBus.isSocket)
        }
    }
}
