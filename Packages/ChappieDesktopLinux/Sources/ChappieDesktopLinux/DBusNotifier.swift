public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// Shows notifications through the desktop's notification service, `org.freedesktop.Notifications`.
///
/// It is asked with busctl (systemd) or gdbus (GLib), whichever is there. A bus is never started for it.
///
/// Desktop Notifications Specification: <https://specifications.freedesktop.org/notification-spec/latest/>
public struct DBusNotifier: Notifier {
    private let applicationName: String
    private let environment: DesktopEnvironment

    /// - Parameters:
    ///   - applicationName: The sender's name, as the desktop shows it. Default `Chappie`.
    ///   - environment: Where it looks for the session bus and for programs. Default: this process's.
    public init(applicationName: String = "Chappie", environment: DesktopEnvironment = .current) {
        self.applicationName = applicationName
        self.environment = environment
    }

    /// Shows `title` (256 characters at most) and `body` (1024), both plain text; what is longer is cut.
    ///
    /// - Throws: ``DesktopError`` when there is no session bus, no notification service or no program to ask it with,
    ///   and when it does not answer within 2 seconds. A desktop that shows nothing, because the user does not want
    ///   to be disturbed, is not an error.
    public func notify(title: String, body: String) async throws(DesktopError) {
        guard environment.hasSessionBus else { throw Self.failure("there is no desktop session bus here") }
        let notification = DesktopNotification(applicationName: applicationName, title: title, body: body)
        let command: (path: String, arguments: [String])
        if let program = environment.executable("busctl") {
            command = (program, notification.busctlArguments)
        } else if let program = environment.executable("gdbus") {
            command = (program, notification.gdbusArguments)
        } else {
            throw Self.failure("busctl and gdbus are missing. Install the package systemd or libglib2.0-bin")
        }
        let process = ChildProcess(
            path: command.path, arguments: command.arguments, environment: environment.variables, limit: .seconds(2),
            atLimit: .kill)
        switch await environment.run(process) {
        case .exited(code: 0, _), .exited(code: -1, _): return
        case .exited(_, let words): throw Self.failure(Self.firstLine(of: words))
        case .stillRunning: throw Self.failure("the notification service did not answer within 2 s")
        case .notStarted(let reason): throw Self.failure(reason)
        }
    }

    private static func failure(_ reason: String) -> DesktopError {
        DesktopError("No notification was shown: \(reason).")
    }

    /// A program's words as the end of a sentence.
    private static func firstLine(of words: String) -> String {
        let line = words.split(whereSeparator: \.isNewline).first.map { String($0.prefix(200)) } ?? ""
        var text = UntrustedText.forTerminal(line)
        while text.last == "." || text.last == " " { text.removeLast() }
        return text.isEmpty ? "the notification service refused" : text
    }
}

/// One notification, as arguments of two programs.
struct DesktopNotification: Hashable {
    let applicationName: String
    let title: String
    /// With markup characters escaped: servers that understand markup show `&lt;` as `<`, and text from outside must
    /// not become a link. A server without markup shows the escape, which is the lesser evil.
    let body: String

    /// Control characters other than line breaks and tabs are replaced.
    init(applicationName: String, title: String, body: String) {
        self.applicationName = UntrustedText.forTerminal(String(applicationName.prefix(256)))
        self.title = UntrustedText.forTerminal(String(title.prefix(256)))
        self.body = Self.escaped(UntrustedText.forTerminal(String(body.prefix(1024))))
    }

    /// `Notify` takes the sender, the notification to replace, an icon, title, body, actions, hints, and a time in
    /// milliseconds, -1 for the server's own.
    var busctlArguments: [String] {
        [
            "--user", "--timeout=2", "--quiet", "call", "--", Self.service, Self.path, Self.service, "Notify",
            "susssasa{sv}i", applicationName, "0", "", title, body, "0", "0", "-1",
        ]
    }

    /// As ``busctlArguments``, in GVariant's text format.
    var gdbusArguments: [String] {
        [
            "call", "--session", "--timeout", "2", "--dest", Self.service, "--object-path", Self.path, "--method",
            "\(Self.service).Notify", Self.quoted(applicationName), "uint32 0", "''", Self.quoted(title),
            Self.quoted(body), "@as []", "@a{sv} {}", "int32 -1",
        ]
    }

    private static let service = "org.freedesktop.Notifications"
    private static let path = "/org/freedesktop/Notifications"

    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { escaped, character in
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            default: escaped.append(character)
            }
        }
    }

    /// A string in GVariant's text format; unquoted, gdbus would read `true` or `[]` as something else.
    private static func quoted(_ text: String) -> String {
        let inside = text.reduce(into: "") { inside, character in
            switch character {
            case "'", "\\": inside += "\\\(character)"
            case "\n": inside += "\\n"
            default: inside.append(character)
            }
        }
        return "'\(inside)'"
    }
}
