public import ChappieAuth

/// Shows notifications through the desktop's notification service, `org.freedesktop.Notifications`.
///
/// It is asked with busctl (systemd) or gdbus (GLib), whichever is there. A bus is never started for it.
///
/// Desktop Notifications Specification: <https://specifications.freedesktop.org/notification-spec/latest/>
public struct DBusNotifier: Notifier {
    private let applicationName: String
    private let environment: DesktopEnvironment

    /// - Parameters:
    ///   - applicationName: Who says it, as the desktop shows it. Default `Chappie`.
    ///   - environment: Where it looks for the session bus and for programs. Default: this process's.
    public init(applicationName: String = "Chappie", environment: DesktopEnvironment = .current) {
        self.applicationName = applicationName
        self.environment = environment
    }

    /// Shows `title` (256 characters at most) and `body` (1024), both plain text; what is longer is cut.
    ///
    /// - Throws: ``DesktopError`` when there is no session bus, no notification service or no program to ask it with,
    ///   and when it does not answer within 2 seconds. That the desktop shows nothing, because the person does not want
    ///   to be disturbed, is not an error.
    public func notify(title: String, body: String) async throws(DesktopError) {
        let notification = DesktopNotification(applicationName: applicationName, title: title, body: body)
        let process = try Self.process(for: notification, in: environment)
        if let error = Self.error(for: await environment.run(process)) { throw error }
    }

    static func process(
        for notification: DesktopNotification, in environment: DesktopEnvironment
    ) throws(DesktopError) -> ChildProcess {
        guard environment.hasSessionBus else {
            throw DesktopError("No notification was shown: there is no desktop session bus here.")
        }
        let path: String
        let arguments: [String]
        if let program = environment.executable("busctl") {
            (path, arguments) = (program, notification.busctlArguments)
        } else if let program = environment.executable("gdbus") {
            (path, arguments) = (program, notification.gdbusArguments)
        } else {
            throw DesktopError(
                "No notification was shown: busctl and gdbus are missing. Install the package systemd or libglib2.0-bin."
            )
        }
        return ChildProcess(
            path: path, arguments: arguments, environment: environment.variables, limit: .seconds(2), atLimit: .kill)
    }

    static func error(for outcome: ChildOutcome) -> DesktopError? {
        switch outcome {
        case .exited(code: 0, _), .exited(code: -1, _):
            nil
        case .exited(_, let words):
            DesktopError("No notification was shown: \(firstLine(of: words)).")
        case .stillRunning:
            DesktopError("No notification was shown: the notification service did not answer within 2 s.")
        case .notStarted(let reason):
            DesktopError("No notification was shown: \(reason).")
        }
    }

    /// A program's words as the end of a sentence.
    private static func firstLine(of words: String) -> String {
        let line = words.split(whereSeparator: \.isNewline).first.map { $0.prefix(200) } ?? ""
        let text = DesktopNotification.plain(String(line), limit: 200).trimmingSuffix { $0 == "." || $0 == " " }
        return text.isEmpty ? "the notification service refused" : String(text)
    }
}

extension String {
    fileprivate func trimmingSuffix(while matches: (Character) -> Bool) -> Substring {
        var rest = Substring(self)
        while let last = rest.last, matches(last) { rest.removeLast() }
        return rest
    }
}
