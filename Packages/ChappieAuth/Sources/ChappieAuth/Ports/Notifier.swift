/// Shows a short desktop notification.
public protocol Notifier: Sendable {
    /// Shows `title` and `body` (plain text).
    ///
    /// - Throws: ``DesktopError`` when nothing here shows notifications.
    func notify(title: String, body: String) async throws(DesktopError)
}
