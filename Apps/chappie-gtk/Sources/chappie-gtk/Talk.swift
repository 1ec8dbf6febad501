import ChappieMarkdown
import ChappieSDK
import ChappieSDKRuntime
import FoundationEssentials

/// A conversation with its client, the thread that keeps it, and the turn that runs.
@MainActor
final class Talk {
    private let client: ChappieClient
    private let keeping: Keeping?
    private let transcript: TranscriptView
    private var runtime: ChappieRuntime?
    private(set) var turn: Task<Void, Never>?
    /// Whether the turn is an answer and not the opening of a kept conversation.
    private(set) var isAnswering = false
    /// The answer that is coming in.
    private var answer: ChappieStreamHandle?
    /// Whether the user has sent a message during the answer, and no request contains it yet.
    private var isSteered = false
    /// Whether the conversation is on the screen. Another one may have taken its place.
    private(set) var isShown = true
    /// Reports that a turn has begun or ended.
    var changed: @MainActor () -> Void = {}
    private var hasSaidWhyPrivate = false

    init(_ client: ChappieClient, _ keeping: Keeping?, _ transcript: TranscriptView) {
        self.client = client
        self.keeping = keeping
        self.transcript = transcript
    }

    /// Leaves the screen and ends the running turn.
    func leave() {
        isShown = false
        turn?.cancel()
        Task { await end() }
    }

    /// Stops the answer. The conversation and the screen keep the text so far.
    func stop() {
        if let answer {
            answer.interrupt()
        } else {
            turn?.cancel()
        }
    }

    /// Gives the running answer a message.
    ///
    /// - Returns: whether the answer takes it into account. It is `false` if the answer is complete.
    func steer(_ message: ChappieInputMessage) async -> Bool {
        guard isAnswering, answer != nil else { return false }
        guard let runtime else { return await client.steer(message) }
        // The answer has the message even if it can't be kept.
        return (try? await runtime.steer(message)) ?? true
    }

    /// Waits until the turn has ended and everything is kept.
    func end() async {
        turn?.cancel()
        await turn?.value
        await runtime?.settle()
        await keeping?.close()
        await client.disconnect()
    }

    /// The id of the thread that keeps the conversation, or `nil` before its first turn.
    var threadID: String? { get async { await runtime?.currentThread?.id } }

    private func readyRuntime() async -> ChappieRuntime? {
        guard let keeping else { return nil }
        if let runtime { return runtime }
        let made = client.runtime(store: await keeping.readyStore())
        runtime = runtime ?? made
        return runtime
    }

    // MARK: A turn

    /// Asks a question and draws the answer.
    ///
    /// - Parameters:
    ///   - tools: the service's tools that the model may use.
    ///   - isRetry: whether the question is the last one, which failed. The new answer replaces the partial one.
    ///   - fail: shows an error. If the turn failed, the question may be asked again.
    func ask(
        _ message: ChappieInputMessage, _ tools: [ChappieServiceTool], isRetry: Bool,
        fail: @escaping @MainActor (any Error, _ isOver: Bool) -> Void
    ) {
        guard turn == nil else { return }
        isAnswering = true
        turn = Task {
            do {
                let runtime = await readyRuntime()
                sayWhyPrivate()
                transcript.beginAnswer()
                let conversation: any ChappieConversation = runtime ?? client
                let request = ChappieResponseRequest(messages: [message], serviceTools: tools)
                let answer =
                    isRetry
                    ? runtime?.startRetry(request, endsWithItsStream: true)
                        ?? conversation.begin(.new(request), endsWithItsStream: true)
                    : conversation.begin(.new(request), endsWithItsStream: true)
                self.answer = answer
                for try await event in answer.events where isShown { show(event, fail) }
                if isShown { transcript.finish() }
            } catch is CancellationError {
                if isShown { transcript.note("(stopped)") }
            } catch {
                if isShown {
                    transcript.removeEmptyAnswer()
                    fail(error, true)
                }
            }
            await runtime?.settle()
            await keeping?.close()
            turn = nil
            isAnswering = false
            answer = nil
            if isShown { changed() }
        }
        changed()
    }

    private func sayWhyPrivate() {
        guard isShown, !hasSaidWhyPrivate, let keeping, keeping.couldNotKeep, let reason = keeping.reason else {
            return
        }
        hasSaidWhyPrivate = true
        transcript.note("This conversation is not kept. \(reason)")
    }

    private func show(_ event: ChappieStreamEvent, _ fail: @MainActor (any Error, _ isOver: Bool) -> Void) {
        switch event {
        case .textDelta(let piece): transcript.append(piece)
        case .commentaryDelta(let piece): transcript.append(piece, isCommentary: true)
        case .restarted(let discarded) where !discarded.isEmpty:
            transcript.note("The connection broke. The answer starts again:")
        case .steered(let message):
            transcript.addSteering(message.shown)
            isSteered = true
        case .created where isSteered:
            // The answer that heeds the message begins.
            transcript.finish()
            isSteered = false
        case .notice(let notice): transcript.note("Note: \(notice.message)")
        case .toolCallRequested(let request):
            transcript.beginSteps(request.call.callID, request.call.shownSteps(request.steps))
        case .toolCallCompleted(let result): show(result)
        case .completed(let response) where response.status == .completed && !response.outputText.isEmpty:
            transcript.add(response.sources)
        case .completed(let response) where response.isInterrupted: transcript.note("(stopped)")
        case .completed(let response) where response.status == .incomplete:
            fail(ChappieClientError.responseFailed(response), false)
        case .completed(let response)
        where response.outputText.isEmpty && response.refusals.isEmpty && response.images.isEmpty:
            transcript.note("The answer has no text. Rephrase the question.")
        default: break
        }
    }

    private func show(_ result: ChappieToolExecutionResult) {
        let id = result.call.callID
        let steps = result.call.shownSteps(result.steps)
        if !transcript.hasSteps(id) { transcript.beginSteps(id, steps) }
        switch result.outcome {
        case .succeeded where !result.result.isError, .answered: transcript.endSteps(id, steps.count, mark: "✓")
        case .denied: transcript.endSteps(id, steps.count, mark: "–", " (not run)")
        default: transcript.endSteps(id, steps.count, mark: "✗", " (failed)")
        }
        for picture in result.shownPictures { transcript.add(picture) }
    }

    // MARK: A kept thread

    /// The number of turns at the end of a thread that are drawn.
    private static let shownTurns = 40

    /// Draws the conversation again if another program has continued it.
    ///
    /// - Parameter open: opens the conversation again.
    func catchUp(open: @escaping @MainActor (String) -> Void) {
        guard turn == nil, isShown, let keeping, let runtime else { return }
        Task {
            guard let thread = await runtime.currentThread, thread.summary.recordCount > 0 else { return }
            let kept = try? await keeping.use { try await $0.summary(of: thread.id) }
            guard turn == nil, isShown, let kept, kept.recordCount != thread.summary.recordCount else { return }
            open(thread.id)
        }
    }

    /// Opens a kept conversation, which continues in this window, and draws its end.
    ///
    /// - Parameters:
    ///   - failed: offers to ask the last question again.
    ///   - fail: shows an error.
    func open(
        _ id: String, failed: @escaping @MainActor (ChappieInputMessage, _ sentence: String) -> Void,
        fail: @escaping @MainActor (any Error) -> Void
    ) {
        turn = Task {
            do {
                guard let runtime = await readyRuntime() else { throw CancellationError() }
                let thread = try await runtime.openThread(id)
                if isShown { transcript.clear() }
                let (pages, left) = await Self.pages(of: thread, last: Self.shownTurns)
                if isShown, left > 0 { transcript.note("\(left) earlier turns are not shown.") }
                for page in pages where isShown {
                    draw(page)
                    if let message = page.failed { failed(message, page.ending ?? "") }
                    // The window stays usable while a long conversation is drawn.
                    await Task.yield()
                }
            } catch {
                if isShown, !(error is CancellationError) { fail(error) }
            }
            await keeping?.close()
            turn = nil
            if isShown { changed() }
        }
        changed()
    }

    private struct Page: Sendable {
        /// The questions before the last message of a turn that the user steered, with their answers.
        var earlier: [(question: String, answer: [MarkdownBlock])] = []
        var question = ""
        var tools: [(steps: [String], mark: String, pictures: [ShownPicture])] = []
        var sources: [ChappieSource] = []
        var commentary: [MarkdownBlock] = []
        var answer: [MarkdownBlock] = []
        var ending: String?
        /// The question, if it is the last one and failed before the model had written anything.
        var failed: ChappieInputMessage?
    }

    private func draw(_ page: Page) {
        for exchange in page.earlier {
            transcript.beginQuestion(exchange.question)
            transcript.beginAnswer()
            transcript.write(exchange.answer)
        }
        transcript.beginQuestion(page.question)
        guard page.failed == nil else { return }
        transcript.beginAnswer()
        transcript.write(page.commentary, isCommentary: true)
        for (index, tool) in page.tools.enumerated() {
            transcript.beginSteps("\(index)", tool.steps)
            transcript.endSteps("\(index)", tool.steps.count, mark: tool.mark)
            for picture in tool.pictures { transcript.add(picture) }
        }
        transcript.write(page.answer)
        transcript.add(page.sources)
        if let ending = page.ending { transcript.note(ending) }
    }

    private nonisolated static func shown(_ messages: [ChappieInputMessage]) -> String {
        messages.map(\.shown).joined(separator: "\n\n")
    }

    @concurrent
    private static func pages(of thread: ChappieThread, last count: Int) async -> (pages: [Page], left: Int) {
        // A failed question that was asked again is shown once.
        let turns = zip(thread.turns, Array(thread.turns.dropFirst()).map(Optional.some) + [nil]).filter { turn, next in
            turn.status != .failed || turn.isPartOfConversation || turn.messages != next?.messages
        }
        let pages = turns.suffix(count).map { turn, next in
            var page = Page()
            let isUnanswered = turn.status == .failed && !turn.isPartOfConversation
            if next == nil, isUnanswered, turn.messages.count == 1 { page.failed = turn.messages[0] }
            let exchanges = turn.exchanges
            page.earlier = exchanges.dropLast().map { (Self.shown($0.messages), MarkdownBlock.blocks(of: $0.answer)) }
            page.question = Self.shown(exchanges.last?.messages ?? [])
            page.tools = Self.tools(of: turn)
            page.sources = turn.sources
            page.commentary = MarkdownBlock.blocks(of: turn.commentary)
            page.answer = MarkdownBlock.blocks(of: exchanges.last?.answer ?? "")
            switch turn.status {
            case .finished where turn.response.isInterrupted: page.ending = "(stopped)"
            case .finished: break
            case .failed: page.ending = turn.error ?? "(failed)"
            case .interrupted: page.ending = "(stopped)"
            default: page.ending = "(not finished)"
            }
            return page
        }
        return (pages, turns.count - pages.count)
    }

    private nonisolated static func tools(
        of turn: ChappieTurn
    ) -> [(steps: [String], mark: String, pictures: [ShownPicture])] {
        let tools = turn.toolCalls.map { tool in
            let mark =
                switch tool.result?.outcome {
                case .succeeded, .answered: "✓"
                case .denied: "–"
                default: "✗"
                }
            return (
                steps: tool.call.shownSteps(tool.result?.steps ?? []), mark: mark,
                pictures: tool.result?.shownPictures ?? []
            )
        }
        // A thread of another program has only the items of its calls.
        guard turn.toolCalls.isEmpty, !turn.images.isEmpty else { return tools }
        return [(["image_generation"], "✓", turn.images.map { ShownPicture(image: $0, words: "A picture") })]
    }
}

extension ChappieToolExecutionResult {
    /// The pictures that the tool returned, each with its prompt.
    fileprivate var shownPictures: [ShownPicture] {
        let prompts = steps.compactMap { step -> String? in
            if case .image(let prompt) = step { prompt } else { nil }
        }
        return result.images.map { ShownPicture(image: $0, words: prompts.first ?? "A picture of \(call.shownName)") }
    }
}

extension ChappieToolCall {
    /// Returns what the call does, one row each, or only its name. The sentences have text of the model.
    fileprivate func shownSteps(_ steps: [ChappieServiceStep]) -> [String] {
        steps.isEmpty ? [shownName] : steps.map { String($0.sentence.oneLine.prefix(300)) }
    }

    /// The name, if it can be the name of a tool. A model may invent any text.
    fileprivate var shownName: String {
        let isName = { (byte: UInt8) in
            switch Unicode.Scalar(byte) {
            case "a"..."z", "A"..."Z", "0"..."9", "_", "-": true
            default: false
            }
        }
        return (1...64).contains(name.utf8.count) && name.utf8.allSatisfy(isName) ? name : "an unknown tool"
    }
}

extension ChappieInputMessage {
    /// The text and the names of the attachments.
    var shown: String {
        let attached = parts.compactMap { part -> String? in
            switch part {
            case .image: "Attached: an image"
            case .file(let file): "Attached: \(file.name ?? "a file")"
            default: nil
            }
        }
        return ([text] + attached).filter { !$0.isEmpty }.joined(separator: "\n")
    }
}
