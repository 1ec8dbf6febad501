#if canImport(SwiftUI)
    @_spi(ChappieInternals) import ChappieAuth
    import ChappieCore
    import SwiftUI
    import UserNotifications

    #if canImport(UIKit)
        import UIKit
    #elseif canImport(AppKit)
        import AppKit
    #endif

    /// A relay that passes the view's latest closures on to the model, which outlives many updates of the view.
    @MainActor
    final class SignInRelay: Browser {
        private var openURL: OpenURLAction?
        private weak var session: ChappieAuthSession?
        #if canImport(UIKit) && canImport(AuthenticationServices)
            /// A view in the button's window, over which the page of a sign-in is shown.
            weak var anchor: UIView?
            private weak var page: InAppPage?
        #endif
        private(set) var onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?

        /// Stores the closures. Nothing observes them, so a view may set them while it is drawn.
        func take(
            _ openURL: OpenURLAction, _ session: ChappieAuthSession,
            _ onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?
        ) {
            self.openURL = openURL
            self.session = session
            self.onDeviceCode = onDeviceCode
        }

        /// Stores the closures of another view's relay, whose sign-in this relay serves.
        func take(from other: SignInRelay) {
            guard other !== self else { return }
            openURL = other.openURL
            session = other.session
            onDeviceCode = other.onDeviceCode
        }

        @MainActor
        func open(_ url: URL) async throws(DesktopError) {
            #if canImport(UIKit) && canImport(AuthenticationServices)
                if let session, case .awaitingUserCode(let code) = session.deviceLinkState, !code.needsCode {
                    if page == nil { page = try InAppPage.show(code, of: session, over: anchor?.window) }
                    return
                }
            #endif
            guard let openURL else { throw DesktopError("There is no window to open the page from.") }
            let isAccepted = await withCheckedContinuation { continuation in
                // A Mac calls this on another queue, on which a closure of the main actor would trap.
                openURL(url) { @Sendable in continuation.resume(returning: $0) }
            }
            guard isAccepted else {
                throw DesktopError("The page could not be opened. Open \(url.absoluteString) in a browser yourself.")
            }
        }
    }

    /// The general pasteboard. Its entry stays on this device. On iOS it expires with the code.
    struct Pasteboard: Clipboard {
        #if canImport(UIKit)
            /// The time for which the service accepts a code.
            private static let lifetime: TimeInterval = 15 * 60
        #endif

        @MainActor
        func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
            #if canImport(UIKit)
                UIPasteboard.general.setItems(
                    [["public.utf8-plain-text": text]],
                    options: [.localOnly: true, .expirationDate: Date(timeIntervalSinceNow: Self.lifetime)])
            #elseif canImport(AppKit)
                NSPasteboard.general.prepareForNewContents(with: .currentHostOnly)
                guard NSPasteboard.general.setString(text, forType: .string) else {
                    throw DesktopError("The clipboard did not take the code. Type it instead.")
                }
            #endif
            return .copied
        }
    }

    /// The consents in the app's own settings, by a digest of the slot. The privacy manifest declares this use with the
    /// reason CA92.1.
    struct SettingsConsentStore: ChappieConsentStore {
        func hasConsent(for slot: CredentialSlot) -> Bool { UserDefaults.standard.bool(forKey: key(of: slot)) }

        func addConsent(for slot: CredentialSlot) { UserDefaults.standard.set(true, forKey: key(of: slot)) }

        private func key(of slot: CredentialSlot) -> String { "com.chappie.sdk.consent.\(slot.digest)" }
    }

    /// Local notifications of the app.
    struct UserNotificationCenter: Notifier {
        func requestPermission() async throws(DesktopError) {
            let center = try Self.center()
            let isGranted: Bool
            do {
                isGranted = try await center.requestAuthorization(options: [.alert, .sound])
            } catch {
                throw DesktopError("Notifications are not available: \(error.localizedDescription)")
            }
            guard isGranted else {
                throw DesktopError("Notifications are switched off for this app. Signing in works without them.")
            }
        }

        /// Shows a notification. The system drops it if the user has not allowed notifications, here or elsewhere in
        /// the app.
        func notify(title: String, body: String) async throws(DesktopError) {
            let center = try Self.center()
            let content = UNMutableNotificationContent()
            content.title = title
            content.body = body
            content.sound = .default
            // Without a trigger it is delivered immediately. Every notification has the same identifier, so that a new
            // one replaces the old one.
            let request = UNNotificationRequest(identifier: "com.chappie.sdk.linked", content: content, trigger: nil)
            do {
                try await center.add(request)
            } catch {
                throw DesktopError("The notification was not delivered: \(error.localizedDescription)")
            }
        }

        /// Returns the notification centre. A program outside an app's bundle has none. Asking for it would end the
        /// process, even if the executable has an embedded identifier (`swift run`, a development build).
        private static func center() throws(DesktopError) -> UNUserNotificationCenter {
            let isBundled = ["app", "appex"].contains(Bundle.main.bundleURL.pathExtension.lowercased())
            guard isBundled, Bundle.main.bundleIdentifier != nil else {
                throw DesktopError("Only an app in a bundle with an identifier can notify.")
            }
            return UNUserNotificationCenter.current()
        }
    }
#endif
