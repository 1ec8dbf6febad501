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
    /// It disables itself while a sign-in runs and is gone once a user is signed in. A label of one's own gets the title,
    /// which changes on the way:
    /// ```swift
    /// ChappieSignIn(authSession: authSession) { title in
    ///     Label(title, systemImage: "person.badge.plus")
    /// }
    /// ```
    /// A trailing closure that makes no view is taken for `onDeviceCode`.
    ///
    /// Everything that it shows and does is ``ChappieSignInModel``'s. The page is opened by the environment's `openURL`, so
    /// that an app can put its own in that place.
    ///
    /// Keep the view where it is while a sign-in runs: one that the app takes away, because `authSession.state` is not
    /// `signedOut` any more, cancels the sign-in that it has begun. So do another session in the place of `authSession`, other
    /// `texts` and other switches. A system that suspends the app while the user is in the browser, as a phone does,
    /// also suspends the waiting for approval: it goes on when the user comes back. The notification is then sent to an app
    /// in the foreground, where the system shows it only if the delegate of `UNUserNotificationCenter` says so.
    ///
    /// - Important: This face is compiled on Linux against hand-written declarations of SwiftUI. No Mac has run it yet: its
    ///   layout and its behaviour are untried.
    public struct ChappieSignIn<Label: View>: View {
        private let settings: SignInViewSettings
        private let onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?
        private let label: @MainActor (String) -> Label
        @Environment(\.openURL) private var openURL
        @State private var relay = SignInRelay()

        /// A button whose label is made by `label`.
        ///
        /// - Parameters:
        ///   - authSession: what is signed in.
        ///   - showsOnboardingSheet: Default `true`: a sheet shows the three steps. With `false` the page opens by itself as
        ///     soon as there is a code, nothing is shown of a sign-in that fails but the session's `lastError`, and
        ///     `authSession.cancelSignIn()` cancels it.
        ///   - requestsNotificationPermission: whether the user is asked, at the first press, if the app may notify. Default
        ///     `true`. With `false` the notification is still sent where the user has permitted it before.
        ///   - texts: the words. Default: English.
        ///   - onDeviceCode: gets the code, for an app that shows it itself. Default none.
        ///   - label: makes the button's label of its present title.
        public init(
            authSession: ChappieAuthSession, showsOnboardingSheet: Bool = true,
            requestsNotificationPermission: Bool = true, texts: ChappieSignInTexts = ChappieSignInTexts(),
            onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil,
            @ViewBuilder label: @escaping @MainActor (String) -> Label
        ) {
            settings = SignInViewSettings(
                session: authSession, showsSheet: showsOnboardingSheet,
                requestsPermission: requestsNotificationPermission, texts: texts)
            self.onDeviceCode = onDeviceCode
            self.label = label
        }

        /// The button, and the sheet while it is up.
        public var body: some View {
            let _ = relay.take(openURL, onDeviceCode)
            SignInButton(settings: settings, relay: relay, label: label)
                // A model belongs to one session: another one wants a model of its own.
                .id(settings.identity)
        }
    }

    extension ChappieSignIn where Label == ChappieSignInLabel {
        /// A button with the default label, ``ChappieSignInLabel``.
        ///
        /// - Parameters:
        ///   - authSession: what is signed in.
        ///   - showsOnboardingSheet: Default `true`: a sheet shows the three steps. With `false` the page opens by itself as
        ///     soon as there is a code.
        ///   - requestsNotificationPermission: whether the user is asked, at the first press, if the app may notify. Default
        ///     `true`.
        ///   - texts: the words. Default: English.
        ///   - onDeviceCode: gets the code, for an app that shows it itself. Default none.
        public init(
            authSession: ChappieAuthSession, showsOnboardingSheet: Bool = true,
            requestsNotificationPermission: Bool = true, texts: ChappieSignInTexts = ChappieSignInTexts(),
            onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
        ) {
            self.init(
                authSession: authSession, showsOnboardingSheet: showsOnboardingSheet,
                requestsNotificationPermission: requestsNotificationPermission, texts: texts,
                onDeviceCode: onDeviceCode
            ) { ChappieSignInLabel($0) }
        }
    }

    /// The default label of ``ChappieSignIn``: the title as text, which takes the font and the colours of its place.
    public struct ChappieSignInLabel: View {
        private let title: String

        /// A label with this title.
        public init(_ title: String) { self.title = title }

        /// The text.
        public var body: some View { Text(title) }
    }

    /// ``ChappieSignIn`` in bold, as wide as there is room. New code takes ``ChappieSignIn`` and styles it itself.
    public struct SignInWithChatGPTButton: View {
        private let button: ChappieSignIn<WideLabel>

        /// The label that fills the width.
        private struct WideLabel: View {
            let title: String
            var body: some View { ChappieSignInLabel(title).bold().frame(maxWidth: .infinity) }
        }

        /// The button; the parameters are those of ``ChappieSignIn``.
        ///
        /// - Parameters:
        ///   - authSession: what is signed in.
        ///   - showsOnboardingSheet: Default `true`.
        ///   - requestsNotificationPermission: Default `true`.
        ///   - texts: the words. Default: English.
        ///   - onDeviceCode: gets the code. Default none.
        public init(
            authSession: ChappieAuthSession, showsOnboardingSheet: Bool = true,
            requestsNotificationPermission: Bool = true, texts: ChappieSignInTexts = ChappieSignInTexts(),
            onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
        ) {
            button = ChappieSignIn(
                authSession: authSession, showsOnboardingSheet: showsOnboardingSheet,
                requestsNotificationPermission: requestsNotificationPermission, texts: texts,
                onDeviceCode: onDeviceCode
            ) { WideLabel(title: $0) }
        }

        /// The button, and the sheet while it is up.
        public var body: some View { button }
    }

    // MARK: Inside

    /// The settings by which one model differs from another.
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
                // After `disabled`, which a sheet would inherit.
                .sheet(isPresented: isSheetPresented) { SignInSheet(model: model, texts: texts) }
            }
        }

        private var isSheetPresented: Binding<Bool> {
            Binding(
                get: { model.state.isSheetPresented },
                // The user who swipes the sheet away cancels. A sheet that the model itself has closed is no cancel.
                set: { if !$0, model.state.isSheetPresented { model.cancel() } })
        }
    }
#endif
