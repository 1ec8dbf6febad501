public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials

/// A notifier that uses the desktop's notification service, `org.freedesktop.Notifications`.
///
/// The adapter calls the service with busctl (systemd) or gdbus (GLib), whichever is installed. It never starts a bus.
///
/// Desktop Notifications Specification: <https://specifications.freedesktop.org/notification-spec/latest/>
public struct DBusNotifier: Notifier {
    private static let service = "org.freedesktop.Notifications"
    private static let path = "/org/freedesktop/Notifications"

    private let applicationName: String
    private let environment: DesktopEnvironment

    /// Creates a notifier.
    ///
    /// - Parameters:
    ///   - applicationName: The sender's name, as the desktop shows it. The default is the name of this process.
    ///   - environment: The environment with the session bus and the programs. The default is this process's.
    public init(applicationName: String? = nil, environment: DesktopEnvironment = .current) {
        self.applicationName = applicationName ?? ProcessInfo.processInfo.processName
        self.environment = environment
    }

    /// Shows `title` (at most 256 characters) and `body` (at most 1024), both as plain text. A longer text is cut off.
    ///
    /// - Throws: ``DesktopError`` if the session bus, the notification service or a program to call it is missing, or
    ///   if the service does not answer within 2 seconds. If the desktop shows nothing because the user does not want
    ///   to be disturbed, this is not an error.
    public func notify(title: String, body: String) async throws(DesktopError) {
        guard environment.hasSessionBus else { throw Self.failure("there is no desktop session bus here") }
        let name = Self.plain(applicationName, limit: 256)
        let title = Self.plain(title, limit: 256)
        let body = Self.escaped(Self.plain(body, limit: 1024))
        let process: ChildProcess
        if let program = environment.executable("busctl") {
            process = call(program, Self.busctlArguments(name, title, body))
        } else if let program = environment.executable("gdbus") {
            process = call(program, Self.gdbusArguments(name, title, body))
        } else {
            throw Self.failure("busctl and gdbus are missing. Install the package systemd or libglib2.0-bin")
        }
        switch await environment.run(process) {
        case .exited(code: 0, _), .exited(code: -1, _): return
        case .exited(_, let words): throw Self.failure(Self.firstLine(of: words))
        case .stillRunning: throw Self.failure("the notification service did not answer within 2 s")
        case .notStarted(let reason): throw Self.failure(reason)
        }
    }

    private func call(_ program: String, _ arguments: [String]) -> ChildProcess {
        ChildProcess(
            path: program, arguments: arguments, environment: environment.variables, limit: .seconds(2), atLimit: .kill)
    }

    /// Returns busctl's arguments. `Notify` takes the sender, the notification to replace, an icon, title, body,
    /// actions, hints, and a time in milliseconds (-1 for the server's default).
    private static func busctlArguments(_ name: String, _ title: String, _ body: String) -> [String] {
        [
            "--user", "--timeout=2", "--quiet", "call", "--", service, path, service, "Notify", "susssasa{sv}i", name,
            "0", "", title, body, "0", "0", "-1",
        ]
    }

    /// Returns gdbus's arguments, which are the same values in GVariant's text format.
    private static func gdbusArguments(_ name: String, _ title: String, _ body: String) -> [String] {
        [
            "call", "--session", "--timeout", "2", "--dest", service, "--object-path", path, "--method",
            "\(service).Notify", quoted(name), "uint32 0", "''", quoted(title), quoted(body), "@as []", "@a{sv} {}",
            "int32 -1",
        ]
    }

    private static func failure(_ reason: String) -> DesktopError {
        DesktopError("No notification was shown: \(reason).")
    }

    /// Returns the first line of a program's standard error, in a form that fits at the end of a sentence.
    private static func firstLine(of words: String) -> String {
        var text = plain(words.split(whereSeparator: \.isNewline).first.map(String.init) ?? "", limit: 200)
        while text.last == "." || text.last == " " { text.removeLast() }
        return text.isEmpty ? "the notification service refused" : text
    }

    /// Cuts off a text at `limit` characters and replaces control characters other than line breaks and tabs.
    private static func plain(_ text: String, limit: Int) -> String {
        UntrustedText.forTerminal(String(text.prefix(limit)))
    }

    /// Escapes markup characters, because text from outside must not become a link. Servers that understand markup show
    /// `&lt;` as `<`. A server without markup shows the escape, which is less harmful.
    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }

    /// Returns a string in GVariant's text format. Without quotes gdbus would read `true` or `[]` as another type.
    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: #"\\"#).replacing("'", with: #"\'"#).replacing("\n", with: #"\n"#) + "'"
    }
}
