#if canImport(SwiftUI)
    @_spi(ChappieInternals) public import ChappieAuth
    import ChappieCore
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
    /// It disables itself while a sign-in runs, and disappears when a user is signed in. A custom label gets the title,
    /// which changes during the sign-in:
    /// ```swift
    /// ChappieSignIn(authSession: authSession) { title in
    ///     Label(title, systemImage: "person.badge.plus")
    /// }
    /// ```
    /// The compiler takes a trailing closure that makes no view for `onDeviceCode`.
    ///
    /// ``ChappieSignInModel`` decides everything that the button shows and does. The environment's `openURL` opens the
    /// page, so an app can replace it.
    ///
    /// Keep the view in place while a sign-in runs. If the app removes it, because `authSession.state` is not
    /// `signedOut` any more, the view cancels the sign-in that it has begun. The sign-in is also cancelled if another
    /// session replaces `authSession`, or if `texts` or the switches change. A phone may suspend the app while the user
    /// is in the browser. The wait for the approval is then suspended too, and continues when the user comes back. At
    /// that time the app is in the foreground, and the system shows the notification only if the delegate of
    /// `UNUserNotificationCenter` says so.
    ///
    /// - Important: This view is compiled on Linux against hand-written declarations of SwiftUI. No Mac has run it yet:
    ///   its layout and its behaviour are untested.
    public struct ChappieSignIn<Label: View>: View {
        private let settings: SignInViewSettings
        private let onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?
        private let label: @MainActor (String) -> Label
        @Environment(\.openURL) private var openURL
        @State private var relay = SignInRelay()

        /// A button whose label is made by `label`.
        ///
        /// - Parameters:
        ///   - authSession: the session to sign in.
        ///   - showsOnboardingSheet: Default `true`: a sheet shows the steps. With `false` the page opens by
        ///     itself as soon as there is a code, a failed sign-in shows only as the session's `lastError`, and
        ///     `authSession.cancelSignIn()` cancels a sign-in.
        ///   - requestsNotificationPermission: whether the first press asks the user if the app may notify. Default
        ///     `true`. With `false` the notification is still sent if the user has allowed notifications before.
        ///   - texts: the words. Default: English, for the session's kind of sign-in.
        ///   - onDeviceCode: gets the code, for an app that shows it itself. Default none.
        ///   - label: makes the button's label from its present title.
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
            let _ = relay.take(openURL, onDeviceCode)
            SignInButton(settings: settings, relay: relay, label: label)
                // A model belongs to one session: another session needs another model.
                .id(settings.identity)
        }
    }

    extension ChappieSignIn where Label == ChappieSignInLabel {
        /// A button with the default label, ``ChappieSignInLabel``.
        ///
        /// - Parameters:
        ///   - authSession: the session to sign in.
        ///   - showsOnboardingSheet: Default `true`: a sheet shows the steps. With `false` the page opens by
        ///     itself as soon as there is a code.
        ///   - requestsNotificationPermission: whether the first press asks the user if the app may notify. Default
        ///     `true`.
        ///   - texts: the words. Default: English, for the session's kind of sign-in.
        ///   - onDeviceCode: gets the code, for an app that shows it itself. Default none.
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

    /// The default label of ``ChappieSignIn``: the title as text, with the font and the colours of its surroundings.
    public struct ChappieSignInLabel: View {
        private let title: String

        /// A label with this title.
        public init(_ title: String) { self.title = title }

        /// The text.
        public var body: some View { Text(title) }
    }

    /// ``ChappieSignIn`` in bold, as wide as there is room. New code should use ``ChappieSignIn`` and style it itself.
    public struct SignInWithChatGPTButton: View {
        private let button: ChappieSignIn<WideLabel>

        /// The label that fills the width.
        private struct WideLabel: View {
            let title: String
            var body: some View { ChappieSignInLabel(title).bold().frame(maxWidth: .infinity) }
        }

        /// The button; ``ChappieSignIn`` explains the parameters.
        ///
        /// - Parameters:
        ///   - authSession: the session to sign in.
        ///   - showsOnboardingSheet: Default `true`.
        ///   - requestsNotificationPermission: Default `true`.
        ///   - texts: the words. Default: English, for the session's kind of sign-in.
        ///   - onDeviceCode: gets the code. Default none.
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

    /// The settings of a model: other settings need another model.
    private struct SignInViewSettings {
        let session: ChappieAuthSession
        let showsSheet: Bool
        let requestsPermission: Bool
        let texts: ChappieSignInTexts

        var identity: [AnyHashable] { [ObjectIdentifier(session), showsSheet, requestsPermission, texts] }
    }

    /// Owns the model as long as its identity lives.
    private struct SignInButton<Label: View>: View {
        private let texts: ChappieSignInTexts
        private let label: @MainActor (String) -> Label
        @StateObject private var model: ChappieSignInModel

        init(settings: SignInViewSettings, relay: SignInRelay, label: @escaping @MainActor (String) -> Label) {
            texts = settings.texts
            self.label = label
            _model = StateObject(
                wrappedValue: ChappieSignInModel(
                    session: settings.session, showsOnboardingSheet: settings.showsSheet,
                    requestsNotificationPermission: settings.requestsPermission, texts: settings.texts,
                    browser: relay, clipboard: Pasteboard(),
                    notifier: settings.session.notifier ?? UserNotificationCenter(),
                    onDeviceCode: { [relay] in relay.onDeviceCode?($0) }))
        }

        var body: some View {
            if !model.state.isHidden {
                Button {
                    model.signIn()
                } label: {
                    label(model.state.title)
                }
                .disabled(!model.state.isEnabled)
                // The sheet comes after `disabled`, because it would inherit it.
                .sheet(isPresented: isSheetPresented) { SignInSheet(model: model, texts: texts) }
            }
        }

        private var isSheetPresented: Binding<Bool> {
            Binding(
                get: { model.state.isSheetPresented },
                // A user who swipes the sheet away cancels the sign-in. The model closing the sheet does not.
                set: { if !$0, model.state.isSheetPresented { model.cancel() } })
        }
    }
#endif
