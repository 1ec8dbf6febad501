import TestFixtures

extension PrivateBus {
    /// Starts python-dbusmock's notification service.
    func startNotificationService() async throws -> RunningProgram {
        let service = try await start(.python, ["-m", "dbusmock", "--session", "--template", "notification_daemon"])
        try await wait(for: "org.freedesktop.Notifications")
        return service
    }

    /// What the mock was asked, in GVariant's text format.
    func notifyCalls() async throws -> String {
        try await call(
            "org.freedesktop.DBus.Mock.GetMethodCalls", at: "/org/freedesktop/Notifications",
            in: "org.freedesktop.Notifications", "Notify")
    }
}
