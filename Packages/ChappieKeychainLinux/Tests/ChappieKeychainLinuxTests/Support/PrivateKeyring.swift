import ChappieKeychainLinux
import ChappieTesting
import Foundation
import TestFixtures

/// The real gnome-keyring on a bus of its own.
struct PrivateKeyring {
    let bus: PrivateBus
    let daemon: RunningProgram

    /// - Parameter isUnlocked: With a password, the keyring "login" is made and open; without, there is no keyring.
    init(on bus: PrivateBus? = nil, isUnlocked: Bool = true) async throws {
        let bus = if let bus { bus } else { try await PrivateBus() }
        self.bus = bus
        var arguments = ["--foreground", "--components=secrets", "--control-directory=\(bus.directory.path)/control"]
        if isUnlocked { arguments.append("--unlock") }
        daemon = try await bus.start(.keyringDaemon, arguments, input: .text(Self.password))
        try await bus.wait(for: "org.freedesktop.secrets")
    }

    /// What the keyring "login" is opened with.
    static let password = "correct horse battery staple"

    var store: SecretServiceCredentialStore { .forTests(on: bus) }

    func lock() async throws {
        try await bus.call(
            "org.freedesktop.Secret.Service.Lock", at: "/org/freedesktop/secrets", in: "org.freedesktop.secrets",
            "[objectpath '/org/freedesktop/secrets/collection/login']")
    }

    /// Puts a prompter on the bus that answers with `password`, and cancels when that is not enough.
    func answerPrompts(with password: String) async throws {
        try await bus.start(
            .python, [Fakes.path("keyring_prompter.py"), password], readyAt: "ready")
    }
}
