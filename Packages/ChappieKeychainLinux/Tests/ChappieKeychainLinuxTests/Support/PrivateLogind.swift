import Foundation
import TestFixtures

@testable import ChappieKeychainLinux

/// logind as python-dbusmock's own template has it, on a bus of its own.
struct PrivateLogind {
    let bus: PrivateBus
    let process: RunningProgram

    private static let name = "org.freedesktop.login1"
    private static let manager = "/org/freedesktop/login1"
    private static let mock = "org.freedesktop.DBus.Mock"

    init() async throws {
        bus = try await PrivateBus()
        process = try await bus.start(.python, ["-m", "dbusmock", "--session", "--template", "logind"])
        try await bus.wait(for: Self.name)
    }

    /// - Parameter environment: What the program that asks has in its environment.
    func lock(_ environment: [String: String], deadline: Duration = .seconds(60)) -> LogindSessionLock {
        LogindSessionLock(deadline: deadline, busAddress: bus.address) { environment }
    }

    func addSession(_ id: String) async throws {
        try await bus.call(
            "\(Self.mock).AddSession", at: Self.manager, in: Self.name, id, "seat0", "\(getuid())", "person", "true")
    }

    func setLocked(_ isLocked: Bool, session id: String) async throws {
        try await bus.call(
            "\(Self.name).Session.SetLockedHint", at: "\(Self.manager)/session/\(id)", in: Self.name, "\(isLocked)")
    }

    /// Adds a method of the manager that the template does not have.
    func addMethod(_ name: String, takes: String, gives: String, code: String) async throws {
        try await bus.call(
            "\(Self.mock).AddMethod", at: Self.manager, in: Self.name, "\(Self.name).Manager", name, takes, gives, code)
    }

    /// Makes a session the user's display.
    func setDisplay(_ id: String) async throws {
        try await bus.call(
            "org.freedesktop.DBus.Properties.Set", at: "\(Self.manager)/user/\(getuid())", in: Self.name,
            "\(Self.name).User", "Display", "<('\(id)', objectpath '\(Self.manager)/session/\(id)')>")
    }
}
