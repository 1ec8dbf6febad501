public import CGtk4
public import ChappieAuth
import ChappieCore
public import ChappieSignInUI

/// The button "Sign in with ChatGPT" for GTK 4, with its sheet: three steps, the code, a countdown, and how it ended.
///
/// ```swift
/// let signIn = ChappieSignInButton(session: session)
/// gtk_box_append(box, signIn.widget)
/// ```
/// It draws what ``model`` says. The button is insensitive while a sign-in runs and hidden while a user is signed in; the sheet
/// is a modal window over the button's. Escape, "Cancel" and closing the sheet cancel the sign-in, and the focus goes back to
/// the button. It needs ``ChappieGTKMainLoop``, and takes colours, contrast and direction from GTK's settings.
///
/// The widget keeps this object. When the widget is destroyed, with its window for instance, a sign-in that runs is cancelled
/// and nothing is left behind.
@MainActor
public final class ChappieSignInButton {
    /// A `GtkButton` to put into a window; good until it is destroyed.
    public let widget: UnsafeMutablePointer<GtkWidget>
    /// The model that the button and its sheet draw; a program may begin and cancel a sign-in by it as well.
    public let model: ChappieSignInModel

    private let texts: ChappieSignInTexts
    private let label: Widget
    private let browser = GTKBrowser()
    private var sheet: SignInSheet?
    private var follower: Task<Void, Never>?

    /// - Parameters:
    ///   - session: what is signed in.
    ///   - showsOnboardingSheet: Default `true`. With `false` there is no sheet: the code goes to the clipboard, the page opens
    ///     by itself, and the program shows how it ended.
    ///   - requestsNotificationPermission: whether the notifier asks the user at the first sign-in. Default `true`.
    ///   - texts: the words. Default: English.
    ///   - notifier: tells the user that the account is linked. Default: the session's. (`GNotification` is no default: a
    ///     desktop drops it silently where the program has no desktop file.)
    ///   - onDeviceCode: gets the code, for a program that shows it itself. Default none.
    public init(
        session: ChappieAuthSession, showsOnboardingSheet: Bool = true, requestsNotificationPermission: Bool = true,
        texts: ChappieSignInTexts = ChappieSignInTexts(), notifier: (any Notifier)? = nil,
        onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
    ) {
        (widget, label) = (gtk_button_new(), gtk_label_new(nil))
        self.texts = texts
        model = ChappieSignInModel(
            session: session, showsOnboardingSheet: showsOnboardingSheet,
            requestsNotificationPermission: requestsNotificationPermission, texts: texts, browser: browser,
            clipboard: GTKClipboard(of: widget), notifier: notifier, onDeviceCode: onDeviceCode)
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
            // A state may be on its way when the widget goes.
            for await state in updates where !Task.isCancelled { self?.show(state) }
        }
    }

    private func show(_ state: ChappieSignInState) {
        var mnemonics = Mnemonics()
        gtk_label_set_text_with_mnemonic(label.cast(), mnemonics.mark(state.title))
        widget.setSensitive(state.isEnabled)
        widget.setVisible(!state.isHidden)
        widget.tellBusy(state.isInProgress)
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
        // A program whose user is signed in has a place of its own for the focus.
        if !model.state.isHidden { gtk_widget_grab_focus(widget) }
    }

    private func end() {
        follower?.cancel()
        browser.asking = nil
        model.cancel()
        if let sheet { gtk_window_destroy(sheet.window.cast()) }
    }
}
