#if canImport(SwiftUI) && canImport(UIKit) && canImport(AuthenticationServices)
    import AuthenticationServices
    import ChappieAuth
    import ChappieCore
    import SwiftUI
    import UIKit

    /// The page of a sign-in without a code ("Continue with ChatGPT"), in a browser inside the app. The app stays in the
    /// foreground, so that its listener on this device is running when the browser returns.
    ///
    /// The page closes when the browser has returned, or when the sign-in ends for another reason. A user who closes it
    /// cancels the sign-in. It does not depend on the view that opened it.
    @MainActor
    final class InAppPage: NSObject, ASWebAuthenticationPresentationContextProviding {
        private let code: ChappieDeviceCode
        private let session: ChappieAuthSession
        private let window: UIWindow

        private init(_ code: ChappieDeviceCode, _ session: ChappieAuthSession, _ window: UIWindow) {
            self.code = code
            self.session = session
            self.window = window
        }

        /// Shows the page over `window`. The returned object exists while the page is shown.
        static func show(
            _ code: ChappieDeviceCode, of session: ChappieAuthSession, over window: UIWindow?
        ) throws(DesktopError) -> InAppPage {
            guard let window else { throw DesktopError("There is no window to show the page in.") }
            let page = InAppPage(code, session, window)
            try page.start()
            return page
        }

        private func start() throws(DesktopError) {
            // The browser returns to the listener, and never to the app's scheme.
            let browser = ASWebAuthenticationSession(
                url: code.verificationURL, callback: .customScheme("chappie-sign-in")
            ) { @Sendable [weak self] _, _ in
                Task { @MainActor [weak self] in self?.closed() }
            }
            browser.presentationContextProvider = self
            guard browser.start() else { throw DesktopError("The system did not open the sign-in page. Try again.") }
            Task {
                for await state in session.deviceLinkStateUpdates where state != .awaitingUserCode(code) { break }
                browser.cancel()
            }
        }

        /// Cancels the sign-in if the user has closed the page. Otherwise the sign-in no longer waits for this page.
        private func closed() {
            if session.deviceLinkState == .awaitingUserCode(code) { session.cancelSignIn() }
        }

        func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor { window }
    }

    /// A view without content, whose window is the button's.
    struct InAppPageAnchor: UIViewRepresentable {
        let relay: SignInRelay

        func makeUIView(context: Context) -> UIView {
            let view = UIView()
            view.isUserInteractionEnabled = false
            return view
        }

        func updateUIView(_ view: UIView, context: Context) { relay.anchor = view }
    }
#endif
