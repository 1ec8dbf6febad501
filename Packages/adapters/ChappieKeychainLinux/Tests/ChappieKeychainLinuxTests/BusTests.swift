@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// The parts that need no bus: addresses, the meaning of errors, the kinds of bytes.
struct BusTests {
    @Test(
        arguments: [
            (["DBUS_SESSION_BUS_ADDRESS": "unix:path=/x/bus"], "unix:path=/x/bus"),
            (["DBUS_SESSION_BUS_ADDRESS": "unix:path=/x/bus", "XDG_RUNTIME_DIR": "/run/user/1"], "unix:path=/x/bus"),
            (["DBUS_SESSION_BUS_ADDRESS": "autolaunch:;unix:path=/x/bus"], "unix:path=/x/bus"),
            (["DBUS_SESSION_BUS_ADDRESS": "", "XDG_RUNTIME_DIR": "/run/user/1"], "unix:path=/run/user/1/bus"),
            (["XDG_RUNTIME_DIR": "/run/a b,c;d=é"], "unix:path=/run/a%20b%2cc%3bd%3d%c3%a9/bus"),
            // None that is running:
            ([:], nil), (["DBUS_SESSION_BUS_ADDRESS": ""], nil), (["DBUS_SESSION_BUS_ADDRESS": "autolaunch:"], nil),
            (["DBUS_SESSION_BUS_ADDRESS": "autolaunch:scope=*;autolaunch:"], nil), (["XDG_RUNTIME_DIR": "run"], nil),
        ] as [([String: String], String?)])
    func findsTheSessionBus(environment: [String: String], address: String?) async throws {
        if let address {
            #expect(try BusAddress.session(environment) { _ in true } == address)
        } else {
            await refusal("absent") { _ = try BusAddress.session(environment) { _ in true } }
        }
    }

    @Test func aMissingSocketIsNoBus() async {
        await refusal("absent") { _ = try BusAddress.session(["XDG_RUNTIME_DIR": "/nowhere"]) }
        #expect(BusAddress.system([:]) { _ in false } == nil)
        #expect(BusAddress.system([:]) { _ in true } == "unix:path=/var/run/dbus/system_bus_socket")
        #expect(BusAddress.system(["DBUS_SYSTEM_BUS_ADDRESS": "a"]) { _ in true } == "a")
    }

    // MARK: Errors

    private static let noService = CredentialStoreError.absent(
        "no keyring service (org.freedesktop.secrets) is on the session bus")

    /// Names of the D-Bus and the Secret Service specifications, numbers of GIO's.
    @Test(
        arguments: [
            ("Secret.Error.IsLocked", nil, false, .locked("the keyring service will not use it before it is unlocked")),
            ("Secret.Error.NoSuchObject", nil, false, .failed("words")),
            ("DBus.Error.ServiceUnknown", nil, false, noService), ("DBus.Error.NameHasNoOwner", nil, false, noService),
            ("DBus.Error.Spawn.ExecFailed", nil, false, .absent("the keyring service could not be started (words)")),
            ("DBus.Error.AccessDenied", nil, false, .denied("words")),
            ("DBus.Error.AuthFailed", nil, true, .denied("words")),
            ("DBus.Error.TimedOut", nil, false, .timedOut(.seconds(5))),
            ("DBus.Error.NoReply", nil, false, .failed("words")),
            (nil, 14, true, .denied("words")),
            (nil, 18, false, .failed("the session bus closed the connection")),
            (nil, 19, false, .denied("the prompt was dismissed")),
            (nil, 24, false, .timedOut(.seconds(5))),
            (nil, 1, true, .absent("the session bus can't be reached (words)")),
            (nil, 39, true, .absent("the session bus can't be reached (words)")),
            (nil, nil, false, .failed("words")),
        ] as [(String?, Int?, Bool, CredentialStoreError)])
    func anErrorHasOneMeaning(name: String?, ioCode: Int?, isConnecting: Bool, meaning: CredentialStoreError) {
        let fault = LibraryError(
            name: name.map { "org.freedesktop.\($0)" }, ioCode: ioCode, isConnecting: isConnecting, message: "words")
        #expect(fault.meaning(deadline: .seconds(5)) == meaning)
    }

    @Test(arguments: [
        ("Not allowed.", "Not allowed"), ("one\ntwo\r\nthree. ", "one two three"),
        ("bell \u{7} and escape \u{1B}[31m", "bell and escape [31m"), ("", "no reason given"),
        ("...", "no reason given"),
    ])
    func wordsFromOutsideBecomeOneLine(words: String, clean: String) {
        #expect(LibraryError.clean(words) == clean)
        #expect(LibraryError.clean(String(repeating: words + "x ", count: 1000)).count <= 300)
    }

    @Test func aMissingLibraryIsASentence() async {
        let error = await refusal("absent", saying: "libchappie-does-not-exist.so.0") {
            try SecretLibrary.open("libchappie-does-not-exist.so.0").get()
        }
        #expect(error?.errorDescription?.hasSuffix("Debian calls it libsecret-1-0.") == true)
    }

    @Test(
        arguments: [
            (Array(#"{"token":"ü"}"#.utf8), "application/json"),
            (Array("{\n}".utf8), "application/octet-stream"), (Array("text".utf8), "application/octet-stream"),
            ([0x7B, 0xFF], "application/octet-stream"), ([], "application/octet-stream"),
        ] as [([UInt8], String)])
    func onlyPlainJSONIsCalledJSON(bytes: [UInt8], type: String) {
        #expect(bytes.withUnsafeBufferPointer { CredentialItem.contentType(of: $0) } == type)
    }
}
