#if canImport(SwiftUI)
    import ChappieAuth
    import ChappieCore
    import SwiftUI
    import UserNotifications

    #if canImport(UIKit)
        import UIKit
    #elseif canImport(AppKit)
        import AppKit
    #endif

    /// Hands a model, which outlives many updates of its view, what the view was given last.
    @MainActor
    final class SignInRelay: Browser {
        private var openURL: OpenURLAction?
        private(set) var onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?

        /// Nothing observes these two: a view may set them while it is drawn.
        func take(_ openURL: OpenURLAction, _ onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?) {
            (self.openURL, self.onDeviceCode) = (openURL, onDeviceCode)
        }

        @MainActor
        func open(_ url: URL) async throws(DesktopError) {
            guard let openURL else { throw DesktopError("There is no window to open the page from.") }
            let isAccepted = await withCheckedContinuation { continuation in
                // A Mac answers from a queue of its own, where a closure of the main actor would trap.
                openURL(url) { @Sendable in continuation.resume(returning: $0) }
            }
            guard isAccepted else {
                throw DesktopError("The page could not be opened. Open \(url.absoluteString) in a browser yourself.")
            }
        }
    }

    /// The general pasteboard.
    struct Pasteboard: Clipboard {
        @MainActor
        func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
            #if canImport(UIKit)
                UIPasteboard.general.string = text
            #elseif canImport(AppKit)
                NSPasteboard.general.clearContents()
                guard NSPasteboard.general.setString(text, forType: .string) else {
                    throw DesktopError("The clipboard did not take the code. Type it instead.")
                }
            #endif
            return .copied
        }
    }

    /// Local notifications of the app.
    struct UserNotificationCenter: Notifier {
        func requestPermission() async throws(DesktopError) {
            let center = try Self.center()
            let isGranted: Bool
            do {
                isGranted = try await center.requestAuthorization(options: [.alert, .sound])
            } catch {
                throw DesktopError("Notifications can't be had: \(error.localizedDescription)")
            }
            guard isGranted else {
                throw DesktopError("Notifications are switched off for this app. Signing in works without them.")
            }
        }

        /// The system drops it where the user has not permitted notifications, here or elsewhere in the app.
        func notify(title: String, body: String) async throws(DesktopError) {
            let center = try Self.center()
            let content = UNMutableNotificationContent()
            content.title = title
            content.body = body
            content.sound = .default
            // Without a trigger it is delivered at once. The identifier is one for all, so that two never stand side by side.
            let request = UNNotificationRequest(identifier: "com.chappie.sdk.linked", content: content, trigger: nil)
            do {
                try await center.add(request)
            } catch {
                throw DesktopError("The notification was not delivered: \(error.localizedDescription)")
            }
        }

        /// A program outside an app's bundle has no notification centre: asking for it would end the process, even where an
        /// identifier is embedded in the executable (`swift run`, a development build).
        private static func center() throws(DesktopError) -> UNUserNotificationCenter {
            let isBundled = ["app", "appex"].contains(Bundle.main.bundleURL.pathExtension.lowercased())
            guard isBundled, Bundle.main.bundleIdentifier != nil else {
                throw DesktopError("Only an app in a bundle with an identifier can notify.")
            }
            return UNUserNotificationCenter.current()
        }
    }
#endif
