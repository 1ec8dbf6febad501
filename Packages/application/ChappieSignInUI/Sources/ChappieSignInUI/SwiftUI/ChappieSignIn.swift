#if canImport(SwiftUI)
    @_spi(ChappieInternals) public import ChappieAuth
    import ChappieCore
    import Combine
    public import SwiftUI

    /// The button "Sign in with ChatGPT" for SwiftUI, with the sheet that guides the user.
    ///
    /// ```swift
    /// @StateObject private var authSession = Chappie.authSession()
    ///
    /// var body: some View {
    ///     ChappieSignIn(authSession: authSession)
    ///         .buttonStyle(.borderedProminent)
    /// }
    /// ```
    /// It disables itself while a sign-in runs, and disappears when a user is signed in. A custom label receives the
    /// title, which changes during the sign-in:
    /// ```swift
    /// ChappieSignIn(authSession: authSession) { title in
    ///     Label(title, systemImage: "person.badge.plus")
    /// }
    /// ```
    /// The compiler treats a trailing closure that creates no view as `onDeviceCode`.
    ///
    /// ``ChappieSignInModel`` decides everything that the button shows and does. The environment's `openURL` opens the
    /// page, so an app can replace it. The page of "Continue with ChatGPT" opens inside the app on iOS, because the
    /// browser returns to the app. A user who closes that page cancels the sign-in.
    ///
    /// Before the first sign-in of a slot, the sheet asks whether data may be sent to OpenAI
    /// (``ChappieSignInTexts/consent``). Nothing is sent before the user agrees. The app's settings remember it, also
    /// after a sign-out. Without the sheet there is no such page, and the app has to ask.
    ///
    /// The sheet belongs to the button's place in the app. An empty view without a size stays there while the button is
    /// hidden, and so does padding around it.
    ///
    /// The app may remove the view while a sign-in runs, for example because it switches over `authSession.state`. The
    /// sign-in continues. Its page then opens by itself, with the code in the pasteboard. Another view of the same
    /// session shows the sheet again. The button of the sheet, swiping the sheet away, `cancelSignIn()` and `signOut()`
    /// end a sign-in.
    ///
    /// iOS suspends an app some 30 seconds after the user has left it for the browser. Until then the approval is
    /// noticed, and the user is notified. After that, the wait is also suspended, and continues when the user returns.
    /// At that time the app is in the foreground, and the system shows the notification only if the delegate of
    /// `UNUserNotificationCenter` allows it.
    ///
    /// - Important: This view is compiled on Linux against hand-written declarations of SwiftUI. It has not yet run on
    ///   a Mac, so its layout and its behaviour are untested.
    public struct ChappieSignIn<Label: View>: View {
        private let settings: SignInViewSettings
        private let onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?
        private let label: @MainActor (String) -> Label
        @Environment(\.openURL) private var openURL
        @State private var relay = SignInRelay()

        /// Creates a button with the label that `label` creates.
        ///
        /// - Parameters:
        ///   - authSession: The session to sign in.
        ///   - showsOnboardingSheet: Whether a sheet shows the steps. Default `true`. With `false`, the page opens
        ///     automatically as soon as there is a code, a failed sign-in shows only as the session's `lastError`,
        ///     `authSession.cancelSignIn()` cancels a sign-in, and the app asks whether data may be sent to OpenAI.
        ///   - requestsNotificationPermission: Whether the first press asks the user if the app may notify. Default
        ///     `true`. With `false`, the notification is still sent if the user has allowed notifications before.
        ///   - texts: The texts to show. Default: English, for the session's kind of sign-in.
        ///   - onDeviceCode: Receives the code, for an app that shows it itself. Default none.
        ///   - label: Creates the button's label from its current title.
        public init(
            authSession: ChappieAuthSession, showsOnboardingSheet: Bool = true,
            requestsNotificationPermission: Bool = true, texts: ChappieSignInTexts? = nil,
            onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil,
            @ViewBuilder label: @escaping @MainActor (String) -> Label
        ) {
            settings = SignInViewSettings(
                session: authSession, showsSheet: showsOnboardingSheet,
                requestsPermission: requestsNotificationPermission,
                texts: texts ?? ChappieSignInTexts(for: authSession))
            self.onDeviceCode = onDeviceCode
            self.label = label
        }

        /// The button, and the sheet while it is shown.
        public var body: some View {
            let _ = relay.take(openURL, settings.session, onDeviceCode)
            SignInButton(settings: settings, relay: relay, label: label)
                // A model belongs to one session, so another session needs another model.
                .id(settings.identity)
        }
    }

    extension ChappieSignIn where Label == ChappieSignInLabel {
        /// Creates a button with the default label, ``ChappieSignInLabel``.
        ///
        /// - Parameters:
        ///   - authSession: The session to sign in.
        ///   - showsOnboardingSheet: Whether a sheet shows the steps. Default `true`. With `false`, the page opens
        ///     automatically as soon as there is a code, and the app asks whether data may be sent to OpenAI.
        ///   - requestsNotificationPermission: Whether the first press asks the user if the app may notify. Default
        ///     `true`.
        ///   - texts: The texts to show. Default: English, for the session's kind of sign-in.
        ///   - onDeviceCode: Receives the code, for an app that shows it itself. Default none.
        public init(
            authSession: ChappieAuthSession, showsOnboardingSheet: Bool = true,
            requestsNotificationPermission: Bool = true, texts: ChappieSignInTexts? = nil,
            onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
        ) {
            self.init(
                authSession: authSession, showsOnboardingSheet: showsOnboardingSheet,
                requestsNotificationPermission: requestsNotificationPermission, texts: texts,
                onDeviceCode: onDeviceCode
            ) { ChappieSignInLabel($0) }
        }
    }

    /// The default label of ``ChappieSignIn``. It is the title as text, with the font and the colours of its
    /// surroundings.
    public struct ChappieSignInLabel: View {
        private let title: String

        /// Creates a label with this title.
        public init(_ title: String) { self.title = title }

        /// The text.
        public var body: some View { Text(title) }
    }

    /// A ``ChappieSignIn`` in bold that fills the available width. New code should use ``ChappieSignIn`` and apply its
    /// own style.
    public struct SignInWithChatGPTButton: View {
        private let button: ChappieSignIn<WideLabel>

        /// The label that fills the width.
        private struct WideLabel: View {
            let title: String
            var body: some View { ChappieSignInLabel(title).bold().frame(maxWidth: .infinity) }
        }

        /// Creates the button. ``ChappieSignIn`` explains the parameters.
        ///
        /// - Parameters:
        ///   - authSession: The session to sign in.
        ///   - showsOnboardingSheet: Whether a sheet shows the steps. Default `true`.
        ///   - requestsNotificationPermission: Whether the first press asks the user if the app may notify. Default
        ///     `true`.
        ///   - texts: The texts to show. Default: English, for the session's kind of sign-in.
        ///   - onDeviceCode: Receives the code. Default none.
        public init(
            authSession: ChappieAuthSession, showsOnboardingSheet: Bool = true,
            requestsNotificationPermission: Bool = true, texts: ChappieSignInTexts? = nil,
            onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
        ) {
            button = ChappieSignIn(
                authSession: authSession, showsOnboardingSheet: showsOnboardingSheet,
                requestsNotificationPermission: requestsNotificationPermission, texts: texts,
                onDeviceCode: onDeviceCode
            ) { WideLabel(title: $0) }
        }

        /// The button, and the sheet while it is shown.
        public var body: some View { button }
    }

    // MARK: Inside

    /// The settings of a model. Other settings need another model.
    private struct SignInViewSettings {
        let session: ChappieAuthSession
        let showsSheet: Bool
        let requestsPermission: Bool
        let texts: ChappieSignInTexts

        var identity: [AnyHashable] { [ObjectIdentifier(session), showsSheet, requestsPermission, texts] }
    }

    /// The part that a button has in a model. It exists as long as the button's identity.
    @MainActor
    private final class SignInPresentation: ObservableObject {
        let model: ChappieSignInModel
        let relay: SignInRelay

        /// Takes a running sign-in up, or creates a model.
        init(_ settings: SignInViewSettings, _ relay: SignInRelay) {
            if let running = ChappieSignInModel.running(for: settings.session),
                let earlier = running.browser as? SignInRelay
            {
                model = running
                self.relay = earlier
            } else {
                model = ChappieSignInModel(
                    session: settings.session, showsOnboardingSheet: settings.showsSheet,
                    requestsNotificationPermission: settings.requestsPermission, texts: settings.texts,
                    browser: relay, clipboard: Pasteboard(),
                    notifier: settings.session.notifier ?? UserNotificationCenter(),
                    consents: settings.showsSheet ? SettingsConsentStore() : nil,
                    onDeviceCode: { [relay] in relay.onDeviceCode?($0) })
                self.relay = relay
            }
            // The view is being drawn, and the model must not change before that has ended.
            Task { [model] in model.viewAppeared() }
        }

        deinit {
            Task { @MainActor [model] in model.viewDisappeared() }
        }

        /// Cancels the sign-in whose sheet the user has swiped away. A sheet also closes when the app removes the view.
        /// This object is then released, and the sign-in continues.
        func sheetWasClosed() {
            Task { [weak self] in
                await Task.yield()
                if let self, model.state.isSheetPresented { model.cancel() }
            }
        }
    }

    /// A button that owns its presentation.
    private struct SignInButton<Label: View>: View {
        private let texts: ChappieSignInTexts
        private let relay: SignInRelay
        private let label: @MainActor (String) -> Label
        @StateObject private var presentation: SignInPresentation

        init(settings: SignInViewSettings, relay: SignInRelay, label: @escaping @MainActor (String) -> Label) {
            texts = settings.texts
            self.relay = relay
            self.label = label
            _presentation = StateObject(wrappedValue: SignInPresentation(settings, relay))
        }

        var body: some View {
            let _ = presentation.relay.take(from: relay)
            PresentedSignInButton(
                model: presentation.model, presentation: presentation, texts: texts, label: label)
        }
    }

    /// The button and its sheet, as the model has them.
    private struct PresentedSignInButton<Label: View>: View {
        @ObservedObject var model: ChappieSignInModel
        let presentation: SignInPresentation
        let texts: ChappieSignInTexts
        let label: @MainActor (String) -> Label

        var body: some View {
            // The sheet belongs to a view that stays. The button disappears in the update that closes the sheet.
            ZStack {
                if !model.state.isHidden {
                    Button {
                        model.signIn()
                    } label: {
                        label(model.state.title)
                    }
                    .disabled(!model.state.isEnabled)
                }
            }
            #if canImport(UIKit) && canImport(AuthenticationServices)
                .background { InAppPageAnchor(relay: presentation.relay) }
            #endif
            .sheet(isPresented: isSheetPresented) { SignInSheet(model: model, texts: texts) }
        }

        private var isSheetPresented: Binding<Bool> {
            Binding(
                get: { model.state.isSheetPresented },
                // A sheet that the model closes does not cancel the sign-in.
                set: { [weak presentation] in if !$0 { presentation?.sheetWasClosed() } })
        }
    }
#endif
