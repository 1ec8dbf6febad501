import CGtk4
import ChappieAuth
import ChappieCore
import ChappieSignInUI

/// The window with the steps, or with the ending of the sign-in. It shows a state and calls the model. It exists as
/// long as its window.
@MainActor
final class SignInSheet {
    let window: Widget
    private let model: ChappieSignInModel
    private let texts: ChappieSignInTexts
    private let scroller, pages, stepsPage, endingPage, spinner, countdown, code, address, sentence, advice,
        offer: Widget
    private let cancel, tryAgain, openPage, copy: Widget
    private let steps: [ChappieSignInStep.Kind: Step]
    private let permission: Notice
    private var shown: ChappieSignInState?

    private static var hasStyles = false

    /// Creates the sheet.
    ///
    /// - Parameter root: The window below the sheet, a `GtkRoot *`.
    init(_ model: ChappieSignInModel, _ texts: ChappieSignInTexts, over root: OpaquePointer?) {
        let layout = ChappieGTKLayout(Self.layout)
        self.model = model
        self.texts = texts
        window = layout["sheet"]
        scroller = layout["scroller"]
        pages = layout["pages"]
        stepsPage = layout["steps"]
        endingPage = layout["ending"]
        spinner = layout["spinner"]
        countdown = layout["countdown"]
        code = layout["code"]
        address = layout["address"]
        sentence = layout["sentence"]
        advice = layout["advice"]
        offer = layout["offer"]
        cancel = layout["cancel"]
        tryAgain = layout["try-again"]
        openPage = layout["open"]
        copy = layout["copy"]
        permission = Notice(layout, "permission")
        steps = [
            .openPage: Step(layout, "open-page"), .continueWithChatGPT: Step(layout, "continue"),
            .enterCode: Step(layout, "enter-code"),
        ]
        for step in steps.values { step.done.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, texts.done) }
        if !Self.hasStyles { ChappieGTKLayout.useStyles(Self.styles, on: gtk_widget_get_display(window)) }
        Self.hasStyles = true

        gtk_window_set_title(window.cast(), texts.signIn)
        if let root { gtk_window_set_transient_for(window.cast(), UnsafeMutablePointer(root)) }
        var mnemonics = Mnemonics()
        for (id, text) in [
            ("open-label", texts.openPage.button), ("copy-label", texts.enterCode.button),
            ("cancel-label", texts.cancel), ("try-again-label", texts.tryAgain),
            ("use-browser-label", texts.useBrowser),
        ] {
            gtk_label_set_text_with_mnemonic(layout[id].cast(), mnemonics.mark(text ?? ""))
        }
        openPage.setVisible(texts.openPage.button != nil)
        // With the relation, the label would be the button's entire accessible name, but the code also belongs to the
        // name.
        gtk_accessible_reset_relation(copy.cast(), GTK_ACCESSIBLE_RELATION_LABELLED_BY)
        openPage.tell(GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, texts.openPage.detail)
        copy.tell(GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, texts.enterCode.detail)
        ChappieGTKSignal.connect(openPage, "clicked") { model.openPage() }
        ChappieGTKSignal.connect(copy, "clicked") { model.copyCode() }
        ChappieGTKSignal.connect(tryAgain, "clicked") { model.signIn() }
        gtk_label_set_text(layout["browser-hint"].cast(), texts.browserHint)
        layout["use-browser"].tell(GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, texts.browserHint)
        ChappieGTKSignal.connect(layout["use-browser"], "clicked") { model.signInWithBrowser() }
        // The model handles the closing. The sheet closes when the state requires it.
        ChappieGTKSignal.answer(window, "close-request") {
            model.cancel()
            return true
        }
    }

    func show(_ state: ChappieSignInState) {
        let before = shown
        guard state != before else { return }
        defer { shown = state }
        showCountdown(state)
        if state.deviceCode != before?.deviceCode || before == nil { showCode(state.deviceCode) }
        for (kind, step) in steps { step.row.setVisible(state.steps.contains { $0.kind == kind }) }
        showSteps(state)
        offer.setVisible(state.offersBrowser)
        permission.show(state.notices.first { $0.part == .notifications })
        openPage.setSensitive(state.steps.first { $0.kind == .openPage }?.isEnabled ?? false)
        copy.setSensitive(state.steps.first { $0.kind == .enterCode }?.isEnabled ?? false)
        if state.ending != before?.ending || before == nil { showEnding(state.ending) }
        fitHeight()
        // A sign-in may end before it has a code.
        let isNew = before.map { ($0.deviceCode == nil) != (state.deviceCode == nil) || $0.ending != state.ending }
        if isNew ?? true { moveFocus(state) }
    }

    /// Shows the steps, and ticks them in the order in which the user does them. The code is in the clipboard before
    /// the page is open, but the user pastes it after that. The step between them is done on the page, so its
    /// completion is not known here.
    private func showSteps(_ state: ChappieSignInState) {
        var isNext = true
        for step in state.steps {
            steps[step.kind]?.show(step, state.notices, isTicked: step.isDone && isNext)
            if step.kind != .continueWithChatGPT { isNext = isNext && step.isDone }
        }
    }

    private func showCountdown(_ state: ChappieSignInState) {
        let isPreparing = state.isInProgress && state.deviceCode == nil
        spinner.setVisible(isPreparing)
        gtk_spinner_set_spinning(spinner.cast(), isPreparing ? 1 : 0)
        window.tellBusy(isPreparing)
        let sentence = isPreparing ? state.title : state.countdown ?? ""
        gtk_label_set_text(countdown.cast(), sentence)
        // A screen reader receives the countdown once a minute, and does not read the label that counts each second.
        let seconds = state.remaining?.components.seconds ?? 0
        if seconds % 60 == 0 || state.deviceCode != shown?.deviceCode {
            window.tell(GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, sentence)
        }
    }

    private func showCode(_ deviceCode: ChappieDeviceCode?) {
        gtk_label_set_text(code.cast(), deviceCode?.userCode ?? "····-·····")
        gtk_label_set_width_chars(code.cast(), gint(min(deviceCode?.userCode.count ?? 10, 10)))
        gtk_label_set_text(address.cast(), deviceCode?.verificationURL.absoluteString ?? "")
        address.setVisible(deviceCode != nil)
        // The code is spelled, because a user can't type a code that is read as words.
        let spelled = deviceCode.map { $0.userCode.map(String.init).joined(separator: " ") } ?? ""
        copy.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, [texts.enterCode.button ?? "", spelled].joined(separator: " "))
    }

    private func showEnding(_ ending: ChappieSignInEnding?) {
        // A GtkStack is not suitable, because with GTK 4.8 a screen reader also reads its hidden pages.
        stepsPage.setVisible(ending == nil)
        endingPage.setVisible(ending != nil)
        guard let words = ending?.words else { return }
        gtk_label_set_text(sentence.cast(), words.sentence)
        gtk_label_set_text(advice.cast(), words.advice)
        // This button receives the focus, so a screen reader reads the ending together with the next step.
        tryAgain.tell(GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, "\(words.sentence) \(words.advice)")
    }

    /// Makes the window as high as its content, because GTK keeps a window's height when the content grows, and would
    /// scroll. Large print may still scroll.
    private func fitHeight() {
        var width = gtk_widget_get_width(pages)
        var unused: gint = 0
        var height: gint = 0
        // Before the window is on the screen, it has its default width.
        if width == 0 { gtk_window_get_default_size(window.cast(), &width, &unused) }
        gtk_widget_measure(pages, GTK_ORIENTATION_VERTICAL, width, &height, nil, nil, nil)
        gtk_scrolled_window_set_min_content_height(scroller.cast(), min(height, screenHeight - 160))
    }

    /// The height of the screen that shows the window below.
    private var screenHeight: gint {
        var area = GdkRectangle()
        let below = gtk_window_get_transient_for(window.cast()).flatMap { gtk_native_get_surface(OpaquePointer($0)) }
        guard let below, let monitor = gdk_display_get_monitor_at_surface(gtk_widget_get_display(window), below)
        else { return 760 }
        gdk_monitor_get_geometry(monitor, &area)
        return area.height
    }

    private func moveFocus(_ state: ChappieSignInState) {
        let next = state.ending != nil ? tryAgain : openPage
        gtk_window_set_default_widget(window.cast(), next)
        gtk_widget_grab_focus(state.ending == nil && state.deviceCode == nil ? cancel : next)
    }
}

/// The row of a notice. It is hidden if there is no notice.
@MainActor
private struct Notice {
    private let row, icon, label: Widget

    init(_ layout: borrowing ChappieGTKLayout, _ id: String) {
        row = layout["\(id)-notice"]
        icon = layout["\(id)-icon"]
        label = layout["\(id)-sentence"]
    }

    func show(_ notice: ChappieSignInNotice?) {
        row.setVisible(notice != nil)
        icon.setVisible(notice?.isFailure ?? false)
        gtk_label_set_text(label.cast(), notice?.sentence ?? "")
    }
}

/// The row of a numbered step.
@MainActor
private struct Step {
    let row, done: Widget
    private let number, title, detail: Widget
    private let notice: Notice

    init(_ layout: borrowing ChappieGTKLayout, _ id: String) {
        row = layout[id]
        number = layout["\(id)-number"]
        done = layout["\(id)-done"]
        title = layout["\(id)-title"]
        detail = layout["\(id)-detail"]
        notice = Notice(layout, id)
    }

    func show(_ step: ChappieSignInStep, _ notices: [ChappieSignInNotice], isTicked: Bool) {
        number.setVisible(!isTicked)
        done.setVisible(isTicked)
        gtk_label_set_text(title.cast(), step.texts.title)
        gtk_label_set_text(detail.cast(), step.texts.detail)
        switch step.kind {
        case .openPage: notice.show(notices.first { $0.part == .browser })
        case .continueWithChatGPT: notice.show(nil)
        case .enterCode: notice.show(notices.first { $0.part == .clipboard })
        }
    }
}
