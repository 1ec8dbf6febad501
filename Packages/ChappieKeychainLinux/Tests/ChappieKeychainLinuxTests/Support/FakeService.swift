import ChappieKeychainLinux
import Foundation
import TestFixtures

/// Tests/Fakes/secret_service_template.py in Debian's python-dbusmock, on a bus of its own.
struct FakeService {
    let bus: PrivateBus

    /// - Parameter parameters: The template's, as JSON.
    init(_ parameters: String) async throws {
        bus = try await PrivateBus()
        try await bus.start(
            .python,
            [
                "-m", "dbusmock", "--session", "--template",
                Fakes.path("secret_service_template.py"), "--parameters", parameters,
            ])
        try await bus.wait(for: "org.freedesktop.secrets")
    }

    var store: SecretServiceCredentialStore { .forTests(on: bus) }

    /// How often `method` of the prompt was called, in the mock's own account.
    func promptCalls(_ method: String) async throws -> Int {
        let calls = try await bus.call(
            "org.freedesktop.DBus.Mock.GetMethodCalls", at: "/org/freedesktop/secrets/prompt/p1",
            in: "org.freedesktop.secrets", method)
        return calls.components(separatedBy: "(uint64 ").count - 1
    }
}
