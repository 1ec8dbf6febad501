@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

extension SystemProgram {
    static let keyringDaemon = SystemProgram("gnome-keyring-daemon", packages: "gnome-keyring")
    static let secretTool = SystemProgram("secret-tool", packages: "libsecret-tools")
    static let keePassXC = SystemProgram("keepassxc", packages: "keepassxc")
    static let keePassXCTool = SystemProgram("keepassxc-cli", packages: "keepassxc")
    /// The programs that tests with a private bus take.
    static let keyrings = [dbusDaemon, gdbus, keyringDaemon, secretTool, python]
    static let kwallet = SystemProgram("kwalletd5", packages: "libkf5wallet-bin libqca-qt5-2-plugins")
    static let kwallets = [dbusDaemon, gdbus, python, kwallet]
    static let keePassXCs = [dbusDaemon, gdbus, secretTool, keePassXC, keePassXCTool]
}

extension SecretServiceCredentialStore {
    /// A store on the bus at `address` that does not ask the machine's own logind. The deadlines are for a machine under
    /// load.
    static func forTests(
        on address: String, readDeadline: Duration = .seconds(60), writeDeadline: Duration = .seconds(60),
        unlocking: Unlocking = .never,
        accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        sessionLock: any SessionLock = ManualSessionLock(), environment: [String: String] = [:]
    ) -> SecretServiceCredentialStore {
        SecretServiceCredentialStore(
            files: NoCredentialLock(), readDeadline: readDeadline, writeDeadline: writeDeadline, unlocking: unlocking,
            accessibility: accessibility, sessionLock: sessionLock, busAddress: address
        ) { environment }
    }
}

extension CredentialStoreError {
    static let isLocked = locked("it has to be unlocked before it can be used")
}

extension PrivateBus {
    /// The items with this attribute as secret-tool, another client, shows them: a line for everything about each.
    func searchSecrets(_ attribute: String, _ value: String) async throws -> [String] {
        // It prints some of the lines to its standard error.
        try await SystemProgram.secretTool.run(
            ["search", "--all", attribute, value], environment: environment, withErrors: true
        ).split(separator: "\n").map(String.init)
    }

    /// Calls a method of the keyring service, the service's own object if no other is named.
    @discardableResult
    func callSecrets(
        _ method: String, at path: String = "/org/freedesktop/secrets", _ arguments: String...
    ) async throws -> String {
        try await call(method, at: path, in: "org.freedesktop.secrets", arguments)
    }

    /// The connections of the bus, including the connection that asks.
    func connections() async throws -> [Substring] {
        try await call("org.freedesktop.DBus.ListNames", at: "/org/freedesktop/DBus", in: "org.freedesktop.DBus")
            .split(separator: "'").filter { $0.hasPrefix(":") }
    }

    /// Starts a service of the tests, from Tests/Fakes, or a template of python-dbusmock.
    @discardableResult
    func startMock(_ template: String, _ parameters: [String] = [], name: String) async throws -> RunningProgram {
        let program = try await start(
            .python, ["-m", "dbusmock", "--session", "--template", template] + parameters)
        try await wait(for: name)
        return program
    }
}

private func fake(_ name: String) -> String {
    URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().path + "/Fakes/\(name)"
}

/// The real gnome-keyring on a bus of its own.
struct PrivateKeyring {
    /// The password of the keyring "login".
    static let password = "correct horse battery staple"

    let bus: PrivateBus
    let daemon: RunningProgram

    /// - Parameter isUnlocked: With a password, the keyring "login" is created and open. Without, the service has no keyring.
    init(on bus: PrivateBus? = nil, isUnlocked: Bool = true) async throws {
        let bus = if let bus { bus } else { try await PrivateBus() }
        self.bus = bus
        var arguments = ["--foreground", "--components=secrets", "--control-directory=\(bus.directory.path)/control"]
        if isUnlocked { arguments.append("--unlock") }
        daemon = try await bus.start(.keyringDaemon, arguments, input: .text(Self.password))
        try await bus.wait(for: "org.freedesktop.secrets")
    }

    var store: SecretServiceCredentialStore { .forTests(on: bus.address) }

    func lock() async throws {
        try await bus.callSecrets(
            "org.freedesktop.Secret.Service.Lock", "[objectpath '/org/freedesktop/secrets/collection/login']")
    }

    /// Puts a prompter on the bus that answers with `password`, and cancels when that is not enough.
    func answerPrompts(with password: String) async throws {
        try await bus.start(.python, [fake("keyring_prompter.py"), password], readyAt: "ready")
    }
}

/// Tests/Fakes/secret_service_template.py in Debian's python-dbusmock, on a bus of its own.
struct FakeService {
    let bus: PrivateBus

    /// - Parameter parameters: The template's, as JSON.
    init(_ parameters: String) async throws {
        bus = try await PrivateBus()
        try await bus.startMock(
            fake("secret_service_template.py"), ["--parameters", parameters], name: "org.freedesktop.secrets")
    }

    var store: SecretServiceCredentialStore { .forTests(on: bus.address) }

    /// How often `method` of the prompt was called, in the mock's own account.
    func promptCalls(_ method: String) async throws -> Int {
        let path = "/org/freedesktop/secrets/prompt/p1"
        let calls = try await bus.callSecrets("org.freedesktop.DBus.Mock.GetMethodCalls", at: path, method)
        // Only the first entry names the type of its time.
        return calls.contains("(uint64 ") ? calls.components(separatedBy: "), (").count : 0
    }
}

/// The real KWallet, without a screen, on a bus of its own.
struct PrivateKWallet {
    let bus: PrivateBus
    private let process: RunningProgram

    /// - Parameters:
    ///   - isOpen: Whether the wallet is open from the start, as after a login on the desktop.
    ///   - settings: The user's, in KDE's form.
    init(isOpen: Bool = true, settings: String = "") async throws {
        bus = try await PrivateBus()
        try FileManager.default.createDirectory(
            atPath: bus.directory.path("config"), withIntermediateDirectories: true)
        _ = try bus.directory.write("[Wallet]\nFirst Use=false\n\(settings)\n", to: "config/kwalletrc")
        process = try await bus.start(
            .python, [fake("kwallet.py"), isOpen ? "open" : "closed"],
            variables: ["QT_QPA_PLATFORM": "offscreen"], readyAt: "ready")
        try await bus.wait(for: "org.freedesktop.secrets")
    }

    var store: SecretServiceCredentialStore { .forTests(on: bus.address, environment: bus.environment) }

    /// Whether KWallet says that its wallet is locked.
    func isLocked() async throws -> Bool {
        try await bus.callSecrets(
            "org.freedesktop.DBus.Properties.Get", at: "/org/freedesktop/secrets/collection/kdewallet",
            "org.freedesktop.Secret.Collection", "Locked"
        ).contains("true")
    }

    /// Whether KWallet has shown a window, which it does not do without a complaint about its parent.
    func hasShownAWindow() throws -> Bool {
        try FileManager.default.contentsOfDirectory(atPath: bus.directory.path("")).filter { $0.hasSuffix(".log") }
            .contains { try bus.directory.read($0).contains("without parent window") }
    }
}

/// logind as python-dbusmock's own template has it, on a bus of its own.
struct PrivateLogind {
    let bus: PrivateBus
    let process: RunningProgram

    private static let name = "org.freedesktop.login1"

    init() async throws {
        bus = try await PrivateBus()
        process = try await bus.startMock("logind", name: Self.name)
    }

    /// - Parameter environment: The environment of the program that asks.
    func lock(_ environment: [String: String], deadline: Duration = .seconds(60)) -> LogindSessionLock {
        LogindSessionLock(deadline: deadline, busAddress: bus.address) { environment }
    }

    private func call(_ method: String, at path: String = "", _ arguments: String...) async throws {
        try await bus.call(method, at: "/org/freedesktop/login1" + path, in: Self.name, arguments)
    }

    func addSession(_ id: String) async throws {
        try await call("org.freedesktop.DBus.Mock.AddSession", id, "seat0", "\(getuid())", "person", "true")
    }

    func setLocked(_ isLocked: Bool, session id: String) async throws {
        try await call("\(Self.name).Session.SetLockedHint", at: "/session/\(id)", "\(isLocked)")
    }

    /// Adds a method of the manager that the template does not have.
    func addMethod(_ name: String, takes: String = "u", gives: String = "o", code: String) async throws {
        try await call("org.freedesktop.DBus.Mock.AddMethod", "\(Self.name).Manager", name, takes, gives, code)
    }

    /// Makes a session the user's display.
    func setDisplay(_ id: String) async throws {
        try await call(
            "org.freedesktop.DBus.Properties.Set", at: "/user/\(getuid())", "\(Self.name).User", "Display",
            "<('\(id)', objectpath '/org/freedesktop/login1/session/\(id)')>")
    }
}

/// A Unix socket that takes connections and never says a word.
final class SilentSocket {
    let path = "/tmp/chappie-keyring-\(UUID().uuidString.prefix(8)).sock"
    private let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)

    /// - Parameter isListening: without, the socket is as a server that was killed leaves it.
    init(isListening: Bool = true) throws {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isBound, !isListening || listen(descriptor, 4) == 0 else {
            throw FixtureFailure("can't listen on \(path): \(String(cString: strerror(errno)))")
        }
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    var address: String { "unix:path=\(path)" }

    /// Waits on a separate thread: Swift has few threads for tasks, and the call that connects needs one.
    func waitForAConnection() async throws {
        let isConnected = try await onOwnThread { [descriptor] in
            var listening = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            return poll(&listening, 1, 60_000) == 1
        }
        guard isConnected else { throw FixtureFailure("no client connected to \(path)") }
    }
}
