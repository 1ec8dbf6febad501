import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The window, with a page for signing in and a page for the conversation.
@MainActor
final class ChatWindow {
    private typealias Widget = UnsafeMutablePointer<GtkWidget>

    private let window, loading, welcome, chat, reason, retry, account: Widget
    private let entry, send, stop, bar, problem, problemSentence: Widget
    private let transcript: Transcript
    private var actions: [String: OpaquePointer] = [:]

    private let makeClient: @MainActor () -> ChappieClient
    /// The client of the present conversation.
    private var client: ChappieClient
    private var session: ChappieAuthSession?
    /// The account that the conversation belongs to.
    private var owner: ChappieAccountInfo?
    private var turn: Task<Void, Never>?
    /// Whether the window has left the screen forever.
    private(set) var isEnding = false

    init(
        _ application: UnsafeMutablePointer<GtkApplication>, configuration: ChappieConfiguration,
        store: ChappieCredentialStorage
    ) {
        makeClient = { Chappie.client(configuration: configuration, store: store) }
        client = makeClient()
        let builder = gtk_builder_new_from_string(Self.layout, -1)
        defer { g_object_unref(UnsafeMutableRawPointer(builder)) }
        func widget(_ id: String) -> Widget {
            UnsafeMutableRawPointer(gtk_builder_get_object(builder, id)).assumingMemoryBound(to: GtkWidget.self)
        }
        window = widget("window")
        loading = widget("loading")
        welcome = widget("welcome")
        chat = widget("chat")
        reason = widget("reason")
        retry = widget("retry")
        account = widget("account")
        entry = widget("entry")
        send = widget("send")
        stop = widget("stop")
        bar = widget("bar")
        problem = widget("problem")
        problemSentence = widget("problem-sentence")
        let view: UnsafeMutablePointer<GtkTextView> = widget("transcript").cast()
        transcript = Transcript(view, in: widget("scroller").cast())

        gtk_window_set_application(window.cast(), application)
        action("send", keys: []) { [unowned self] in ask() }
        action("stop", keys: ["Escape"]) { [unowned self] in turn?.cancel() }
        action("dismiss", keys: []) { [unowned self] in
            tell(nil)
            focusEntry()
        }
        action("retry", keys: []) { [unowned self] in Task { await session?.reload() } }
        action("new", keys: ["<Control>n"]) { [unowned self] in beginConversation() }
        action("sign-out", keys: []) { [unowned self] in signOut() }
        action("quit", keys: ["<Control>q", "<Control>w"]) { [unowned self] in quit() }
        ChappieGTKSignal.connect(entry, "activate") { [unowned self] in ask() }
        ChappieGTKSignal.answer(window, "close-request") { [unowned self] in
            quit()
            return true
        }
        keepLinesShort(in: view)
        showTurn()
        Task { await follow(configuration, store) }
    }

    func present() { gtk_window_present(window.cast()) }

    /// Ends the program: the window closes at once. The process ends when a token that is being renewed is stored.
    func quit() {
        guard !isEnding else { return }
        isEnding = true
        session?.cancelSignIn()
        turn?.cancel()
        gtk_widget_set_visible(window, 0)
        Task {
            await turn?.value
            await client.disconnect()
            await session?.finishPendingWork()
            // The program ends with its last window.
            gtk_window_destroy(window.cast())
        }
    }

    // MARK: Signing in and out

    private func follow(_ configuration: ChappieConfiguration, _ store: ChappieCredentialStorage) async {
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: store)
        self.session = session
        guard !isEnding else { return }
        // A spinner draws 60 times a second, even if it is hidden.
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
            gtk_widget_set_visible(retry, isUnread ? 1 : 0)
            let details = [session.accountInfo?.email, session.accountInfo?.plan?.displayName].compactMap { $0 }
            gtk_label_set_text(account.cast(), details.joined(separator: " · "))
            gtk_widget_set_visible(account, details.isEmpty ? 0 : 1)
            if state == .signedOut { forgetConversation() }
            if let account = session.accountInfo {
                if let owner, !owner.isSameAccount(as: account) { forgetConversation() }
                owner = account
            }
            guard state.isSignedIn != wasSignedIn else { continue }
            wasSignedIn = state.isSignedIn
            // A GtkStack does not fit: with GTK 4.8 a screen reader also reads its hidden pages.
            gtk_widget_set_visible(loading, 0)
            gtk_widget_set_visible(chat, state.isSignedIn ? 1 : 0)
            gtk_widget_set_visible(welcome, state.isSignedIn ? 0 : 1)
            for name in ["new", "sign-out"] { g_simple_action_set_enabled(actions[name], state.isSignedIn ? 1 : 0) }
            if state.isSignedIn {
                tell(nil)
                focusEntry()
            }
        }
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
        turn?.cancel()
        let old = client
        client = makeClient()
        Task { await old.disconnect() }
        transcript.clear()
        tell(nil)
        focusEntry()
    }

    /// Begins a conversation for another user. The text in the entry is deleted too.
    private func forgetConversation() {
        beginConversation()
        gtk_editable_set_text(entry.cast(), "")
    }

    private func ask() {
        let question = String(cString: gtk_editable_get_text(entry.cast()))
        guard turn == nil, !question.allSatisfy(\.isWhitespace) else { return }
        gtk_editable_set_text(entry.cast(), "")
        tell(nil)
        transcript.begin("You")
        transcript.append(question)
        transcript.begin("ChatGPT")
        turn = Task { [client, transcript] in
            // Another conversation may have begun in the meantime.
            var isShown: Bool { client === self.client }
            do {
                for try await event in client.stream(question) where isShown {
                    switch event {
                    case .textDelta(let piece): transcript.append(piece)
                    case .completed(let response) where response.status == .incomplete:
                        tell(ChappieClientError.responseFailed(response))
                    default: break
                    }
                }
            } catch is CancellationError {
                if isShown { transcript.append(" (stopped)") }
            } catch {
                if isShown { tell(error, giveBack: question) }
            }
            turn = nil
            showTurn()
        }
        showTurn()
    }

    private func showTurn() {
        let focus = gtk_window_get_focus(window.cast())
        gtk_widget_set_visible(send, turn == nil ? 1 : 0)
        gtk_widget_set_visible(stop, turn == nil ? 0 : 1)
        g_simple_action_set_enabled(actions["send"], turn == nil ? 1 : 0)
        g_simple_action_set_enabled(actions["stop"], turn == nil ? 0 : 1)
        // The pressed button has gone. If the focus is elsewhere, the user may be typing or reading.
        if focus == nil || focus == send || focus == stop { focusEntry() }
    }

    /// Does not select the text of the entry, as GTK would: the next key would then replace it.
    private func focusEntry() {
        if gtk_widget_get_mapped(entry) != 0 { gtk_entry_grab_focus_without_selecting(entry.cast()) }
    }

    /// Shows the user on the present page what went wrong and what to do; `nil` hides it. A failed question goes back
    /// into the entry and can be asked again: the conversation is the same as before it.
    private func tell(_ error: (any Error)?, after beginning: String? = nil, giveBack question: String? = nil) {
        // A sign-out may fail after the window has gone.
        guard !isEnding else { return }
        let text = [beginning, (error as? any ChappieError)?.explanation].compactMap(\.self).joined(separator: " ")
        let isTalking = gtk_widget_get_visible(chat) != 0
        gtk_label_set_text(problemSentence.cast(), text)
        gtk_widget_set_visible(problem, error != nil && isTalking ? 1 : 0)
        if error != nil, !isTalking { gtk_label_set_text(reason.cast(), text) }
        if let question, gtk_editable_get_text(entry.cast()).pointee == 0 {
            gtk_editable_set_text(entry.cast(), question)
            gtk_editable_set_position(entry.cast(), -1)
        }
    }

    // MARK: The window

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

    /// In a wide window the text stays in a column of a readable width.
    private func keepLinesShort(in view: UnsafeMutablePointer<GtkTextView>) {
        let window = window
        let bar = bar
        ChappieGTKSignal.connect(window, "realize") {
            guard let surface = gtk_native_get_surface(window.cast()) else { return }
            let set: @MainActor () -> Void = {
                let margin = max(24, (gdk_surface_get_width(surface) - 720) / 2)
                gtk_text_view_set_left_margin(view, margin)
                gtk_text_view_set_right_margin(view, margin)
                gtk_widget_set_margin_start(bar, margin)
                gtk_widget_set_margin_end(bar, margin)
            }
            ChappieGTKSignal.connect(UnsafeMutableRawPointer(surface), "notify::width", set)
            set()
        }
    }
}
