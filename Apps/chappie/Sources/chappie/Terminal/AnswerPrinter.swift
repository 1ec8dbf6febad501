import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
import ChappieSDK
import FoundationEssentials
import Glibc

/// A printer for a streamed answer. It prints text to standard output and everything else to standard error, or it
/// prints JSON lines. It shows the model's commentary only on a terminal.
struct AnswerPrinter {
    private let console: Console
    private let options: GlobalOptions
    /// The stream that draws the text, or `nil` if the text is written unchanged.
    private var markdown: MarkdownStream?
    private let showsText: Bool
    private let showsTools: Bool
    /// Whether the text is shown as it arrives. Otherwise it is shown when the answer is complete.
    private let streams: Bool
    /// The text that is not shown yet, because it does not stream.
    private var unshown = ""
    /// The writer of text for a pipe, or `nil` if the text goes to a terminal or is drawn.
    private let held: HeldText?
    private let onApproval: (@Sendable (ChappieApprovalRequest) -> Void)?
    /// The response. `nil` while the answer is incomplete.
    private(set) var response: ChappieResponse?
    private(set) var transport = TransportSummary()
    /// The state of keeping the answer, or `nil` if it is not kept.
    var keeping: AnswerKeeping?
    /// Saves and shows the pictures that the model makes.
    var pictures: MadePictures?
    private var isAtLineStart = true
    private var hasText = false
    private var isCommentary = false
    /// Whether the user has sent a message for the next request.
    private var isSteered = false
    /// Whether text that is written unchanged needs a blank line above it.
    private var needsGap = false
    /// The limits that the answer reported, or `nil` if it did not report any.
    private(set) var limits: ChappieUsageLimitSnapshot?
    /// The call whose arguments are being written, with the progress so far.
    private var written = (callID: "", byteCount: 0, nextNote: 0)
    private let waiting: WaitingStatus

    /// - Parameters:
    ///   - markdown: the stream that draws the text, or `nil` if the text is written unchanged.
    ///   - showsText: `false` keeps the text back. The caller prints the part that it needs.
    ///   - showsTools: whether calls of tools are noted.
    ///   - streams: whether the text is shown as it arrives, and not when the answer is complete.
    ///   - onApproval: is called for each question to the user when all text before it is written.
    init(
        _ console: Console, _ options: GlobalOptions, markdown: MarkdownStream? = nil, showsText: Bool = true,
        showsTools: Bool = false, streams: Bool = true,
        onApproval: (@Sendable (ChappieApprovalRequest) -> Void)? = nil
    ) {
        self.onApproval = onApproval
        self.console = console
        waiting = WaitingStatus(console)
        self.options = options
        self.showsText = showsText
        self.markdown = options.json || !showsText ? nil : markdown
        self.showsTools = showsTools
        self.streams = streams
        held = console.terminals.output || self.markdown != nil ? nil : HeldText(console)
    }

    /// Prints the entire stream.
    mutating func print(_ events: AsyncThrowingStream<ChappieStreamEvent, any Error>) async throws {
        if !options.json { showStatus("Waiting for the answer…") }
        let ticking = Task { [waiting] in await waiting.run() }
        defer {
            ticking.cancel()
            noteWhatIsNotKept()
            showRest()
            finishLine()
        }
        for try await event in events {
            switch event {
            // These events do not record anything.
            case .textDelta, .toolArgumentsDelta: break
            default: noteWhatIsNotKept()
            }
            if case .transport(let event) = event { transport.received(event) }
            if case .completed(let whole) = event { response = whole }
            if case .notice(let notice) = event { note(notice) }
            if options.json { console.json(line(event)) } else { show(event) }
            if case .approvalRequested(let request) = event { onApproval?(request) }
            if case .toolCallCompleted(let result) = event, !result.steps.isEmpty {
                finishLine()
                await pictures?.save(result)
            }
        }
    }

    private func line(_ event: ChappieStreamEvent) -> ChappieJSON {
        guard case .completed(let response) = event, var object = event.json.object else { return event.json }
        if !response.sources.isEmpty { object["sources"] = .array(response.sources.map(\.json)) }
        object["transport"] = transport.json
        object["thread"] = keeping?.keptThread.map(ChappieJSON.string)
        return .object(object)
    }

    /// Prints a notice on standard error, for scripts as well.
    private mutating func note(_ notice: ChappieNotice) {
        finishLine()
        console.note("chappie: \(notice.message)")
    }

    private mutating func noteWhatIsNotKept() {
        guard let notice = keeping?.news() else { return }
        note(notice)
        if options.json { console.json(ChappieStreamEvent.notice(notice).json) }
    }

    private mutating func show(_ event: ChappieStreamEvent) {
        switch event {
        case .textDelta where !showsText:
            if !hasText { showStatus("Writing…") }
            hasText = true
        case .textDelta(let text) where !streams:
            if unshown.isEmpty { showStatus("Writing…") }
            unshown += text
        case .textDelta(let text): showText(text)
        case .commentaryDelta where !showsText || !streams || !console.terminals.output: showStatus("Working…")
        case .commentaryDelta(let text):
            begin(commentary: true)
            if markdown != nil { return draw(text) }
            isAtLineStart = text.utf8.last == UInt8(ascii: "\n")
            let clean = UntrustedText.forTerminal(text)
            console.draw(console.terminals.styles ? "\u{1B}[2m\(clean)\u{1B}[0m" : clean)
        case .item(let item) where item.phase == .commentary && isCommentary:
            finishLine()
            needsGap = true
        case .item(let item) where item.webSearch != nil: showStep(item.webSearch?.sentence)
        case .restarted(let discarded): restart(after: discarded)
        case .created where isSteered && hasText:
            // Another answer follows, which heeds the user's message.
            finishLine()
            needsGap = true
            isSteered = false
        case .steered(let message): noteSteering(message)
        case .reasoningSummaryDelta: showStatus("Thinking…")
        case .toolArgumentsDelta(let piece): showProgress(of: piece)
        case .transport(.reconnecting(let attempt, let maximum, _)):
            showStatus("The connection broke; trying again (\(attempt) of \(maximum))…")
        case .transport(.fellBack): showStatus("Continuing without WebSocket…")
        case .transport(.waiting(let attempt, let maximum, let delay)):
            if markdown != nil { finishLine() }
            console.note(
                "chappie: the service is busy; trying again in \(Int(delay.inSeconds.rounded(.up))) s (\(attempt) of \(maximum))"
            )
        case .approvalRequested: finishLine()
        case .toolCallRequested(let request):
            if hasText {
                finishLine()
                needsGap = true
            }
            for step in request.steps { show(step) }
            if showsTools, request.steps.isEmpty { console.note("· \(request.call.line)") }
        case .toolCallCompleted(let result) where showsTools && result.outcome != .succeeded && result.steps.isEmpty:
            finishLine()
            console.note("· \(result.call.shownName): \(result.outcome.rawValue)")
        case .usageLimits(let snapshot): limits = snapshot
        case .completed(let response): finish(response)
        default: break
        }
    }

    /// Shows what a tool of the service does.
    private mutating func show(_ step: ChappieServiceStep) {
        showStep(step.sentence)
        // A picture takes minutes.
        if case .image = step { showStatus("Drawing…") }
    }

    private func showStep(_ sentence: String?) {
        let step = UntrustedText.message(sentence, limit: 200) ?? "Used the web"
        if showsTools { console.note("· \(step)") } else { showStatus("\(step)…") }
    }

    private mutating func showText(_ text: String) {
        begin(commentary: false)
        if markdown != nil { return draw(text) }
        isAtLineStart = text.utf8.last == UInt8(ascii: "\n")
        write(text)
    }

    private func write(_ text: String) {
        if let held { held.write(text) } else { console.write(text) }
    }

    /// Shows the text that did not stream.
    private mutating func showRest() {
        guard !unshown.isEmpty else { return }
        showText(unshown)
        unshown = ""
    }

    /// Begins text or commentary. Commentary has its own paragraphs.
    private mutating func begin(commentary: Bool) {
        waiting.stop()
        if isCommentary != commentary {
            if hasText { finishLine() }
            needsGap = hasText
        }
        if needsGap, markdown == nil { write("\n") }
        isCommentary = commentary
        hasText = true
        needsGap = false
        markdown?.isDim = commentary
    }

    /// Begins the answer again. The text above is void, but it stays because a pipe cannot take it back.
    private mutating func restart(after discarded: String) {
        guard streams else { return unshown = "" }
        guard !discarded.isEmpty || isCommentary else { return }
        finishLine()
        if showsText { console.note("The connection broke. The answer starts again:") }
        hasText = false
        isCommentary = false
        needsGap = false
    }

    /// Shows that the model gets a message that the user typed during the answer.
    private mutating func noteSteering(_ message: ChappieInputMessage) {
        finishLine()
        let lines = UntrustedText.forTerminal(message.text).split(separator: "\n", omittingEmptySubsequences: false)
        for line in lines { console.note("> \(line)") }
        console.note("The model gets this with its next step.")
        isSteered = true
        needsGap = hasText
    }

    /// Draws the text in the terminal's current size, which may have changed.
    private mutating func draw(_ text: String) {
        if console.terminals.output, let size = TerminalState.size() {
            let height = console.terminals.styles ? size.rows : nil
            markdown?.resize(width: size.columns, height: height)
        }
        console.draw(markdown?.append(text) ?? "")
        isAtLineStart = markdown?.isAtLineStart ?? true
    }

    private mutating func finish(_ response: ChappieResponse) {
        showRest()
        finishLine(releases: false)
        if showsText { showSources(response.sources) }
        held?.release()
        if options.verbose { console.note("chappie: transport \(TransportSummary.words(transport.json))") }
        if let reason = response.incompleteReason, !response.isInterrupted {
            console.note("chappie: the answer ended early (\(reason))")
        }
        for refusal in response.refusals {
            console.note("chappie: the model refused: \(UntrustedText.message(refusal) ?? "it gave no reason")")
        }
        for crossing in limits?.crossings() ?? [] {
            let family = limits?.limitID == crossing.limitID ? "" : "\(crossing.limitName ?? crossing.limitID): "
            let name = Usage.adjective(crossing.window.windowMinutes).map { "\($0) usage limit" } ?? "usage limit"
            let used = "\(crossing.window.wholePercent) % of the \(name)"
            console.note("chappie: \(family)\(used) is used\(crossing.window.reset("; it resets"))")
        }
    }

    /// Prints the sources below the answer, of which they are a part.
    private func showSources(_ sources: [ChappieSource]) {
        guard !sources.isEmpty else { return }
        guard let held else {
            console.line()
            for line in SourceList.lines(sources) { console.line(line) }
            return
        }
        held.write("\n" + SourceList.lines(sources).joined(separator: "\n") + "\n")
    }

    /// Shows the progress of a tool's arguments. Long arguments, such as a complete file, take some time.
    private mutating func showProgress(of piece: ChappieToolArgumentsDelta) {
        if piece.callID != written.callID { written = (piece.callID, 0, Self.progressStep) }
        written.byteCount += piece.delta.utf8.count
        guard written.byteCount >= written.nextNote else { return }
        written.nextNote = written.byteCount + Self.progressStep
        let call = ChappieToolCall(name: piece.name, namespace: piece.namespace, callID: piece.callID)
        showStatus("Writing a call of \(call.shownName) (\(written.byteCount >> 10) KiB)…")
    }

    /// The number of bytes between two notes about the progress.
    private static let progressStep = 1 << 10

    /// Shows a status, but only between lines, because it would erase the text in its line.
    private func showStatus(_ text: String) {
        if isAtLineStart { waiting.show(text) }
    }

    /// Ends the line of text.
    ///
    /// - Parameter releases: whether text is written that is held back for a pipe. Default `true`.
    private mutating func finishLine(releases: Bool = true) {
        guard !options.json else { return }
        waiting.stop()
        if let rest = markdown?.finish() {
            isAtLineStart = true
            if !rest.isEmpty { return console.draw(rest) }
        }
        if isAtLineStart { console.clearStatus() } else { write("\n") }
        isAtLineStart = true
        if releases { held?.release() }
    }
}

/// The choice of when Markdown is drawn.
enum MarkdownChoice: String, ExpressibleByArgument, CaseIterable {
    case auto, always, never

    /// Returns the stream that draws Markdown, or `nil` if the text is written unchanged.
    func stream(on console: Console) -> MarkdownStream? {
        let terminals = console.terminals
        guard self == .always || self == .auto && terminals.output && terminals.styles else { return nil }
        let size = terminals.output ? TerminalState.size() : nil
        return MarkdownStream(
            width: size?.columns ?? 80, height: terminals.styles ? size?.rows : nil, isStyled: terminals.styles)
    }
}

extension ChappieUsageWindow {
    /// The percentage without its fraction, or 0 if no integer can hold it.
    var wholePercent: Int { Int(exactly: usedPercent.rounded(.towardZero)) ?? 0 }

    /// Returns `, resets at 2026-11-21 14:05`, or an empty text.
    func reset(_ lead: String) -> String {
        resetsAt.flatMap { $0.isPlausible ? "\(lead) at \($0.localMinute)" : nil } ?? ""
    }
}

extension Date {
    /// Returns midnight of a day such as `2026-11-21` in the machine's time zone.
    static func localDay(_ text: String) -> Date? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { Int32($0) }
        guard parts.count == 3, let year = parts[0], let month = parts[1], let day = parts[2], (1...12).contains(month),
            (1...31).contains(day), (1970...9999).contains(year)
        else { return nil }
        var time = tm()
        time.tm_year = year - 1900
        time.tm_mon = month - 1
        time.tm_mday = day
        time.tm_isdst = -1
        let seconds = mktime(&time)
        return seconds == -1 ? nil : Date(timeIntervalSince1970: TimeInterval(seconds))
    }

    /// The time as `2026-11-21 14:05` in the machine's time zone.
    var localMinute: String { local("%Y-%m-%d %H:%M") }

    /// The time as `14:05`, followed by the day if that is not today.
    var localTime: String {
        let day = local("%Y-%m-%d")
        return local("%H:%M") + (day == Date().local("%Y-%m-%d") ? "" : " on \(day)")
    }
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

extension Duration {
    var wholeMilliseconds: Int { Int((inSeconds * 1000).rounded(.up)) }
}
