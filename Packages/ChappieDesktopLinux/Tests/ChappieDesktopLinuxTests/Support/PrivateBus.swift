import Foundation

/// A session bus of a test's own, with nothing on it and nothing that it could start.
final class PrivateBus {
    let variables: [String: String]
    private let folder: Folder
    private let daemon: Process
    private var service: Process?

    init() throws {
        folder = try Folder()
        let address = "unix:path=\(folder.path("bus"))"
        variables = ["PATH": "/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS": address, "HOME": folder.url.path]
        try Data(
            """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <type>session</type>
              <listen>\(address)</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
                <allow own="*"/>
              </policy>
            </busconfig>
            """.utf8
        ).write(to: folder.url.appendingPathComponent("bus.conf"))
        daemon = try Tool.dbusDaemon.start(
            ["--nofork", "--nopidfile", "--print-address=1", "--config-file=\(folder.path("bus.conf"))"],
            environment: variables
        ).process
    }

    deinit {
        service?.end()
        daemon.end()
    }

    /// Starts a mock of the notification service.
    func startNotificationService() throws -> Process {
        let service = Process()
        service.executableURL = try Tool.python.path()
        service.arguments = ["-m", "dbusmock", "--session", "--template", "notification_daemon"]
        service.environment = variables
        service.standardInput = FileHandle.nullDevice
        service.standardOutput = FileHandle.nullDevice
        service.standardError = FileHandle.nullDevice
        try service.run()
        self.service = service
        try Tool.gdbus.run(
            ["wait", "--session", "--timeout", "20", "org.freedesktop.Notifications"], environment: variables)
        return service
    }

    /// What the mock was asked, in GVariant's text format.
    func notifyCalls() throws -> String {
        try Tool.gdbus.run(
            [
                "call", "--session", "--dest", "org.freedesktop.Notifications", "--object-path",
                "/org/freedesktop/Notifications", "--method", "org.freedesktop.DBus.Mock.GetMethodCalls", "Notify",
            ], environment: variables.merging(["LC_ALL": "C.UTF-8"]) { $1 })
    }
}
