import CGtk4
import ChappieMarkdown
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The conversation as text that can be selected. Answers are Markdown. The unfinished block is shown as plain text and
/// is replaced when it is complete. The pieces of an answer are added together, a few times a second.
@MainActor
final class TranscriptView {
    private let view: UnsafeMutablePointer<GtkTextView>
    private let buffer: UnsafeMutablePointer<GtkTextBuffer>
    private let end: UnsafeMutablePointer<GtkTextMark>
    private let scroll: UnsafeMutablePointer<GtkAdjustment>
    private let writer: BlockWriter

    private var reader = MarkdownReader()
    /// Whether the text is the model's commentary on its work, in addition to the answer.
    private var isCommentary = false
    private var gathered = ""
    private var isPausing = false
    /// The start of the unfinished block.
    private var unfinished: gint?
    /// The number of bytes since the last break in the unfinished block.
    private var unbroken = 0
    /// The places of the tools' marks that are not ticked yet.
    private var steps: [String: UnsafeMutablePointer<GtkTextMark>] = [:]

    private var position = 0.0
    private var height = 0.0
    private var page = 0.0
    /// Whether the end stays visible. It stays visible until the user scrolls up to read.
    private var followsEnd = true
    private var width: gint = 0
    /// Whether GTK still lays the text out for a new size of the view. In the meantime it moves the view by itself.
    private var isSettling = false

    /// The starts of the last question and of the name above its answer.
    private let question, answer: UnsafeMutablePointer<GtkTextMark>
    private var retryButton: Widget?
    /// Lets the user save a picture.
    var save: @MainActor (ShownPicture) -> Void = { _ in }

    /// - Parameter open: asks the desktop to open the page of a link that the user has chosen.
    init(
        _ view: UnsafeMutablePointer<GtkTextView>, in scroller: OpaquePointer, _ browser: ChappieGTKBrowser,
        open: @escaping @MainActor (URL) -> Void
    ) {
        self.view = view
        buffer = gtk_text_view_get_buffer(view)
        scroll = gtk_scrolled_window_get_vadjustment(scroller)
        writer = BlockWriter(view, browser, open: open)
        var last = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &last)
        end = gtk_text_buffer_create_mark(buffer, nil, &last, 0)
        question = gtk_text_buffer_create_mark(buffer, nil, &last, 1)
        answer = gtk_text_buffer_create_mark(buffer, nil, &last, 1)
        LongLines.leaveOutOfCopies(of: view)
        TranscriptLinks.follow(view, writer, open)
        ChappieGTKSignal.connect(scroll, "value-changed") { [weak self] in
            self?.noticeScrolling()
            self?.writer.followLayout()
        }
        ChappieGTKSignal.connect(scroll, "changed") { [weak self] in self?.followHeight() }
    }

    // MARK: Messages

    /// Begins a question of the user.
    func beginQuestion(_ text: String) {
        begin("You", at: question)
        writer.insert(text, [])
        showEnd()
    }

    /// Begins an answer.
    func beginAnswer() { begin("ChatGPT", at: answer) }

    /// Adds a message that the user sent during the answer, which continues below it.
    func addSteering(_ text: String) {
        begin("You")
        writer.insert(text, [])
        begin("ChatGPT")
    }

    private func begin(_ name: String, at mark: UnsafeMutablePointer<GtkTextMark>? = nil) {
        finish()
        followsEnd = true
        if let mark {
            var last = GtkTextIter()
            gtk_text_buffer_get_end_iter(buffer, &last)
            gtk_text_buffer_move_mark(buffer, mark, &last)
        }
        writer.startLine()
        writer.paragraph(name, [.speaker], above: 18)
        writer.insert("\n", [])
        showEnd()
    }

    /// Marks the last question as one without a complete answer, with a button that asks it again.
    func markFailed(_ sentence: String, retry: @escaping @MainActor () -> Void) {
        note("✗ \(sentence)")
        retryButton = writer.button("Retry", retry)
        showEnd()
    }

    /// Removes the question that was marked as failed, because it is asked again.
    func removeFailed() {
        finish()
        writer.remove(from: offset(of: question))
        retryButton = nil
    }

    /// Leaves the question that was marked as failed, which can't be asked again after another one.
    func keepFailed() {
        retryButton?.setVisible(false)
        retryButton = nil
    }

    /// Removes the name above an answer without text.
    func removeEmptyAnswer() {
        finish()
        let start = offset(of: answer)
        if writer.end - start <= gint("\nChatGPT\n".count) { writer.remove(from: start) }
    }

    private func offset(of mark: UnsafeMutablePointer<GtkTextMark>) -> gint {
        var iter = GtkTextIter()
        gtk_text_buffer_get_iter_at_mark(buffer, &iter, mark)
        return gtk_text_iter_get_offset(&iter)
    }

    /// Adds a sentence of the program, which is not part of the conversation.
    func note(_ text: String) {
        finish()
        noticeScrolling()
        writer.paragraph(text, [.dim], above: 6)
        showEnd()
    }

    /// Writes a complete kept answer.
    func write(_ blocks: [MarkdownBlock], isCommentary: Bool = false) {
        for block in blocks { writer.write(block, isDim: isCommentary) }
        showEnd()
    }

    /// Adds a picture, with a button that saves it.
    func add(_ picture: ShownPicture) {
        finish()
        noticeScrolling()
        guard let (card, fit) = PictureCard.make(picture, save: { [unowned self] in save(picture) }) else { return }
        writer.add(card, fit)
        showEnd()
    }

    /// Adds the pages that an answer is from. Their addresses are visible, because a title may be any text.
    func add(_ sources: [ChappieSource]) {
        guard !sources.isEmpty else { return }
        note("Sources:")
        for (index, source) in sources.enumerated() {
            let title = source.title.map { $0.oneLine + ": " } ?? ""
            let address = source.url.oneLine
            let runs = [MarkdownRun(text: "\(index + 1). \(title)"), MarkdownRun(text: address, link: address)]
            writer.write(.paragraph(runs), isDim: true)
        }
        showEnd()
    }

    // MARK: An answer

    /// The time between two changes of the text, in milliseconds. Each change costs a layout and a drawing of the
    /// entire page.
    private static let pause: guint = 150

    /// Adds text of an answer. The first piece is shown at once, and later pieces are shown together after a pause.
    func append(_ text: String, isCommentary: Bool = false) {
        if isCommentary != self.isCommentary { finish() }
        self.isCommentary = isCommentary
        gathered += text
        guard !isPausing else { return }
        showGathered()
        isPausing = true
        // GLib releases the transcript after the pause.
        g_timeout_add_full(
            G_PRIORITY_DEFAULT, Self.pause,
            { data in
                guard let data else { return 0 }
                let transcript = Unmanaged<TranscriptView>.fromOpaque(data).takeUnretainedValue()
                return MainActor.assumeIsolated { transcript.endPause() ? 1 : 0 }
            }, Unmanaged.passRetained(self).toOpaque(),
            { $0.map { Unmanaged<TranscriptView>.fromOpaque($0).release() } })
    }

    /// Ends the pause and returns whether another pause begins. Without text none begins.
    private func endPause() -> Bool {
        isPausing = !gathered.isEmpty
        showGathered()
        return isPausing
    }

    /// Ends the answer or the message about the work.
    func finish() {
        showGathered()
        noticeScrolling()
        for event in reader.finish() { draw(event) }
        reader = MarkdownReader()
        isCommentary = false
        showEnd()
    }

    private func showGathered() {
        guard !gathered.isEmpty else { return }
        noticeScrolling()
        for event in reader.append(gathered) { draw(event) }
        gathered = ""
        breakLine()
        showEnd()
    }

    private func draw(_ event: MarkdownReader.Event) {
        switch event {
        case .grew(let text): grow(text)
        case .block(let block):
            removeUnfinished()
            writer.write(block, isDim: isCommentary)
        case .codeBegan(let language):
            removeUnfinished()
            writer.beginCode(language)
        case .code(let line): writer.addCode(line)
        case .codeEnded: writer.endCode()
        }
    }

    private func grow(_ text: String) {
        let names: [TranscriptTags.Name] = isCommentary ? [.dim] : []
        if unfinished == nil {
            // A blank line before a block does not count as text.
            guard text.contains(where: { !$0.isWhitespace }) else { return }
            unfinished = writer.end
            unbroken = 0
            writer.paragraph(text, names)
        } else {
            writer.insert(text, names.isEmpty ? [] : writer.tagged(names))
        }
        unbroken += text.utf8.count
    }

    private func removeUnfinished() {
        if let unfinished { writer.remove(from: unfinished) }
        unfinished = nil
    }

    /// The maximum length of a paragraph, in bytes, that GTK lays out again with each piece.
    private static let longest = 500

    /// Breaks a long unfinished paragraph before its last row, which looks the same. GTK lays out the entire paragraph
    /// for each piece that is added to it, so that the cost of a long one would be the square of its length.
    private func breakLine() {
        guard unbroken > Self.longest, let unfinished else { return }
        var row = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &row)
        gtk_text_view_backward_display_line_start(view, &row)
        guard gtk_text_iter_get_offset(&row) > unfinished, gtk_text_iter_starts_line(&row) == 0 else { return }
        let rest = writer.end - gtk_text_iter_get_offset(&row)
        gtk_text_buffer_insert(buffer, &row, "\n", 1)
        unbroken = Int(rest)
    }

    // MARK: Steps

    /// Begins the steps of a tool call.
    func beginSteps(_ id: String, _ names: [String]) {
        for (index, name) in names.enumerated() { beginStep("\(id) \(index)", name) }
    }

    /// Ends the steps of a tool call, of which there are `count`.
    func endSteps(_ id: String, _ count: Int, mark: String, _ words: String = "") {
        for index in 0..<count { endStep("\(id) \(index)", mark: mark, words) }
    }

    /// Begins the step of a tool that the model has called.
    private func beginStep(_ id: String, _ name: String) {
        finish()
        noticeScrolling()
        writer.paragraph("○ \(name)", [.dim], above: 4)
        var place = GtkTextIter()
        gtk_text_buffer_get_iter_at_offset(buffer, &place, writer.end - gint("○ \(name)".unicodeScalars.count))
        steps[id] = gtk_text_buffer_create_mark(buffer, nil, &place, 1)
        showEnd()
    }

    /// Ends a step and replaces its mark. Steps can end in any order.
    private func endStep(_ id: String, mark: String, _ words: String) {
        guard let place = steps.removeValue(forKey: id) else { return }
        var (first, next) = (GtkTextIter(), GtkTextIter())
        gtk_text_buffer_get_iter_at_mark(buffer, &next, place)
        gtk_text_iter_forward_char(&next)
        // The new mark gets the tags of the old one because it is inserted after it.
        writer.insert(mark, at: &next)
        gtk_text_buffer_get_iter_at_mark(buffer, &first, place)
        next = first
        gtk_text_iter_forward_char(&next)
        gtk_text_buffer_delete(buffer, &first, &next)
        if !words.isEmpty {
            if gtk_text_iter_ends_line(&first) == 0 { gtk_text_iter_forward_to_line_end(&first) }
            writer.insert(words, at: &first)
        }
        gtk_text_buffer_delete_mark(buffer, place)
    }

    func hasSteps(_ id: String) -> Bool { steps["\(id) 0"] != nil }

    func clear() {
        gathered = ""
        reader = MarkdownReader()
        isCommentary = false
        unfinished = nil
        for mark in steps.values { gtk_text_buffer_delete_mark(buffer, mark) }
        steps = [:]
        retryButton = nil
        writer.clear()
    }

    /// Sets the width of the column of text, in pixels.
    func setWidth(_ width: Int) {
        writer.setWidth(width)
        settle()
    }

    // MARK: Scrolling

    private func showEnd() { if followsEnd { gtk_text_view_scroll_mark_onscreen(view, end) } }

    /// Keeps the end visible. The height of the text is known only when GTK has laid it out.
    private func followHeight() {
        noticeScrolling()
        if followsEnd { gtk_adjustment_set_value(scroll, height - page) }
        writer.followLayout()
    }

    /// Notices whether the user has scrolled. Growing text moves the view down. If the view moved up, the user did it,
    /// unless the window has grown or a block has replaced a longer one. Then less text is above.
    private func noticeScrolling() {
        let before = (position, height, page)
        position = gtk_adjustment_get_value(scroll)
        height = gtk_adjustment_get_upper(scroll)
        page = gtk_adjustment_get_page_size(scroll)
        let newWidth = gtk_widget_get_width(OpaquePointer(view).widget)
        if newWidth != width || page != before.2 { settle() }
        width = newWidth
        guard !isSettling else { return }
        if position < before.0 - 1, height >= before.1 { followsEnd = false }
        if position + page >= height - 1 { followsEnd = true }
    }

    /// Waits until GTK has laid the text out for a new size, which it does when nothing else is to be done.
    private func settle() {
        guard !isSettling else { return }
        isSettling = true
        MainLoop.whenIdle(for: OpaquePointer(view).widget) { [weak self] in
            self?.followHeight()
            self?.isSettling = false
        }
    }
}
