public import CGtk4
public import ChappieAuth
import ChappieCore
public import ChappieSignInUI

/// The button "Sign in with ChatGPT" for GTK 4, with a sheet that shows the steps, the code, a countdown, and the
/// ending.
///
/// ```swift
/// let signIn = ChappieSignInButton(session: session)
/// gtk_box_append(box, signIn.widget)
/// ```
/// It shows the state of ``model``. The button is insensitive while a sign-in is running, and hidden while a user is
/// signed in. The sheet is a modal window over the button's window. If the user presses Escape or "Cancel" or closes
/// the sheet, the sign-in is cancelled and the focus returns to the button. The button needs ``ChappieGTKMainLoop``,
/// and takes colours, contrast and direction from GTK's settings.
///
/// The widget keeps this object alive. When the widget is destroyed, for instance with its window, a running sign-in is
/// cancelled and all resources are released.
@MainActor
public final class ChappieSignInButton {
    /// The `GtkButton` to put into a window. It is valid until it is destroyed.
    public let widget: UnsafeMutablePointer<GtkWidget>
    /// The model of the button and its sheet. A program may also begin and cancel a sign-in with it.
    public let model: ChappieSignInModel

    private let texts: ChappieSignInTexts
    private let label: Widget
    private let browser = ChappieGTKBrowser()
    private let clipboard: GTKClipboard
    private var sheet: SignInSheet?
    private var follower: Task<Void, Never>?

    /// - Parameters:
    ///   - session: The session to sign in.
    ///   - showsOnboardingSheet: Whether a sheet shows the steps. Default `true`. With `false`, the code is copied to
    ///     the clipboard, the page opens automatically, and the program shows the ending.
    ///   - requestsNotificationPermission: Whether the notifier asks the user at the first sign-in. Default `true`.
    ///   - texts: The texts to show. Default: English, for the session's kind of sign-in.
    ///   - notifier: Notifies the user that the account is linked. Default: the session's notifier. (`GNotification`
    ///     can't be the default, because a desktop drops it silently if the program has no desktop file.)
    ///   - onDeviceCode: Receives the code, for a program that shows it itself. Default none.
    public init(
        session: ChappieAuthSession, showsOnboardingSheet: Bool = true, requestsNotificationPermission: Bool = true,
        texts: ChappieSignInTexts? = nil, notifier: (any Notifier)? = nil,
        onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
    ) {
        widget = gtk_button_new()
        label = gtk_label_new(nil)
        let texts = texts ?? ChappieSignInTexts(for: session)
        self.texts = texts
        clipboard = GTKClipboard(of: widget)
        model = ChappieSignInModel(
            session: session, showsOnboardingSheet: showsOnboardingSheet,
            requestsNotificationPermission: requestsNotificationPermission, texts: texts, browser: browser,
            clipboard: clipboard, notifier: notifier, onDeviceCode: onDeviceCode)
        gtk_widget_add_css_class(widget, "suggested-action")
        gtk_label_set_wrap(label.cast(), 1)
        gtk_label_set_justify(label.cast(), GTK_JUSTIFY_CENTER)
        gtk_label_set_mnemonic_widget(label.cast(), widget)
        gtk_button_set_child(widget.cast(), label)
        let model = model
        ChappieGTKSignal.connect(widget, "clicked") { model.signIn() }
        ChappieGTKSignal.connect(widget, "destroy") { self.end() }
        let updates = model.stateUpdates
        show(model.state)
        follower = Task { [weak self] in
            // A state may still arrive after the widget is destroyed.
            for await state in updates where !Task.isCancelled { self?.show(state) }
        }
    }

    private func show(_ state: ChappieSignInState) {
        var mnemonics = Mnemonics()
        gtk_label_set_text_with_mnemonic(label.cast(), mnemonics.mark(state.title))
        widget.setSensitive(state.isEnabled)
        widget.setVisible(!state.isHidden)
        widget.tellBusy(state.isInProgress)
        // The code is of no use after the sign-in.
        if !state.isInProgress { clipboard.forget() }
        if state.isSheetPresented { present(state) } else { dismiss() }
        browser.asking = sheet?.window ?? widget
    }

    private func present(_ state: ChappieSignInState) {
        if let sheet { return sheet.show(state) }
        let sheet = SignInSheet(model, texts, over: gtk_widget_get_root(widget))
        ChappieGTKSignal.connect(sheet.window, "destroy") { [weak self] in self?.sheet = nil }
        self.sheet = sheet
        sheet.show(state)
        gtk_window_present(sheet.window.cast())
    }

    private func dismiss() {
        guard let sheet else { return }
        gtk_window_destroy(sheet.window.cast())
        // When the user is signed in, the program sets the focus.
        if !model.state.isHidden { gtk_widget_grab_focus(widget) }
    }

    private func end() {
        follower?.cancel()
        browser.asking = nil
        model.cancel()
        if let sheet { gtk_window_destroy(sheet.window.cast()) }
    }
}
