import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The window, with a page for signing in and a page for the conversation.
@MainActor
final class ChatWindow {
    private let window, loading, welcome, chat, reason, retry, account: Widget
    private let send, stop, running, spinner, problem, problemSentence: Widget
    private let transcript: TranscriptView
    private let composer: Composer
    private let threads: ThreadList
    private let columns: Columns
    private let approvals: Approvals
    private var menu: ThreadMenu?
    private var actions: [String: OpaquePointer] = [:]

    private let settings: LaunchOptions
    /// The current conversation.
    private var talk: Talk
    private var keeping: Keeping?
    private var session: ChappieAuthSession?
    /// The account that the conversation belongs to.
    private var owner: ChappieAccountInfo?
    /// The last question, if it failed.
    private var failed: Question?
    /// Whether the window has left the screen for good.
    private(set) var isEnding = false

    init(_ application: UnsafeMutablePointer<GtkApplication>, _ settings: LaunchOptions) {
        self.settings = settings
        let layout = ChappieGTKLayout(Self.layout)
        window = layout["window"]
        loading = layout["loading"]
        welcome = layout["welcome"]
        chat = layout["chat"]
        reason = layout["reason"]
        retry = layout["retry"]
        account = layout["account"]
        send = layout["send"]
        stop = layout["stop"]
        running = layout["running"]
        spinner = layout["spinner"]
        problem = layout["problem"]
        problemSentence = layout["problem-sentence"]
        let view: UnsafeMutablePointer<GtkTextView> = layout["transcript"].cast()
        let browser = ChappieGTKBrowser(asking: window, opensMail: true)
        let opening = Opening(browser)
        transcript = TranscriptView(view, in: layout["scroller"].cast(), browser) { opening.open($0) }
        approvals = Approvals(over: window)
        let actions = Calls()
        composer = Composer(layout) {
            actions.ask()
        } refuse: {
            actions.tell($0)
        }
        threads = ThreadList(layout) {
            actions.open($0)
        } openMenu: {
            actions.openMenu($0, $1, $2)
        }
        columns = Columns(layout, view, transcript)
        composer.takeTyping(from: layout["transcript"])
        talk = Talk(Self.client(settings, approvals), nil, transcript)
        opening.refuse = { [unowned self] in tell($0) }
        actions.ask = { [unowned self] in ask() }
        actions.tell = { [unowned self] in tell($0) }
        actions.open = { [unowned self] in openThread($0) }
        menu = ThreadMenu(
            layout, { [unowned self] in keeping },
            ThreadMenu.Reports(
                leave: { [unowned self] in await leaveThread($0) }, changed: { [unowned self] in threads.refresh() },
                note: { [unowned self] in threads.note($0, $1) }, refuse: { [unowned self] in tell($0) }))
        actions.openMenu = { [unowned self] in menu?.open($0, at: $1, x: $2.x, y: $2.y) }
        ChappieGTKLayout.useStyles(Self.styles, on: gtk_widget_get_display(window))
        gtk_window_set_application(window.cast(), application)
        addActions()
        // In the meantime, the command `chappie` may have changed the conversations.
        ChappieGTKSignal.connect(window, "notify::is-active") { [unowned self] in
            guard gtk_window_is_active(window.cast()) != 0, !isEnding else { return }
            threads.refresh()
            talk.catchUp { [unowned self] in drawThread($0) }
        }
        ChappieGTKSignal.answer(window, "close-request") { [unowned self] in
            quit()
            return true
        }
        talk.changed = { [unowned self] in showTurn() }
        transcript.save = { [unowned self] shown in
            Task { if let error = await SavedFile.save(shown, outside: keeping, over: window) { tell(error) } }
        }
        showTurn()
        Task { await follow() }
    }

    /// The actions that parts of the window request. They are set when the window is complete.
    private final class Calls {
        var ask: @MainActor () -> Void = {}
        var tell: @MainActor (any ChappieError) -> Void = { _ in }
        var open: @MainActor (String) -> Void = { _ in }
        var openMenu: @MainActor (KeptLines.Line, Widget, (x: Double, y: Double)) -> Void = { _, _, _ in }
    }

    private static func client(_ settings: LaunchOptions, _ approvals: Approvals) -> ChappieClient {
        Chappie.client(
            configuration: settings.configuration, tools: settings.tools, store: settings.store,
            toolApprovalHandler: { await approvals.decide($0) })
    }

    func present() { gtk_window_present(window.cast()) }

    func attach(_ files: [String]) {
        composer.attachments.add(files)
        composer.focus()
    }

    /// Ends the program. The window closes at once. The process ends when a token that is being renewed is stored.
    func quit() {
        guard !isEnding else { return }
        isEnding = true
        session?.cancelSignIn()
        gtk_widget_set_visible(window, 0)
        Task {
            await talk.end()
            await session?.finishPendingWork()
            // The program ends with its last window.
            gtk_window_destroy(window.cast())
        }
    }

    // MARK: Signing in and out

    private func follow() async {
        let session = await Chappie.loadedAuthSession(configuration: settings.configuration, store: settings.store)
        self.session = session
        guard !isEnding else { return }
        gtk_spinner_stop(loading.cast())
        let button = ChappieSignInButton(session: session).widget
        gtk_widget_set_halign(button, GTK_ALIGN_CENTER)
        gtk_box_append(welcome.cast(), button)
        ChappieGTKSignal.connect(button, "map") { gtk_widget_grab_focus(button) }
        var wasSignedIn: Bool?
        for await state in session.stateUpdates where !isEnding {
            gtk_label_set_text(reason.cast(), explanation(of: state, session))
            // The credential still exists, for instance when a keyring is locked.
            var isUnread: Bool { if case .failed = state { session.lastStoreError != nil } else { false } }
            retry.setVisible(isUnread)
            let details = [session.accountInfo?.email, session.accountInfo?.plan?.displayName].compactMap { $0 }
            gtk_label_set_text(account.cast(), details.joined(separator: " · "))
            account.setVisible(!details.isEmpty)
            follow(state == .signedOut ? nil : session.accountInfo, isSignedOut: state == .signedOut)
            guard state.isSignedIn != wasSignedIn else { continue }
            wasSignedIn = state.isSignedIn
            // A GtkStack is not suitable because a screen reader also reads its hidden pages with GTK 4.8.
            loading.setVisible(false)
            chat.setVisible(state.isSignedIn)
            welcome.setVisible(!state.isSignedIn)
            for name in ["new", "sign-out", "threads", "attach"] {
                g_simple_action_set_enabled(actions[name], state.isSignedIn ? 1 : 0)
            }
            if state.isSignedIn {
                tell(nil)
                composer.focus()
            }
        }
    }

    /// Switches to the conversations of `account`. Each account has its own conversations and does not see those of
    /// others.
    private func follow(_ account: ChappieAccountInfo?, isSignedOut: Bool) {
        guard let account else {
            if isSignedOut, owner != nil || keeping != nil { changeOwner(to: nil) }
            return
        }
        let isSame = owner?.isSameAccount(as: account) ?? false
        if isSame { owner = account } else { changeOwner(to: account) }
    }

    private func changeOwner(to account: ChappieAccountInfo?) {
        let had = owner != nil
        owner = account
        keeping = account == nil ? nil : Keeping(settings)
        threads.keeping = keeping
        if account == nil { showThreads(false) }
        beginConversation()
        // The text in the entry belongs to another user.
        if had {
            composer.draft = ""
            composer.attachments.clear()
        }
        threads.refresh()
    }

    private func explanation(of state: ChappieAuthState, _ session: ChappieAuthSession) -> String {
        switch state {
        case .failed(let sentence): sentence
        case .reauthenticationRequired: session.lastError?.errorDescription ?? "Your sign-in has run out."
        default: "Use your own ChatGPT account. This window talks directly to the service."
        }
    }

    private func signOut() {
        Task {
            do {
                try await session?.signOutAndRevoke()
            } catch {
                tell(error, after: "Signing out was not completed.")
            }
        }
    }

    // MARK: Talking

    private func beginConversation() {
        talk.leave()
        failed = nil
        talk = Talk(Self.client(settings, approvals), keeping, transcript)
        talk.changed = { [unowned self] in showTurn() }
        transcript.clear()
        tell(nil)
        showTurn()
        composer.focus()
    }

    private func openThread(_ id: String) {
        beginConversation()
        if columns.isNarrow { showThreads(false) }
        drawThread(id)
    }

    private func drawThread(_ id: String) {
        failed = nil
        talk.open(id) { [unowned self] message, sentence in
            markFailed(Question(message: message), sentence)
        } fail: { [unowned self] in
            tell($0)
        }
    }

    /// Ends the conversation on the screen if it is this one, and waits until nothing more is kept.
    private func leaveThread(_ id: String) async {
        let talk = talk
        guard await talk.threadID == id else { return }
        if talk === self.talk { beginConversation() }
        await talk.end()
    }

    private func ask() {
        let (text, attachments) = (composer.draft, composer.attachments)
        guard talk.turn == nil || talk.isAnswering, !text.allSatisfy(\.isWhitespace) || !attachments.isEmpty else {
            return
        }
        guard !attachments.isReading else {
            return tell(WindowError("A file is still being read.", "Send the message in a moment, or remove the file."))
        }
        composer.draft = ""
        let (message, contents) = attachments.message(text)
        let question = Question(message: message, contents: contents)
        if talk.isAnswering { return steer(question) }
        ask(question, isRetry: question.message == failed?.message)
    }

    /// Gives the running answer the message. If the answer is complete, the message is put back.
    private func steer(_ question: Question) {
        let talk = talk
        Task {
            guard await !talk.steer(question.message), talk === self.talk, composer.draft.isEmpty else { return }
            composer.draft = question.message.text
            composer.attachments.putBack(question.contents)
        }
    }

    /// A question that can be asked again.
    private struct Question {
        let message: ChappieInputMessage
        var contents: [(name: String, content: Attachments.Content)] = []
    }

    private func ask(_ question: Question, isRetry: Bool) {
        tell(nil)
        if isRetry { transcript.removeFailed() } else { transcript.keepFailed() }
        failed = nil
        let names = question.contents.map { "Attached: \($0.name)" }
        let lines = names.isEmpty ? [question.message.shown] : [question.message.text] + names
        transcript.beginQuestion(lines.filter { !$0.isEmpty }.joined(separator: "\n"))
        talk.ask(question.message, composer.serviceTools, isRetry: isRetry) { [unowned self] error, isOver in
            tell(error)
            guard isOver else { return }
            markFailed(question, (error as? any ChappieError)?.errorDescription ?? "This question failed.")
            guard composer.draft.isEmpty, composer.attachments.isEmpty else { return }
            composer.draft = question.message.text
            composer.attachments.putBack(question.contents)
        }
    }

    /// Marks the last question as failed and offers to ask it again.
    private func markFailed(_ question: Question, _ sentence: String) {
        failed = question
        transcript.markFailed(sentence) { [unowned self] in
            guard talk.turn == nil, let failed else { return }
            if composer.draft == failed.message.text {
                composer.draft = ""
                composer.attachments.clear()
            }
            ask(failed, isRetry: true)
        }
    }

    private func showTurn() {
        let isRunning = talk.turn != nil
        let focus = gtk_window_get_focus(window.cast())
        send.setVisible(!isRunning)
        stop.setVisible(isRunning)
        running.setVisible(talk.isAnswering)
        // A spinner draws 60 times a second, even if it is hidden.
        gtk_spinner_set_spinning(spinner.cast(), talk.isAnswering ? 1 : 0)
        g_simple_action_set_enabled(actions["send"], isRunning && !talk.isAnswering ? 0 : 1)
        g_simple_action_set_enabled(actions["stop"], isRunning ? 1 : 0)
        // The pressed button is hidden now. If the focus is elsewhere, the user may be typing or reading.
        if focus == nil || focus == send || focus == stop { composer.focus() }
        if !isRunning { threads.refresh() }
    }

    /// Shows the user on the current page what went wrong and what to do. `nil` hides the message.
    private func tell(_ error: (any Error)?, after beginning: String? = nil) {
        // A sign-out may fail after the window has closed.
        guard !isEnding else { return }
        let text = [beginning, (error as? any ChappieError)?.explanation].compactMap(\.self).joined(separator: " ")
        let isTalking = gtk_widget_get_visible(chat) != 0
        gtk_label_set_text(problemSentence.cast(), text)
        problem.setVisible(error != nil && isTalking)
        if error != nil, !isTalking { gtk_label_set_text(reason.cast(), text) }
    }

    private func showThreads(_ isShown: Bool) {
        threads.show(isShown)
        columns.fit()
        if !isShown { composer.focus() }
    }

    // MARK: Actions

    private func addActions() {
        action("send", keys: []) { [unowned self] in ask() }
        action("stop", keys: ["Escape"]) { [unowned self] in talk.stop() }
        action("attach", keys: ["<Control>o"]) { [unowned self] in
            Task { attach(await Dialogue.chooseFiles("Attach files", over: window)) }
        }
        action("dismiss", keys: []) { [unowned self] in
            tell(nil)
            composer.focus()
        }
        action("retry", keys: []) { [unowned self] in Task { await session?.reload() } }
        action("new", keys: ["<Control>n"]) { [unowned self] in
            if columns.isNarrow { showThreads(false) }
            beginConversation()
        }
        action("threads", keys: ["F9"]) { [unowned self] in showThreads(!threads.isShown) }
        for (name, body) in menu?.actions ?? [] { action(name, keys: [], body) }
        action("sign-out", keys: []) { [unowned self] in signOut() }
        action("quit", keys: ["<Control>q", "<Control>w"]) { [unowned self] in quit() }
    }

    private func action(_ name: String, keys: [String], _ body: @escaping @MainActor () -> Void) {
        guard let action = g_simple_action_new(name, nil) else { return }
        ChappieGTKSignal.connect(UnsafeMutableRawPointer(action), "activate", body)
        g_action_map_add_action(window.cast(), action)
        g_object_unref(UnsafeMutableRawPointer(action))
        actions[name] = action
        var words = keys.map { UnsafePointer(strdup($0)) } + [nil]
        gtk_application_set_accels_for_action(gtk_window_get_application(window.cast()), "win.\(name)", &words)
        for word in words { free(UnsafeMutablePointer(mutating: word)) }
    }
}

/// An opener that asks the desktop to open the page of a link and reports what went wrong.
@MainActor
private final class Opening {
    private let browser: ChappieGTKBrowser
    var refuse: @MainActor (any Error) -> Void = { _ in }

    init(_ browser: ChappieGTKBrowser) { self.browser = browser }

    func open(_ url: URL) {
        Task {
            do {
                try await browser.open(url)
            } catch {
                refuse(error)
            }
        }
    }
}
