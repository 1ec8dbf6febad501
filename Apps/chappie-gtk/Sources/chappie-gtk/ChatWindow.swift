import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The window: a page to sign in on, and one to talk on.
@MainActor
final class ChatWindow {
    private typealias Widget = UnsafeMutablePointer<GtkWidget>

    private let program: UnsafeMutablePointer<GApplication>
    private let window, loading, welcome, chat, reason, account: Widget
    private let entry, send, stop, bar, problem, problemSentence: Widget
    private let transcript: Transcript
    private var actions: [String: OpaquePointer] = [:]

    private let makeClient: @MainActor () -> ChappieClient
    /// One for each conversation.
    private var client: ChappieClient
    private var session: ChappieAuthSession?
    private var turn: Task<Void, Never>?
    private var isEnding = false

    init(
        _ application: UnsafeMutablePointer<GtkApplication>, configuration: ChappieConfiguration,
        store: ChappieCredentialStorage
    ) {
        program = UnsafeMutableRawPointer(application).assumingMemoryBound(to: GApplication.self)
        makeClient = { Chappie.client(configuration: configuration, store: store) }
        client = makeClient()
        let builder = gtk_builder_new_from_string(Self.layout, -1)
        defer { g_object_unref(UnsafeMutableRawPointer(builder)) }
        func widget(_ id: String) -> Widget {
            UnsafeMutableRawPointer(gtk_builder_get_object(builder, id)).assumingMemoryBound(to: GtkWidget.self)
        }
        (window, loading, welcome, chat) = (widget("window"), widget("loading"), widget("welcome"), widget("chat"))
        reason = widget("reason")
        (account, entry, send, stop) = (widget("account"), widget("entry"), widget("send"), widget("stop"))
        (bar, problem, problemSentence) = (widget("bar"), widget("problem"), widget("problem-sentence"))
        let view = UnsafeMutableRawPointer(widget("transcript")).assumingMemoryBound(to: GtkTextView.self)
        transcript = Transcript(view, in: OpaquePointer(widget("scroller")))

        gtk_window_set_application(top, application)
        action("send", keys: []) { [unowned self] in ask() }
        action("stop", keys: ["Escape"]) { [unowned self] in turn?.cancel() }
        action("dismiss", keys: []) { [unowned self] in tell(nil) }
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

    private var top: UnsafeMutablePointer<GtkWindow> {
        UnsafeMutableRawPointer(window).assumingMemoryBound(to: GtkWindow.self)
    }

    func present() { gtk_window_present(top) }

    /// Ends the program: the window goes at once, the process when a token that is being renewed is stored.
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
            // It was the program's last window.
            gtk_window_destroy(top)
        }
    }

    // MARK: Signing in and out

    private func follow(_ configuration: ChappieConfiguration, _ store: ChappieCredentialStorage) async {
        let session = await Chappie.loadedAuthSession(configuration: configuration, store: store)
        self.session = session
        guard !isEnding else { return }
        // A spinner draws 60 times a second, hidden or not.
        gtk_spinner_stop(OpaquePointer(loading))
        let button = ChappieSignInButton(session: session).widget
        gtk_widget_set_halign(button, GTK_ALIGN_CENTER)
        gtk_box_append(UnsafeMutableRawPointer(welcome).assumingMemoryBound(to: GtkBox.self), button)
        ChappieGTKSignal.connect(button, "map") { gtk_widget_grab_focus(button) }
        var wasSignedIn: Bool?
        for await state in session.stateUpdates where !isEnding {
            gtk_label_set_text(OpaquePointer(reason), explanation(of: state, session))
            let details = [session.accountInfo?.email, session.accountInfo?.plan?.displayName].compactMap { $0 }
            gtk_label_set_text(OpaquePointer(account), details.joined(separator: " · "))
            gtk_widget_set_visible(account, details.isEmpty ? 0 : 1)
            guard state.isSignedIn != wasSignedIn else { continue }
            wasSignedIn = state.isSignedIn
            if state == .signedOut { beginConversation() }
            // Not a GtkStack: GTK 4.8 tells a screen reader of the pages that don't show.
            gtk_widget_set_visible(loading, 0)
            gtk_widget_set_visible(chat, state.isSignedIn ? 1 : 0)
            gtk_widget_set_visible(welcome, state.isSignedIn ? 0 : 1)
            for name in ["new", "sign-out"] { g_simple_action_set_enabled(actions[name], state.isSignedIn ? 1 : 0) }
            if state.isSignedIn { gtk_widget_grab_focus(entry) }
        }
    }

    private func explanation(of state: ChappieAuthState, _ session: ChappieAuthSession) -> String {
        switch state {
        case .failed(let sentence): sentence
        case .reauthenticationRequired: session.lastError?.errorDescription ?? "Your sign-in has run out."
        default: "Use your own ChatGPT account. Nothing stands between this window and the service."
        }
    }

    private func signOut() {
        Task {
            do { try await session?.signOutAndRevoke() } catch { tell(error) }
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
        gtk_widget_grab_focus(entry)
    }

    private func ask() {
        let question = String(cString: gtk_editable_get_text(OpaquePointer(entry)))
        guard turn == nil, !question.allSatisfy(\.isWhitespace) else { return }
        gtk_editable_set_text(OpaquePointer(entry), "")
        tell(nil)
        transcript.begin("You")
        transcript.append(question)
        transcript.begin("ChatGPT")
        turn = Task { [client, transcript] in
            // Another conversation may have begun before this one has noticed.
            var isShown: Bool { client === self.client }
            do {
                for try await piece in client.stream(question).text where isShown { transcript.append(piece) }
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
        gtk_widget_set_visible(send, turn == nil ? 1 : 0)
        gtk_widget_set_visible(stop, turn == nil ? 0 : 1)
        g_simple_action_set_enabled(actions["send"], turn == nil ? 1 : 0)
        g_simple_action_set_enabled(actions["stop"], turn == nil ? 0 : 1)
        if gtk_widget_get_mapped(entry) != 0 { gtk_widget_grab_focus(entry) }
    }

    /// What went wrong and what to do, above the entry; `nil` puts it away. A question that failed may be asked again: the
    /// conversation is as it was before it.
    private func tell(_ error: (any Error)?, giveBack question: String? = nil) {
        let words = error as? any LocalizedError
        let sentence = [words?.errorDescription, words?.recoverySuggestion].compactMap { $0 }.joined(separator: " ")
        gtk_label_set_text(OpaquePointer(problemSentence), sentence)
        gtk_info_bar_set_revealed(OpaquePointer(problem), error == nil ? 0 : 1)
        if let question, gtk_editable_get_text(OpaquePointer(entry)).pointee == 0 {
            gtk_editable_set_text(OpaquePointer(entry), question)
        }
    }

    // MARK: The window

    private func action(_ name: String, keys: [String], _ body: @escaping @MainActor () -> Void) {
        guard let action = g_simple_action_new(name, nil) else { return }
        ChappieGTKSignal.connect(UnsafeMutableRawPointer(action), "activate", body)
        g_action_map_add_action(OpaquePointer(window), action)
        g_object_unref(UnsafeMutableRawPointer(action))
        actions[name] = action
        var words = keys.map { UnsafePointer(strdup($0)) } + [nil]
        gtk_application_set_accels_for_action(gtk_window_get_application(top), "win.\(name)", &words)
        for word in words { free(UnsafeMutablePointer(mutating: word)) }
    }

    /// In a wide window the text stays a column that can be read.
    private func keepLinesShort(in view: UnsafeMutablePointer<GtkTextView>) {
        let (window, bar) = (window, bar)
        ChappieGTKSignal.connect(window, "realize") {
            guard let surface = gtk_native_get_surface(OpaquePointer(window)) else { return }
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
