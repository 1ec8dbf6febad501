@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

/// The conversation of a chat with its turns, its model, and the thread that keeps it.
struct ChatConversation: Sendable {
    let client: ChappieClient
    /// The thread that keeps the conversation, or `nil` if nothing is kept.
    let kept: KeptConversation?
    private(set) var transcript = ChatTranscript()
    /// The contexts before each turn of a conversation that is not kept.
    private var contexts: [ChappieClientContext] = []
    /// The last item of the conversation before the current turn.
    private var lastItem: ChappieJSONValue?
    /// The model of new conversations, or `nil` if the account's best model is used.
    private let usualModel: String?
    /// Whether the client has its own model, which it would also use for a thread that was opened.
    private let isClientsModelChosen: Bool
    /// The model that the command line or `/model` has named.
    private var namedModel: String?
    /// The model to ask. If it is `nil`, the thread's own model or the account's best model is used.
    private(set) var chosenModel: String?
    /// The model of a thread that was opened, until its first turn here.
    private var threadModel: String?

    /// The part that runs the turns. It is the runtime that keeps them, or otherwise the client itself.
    var port: any ChappieConversation { kept?.runtime ?? client }

    /// - Parameters:
    ///   - model: the client's model, which the command line, a template or the settings have chosen.
    ///   - namedModel: the model that the command line has named.
    ///   - usualModel: the model of the settings.
    init(_ client: ChappieClient, _ kept: KeptConversation?, model: String?, namedModel: String?, usualModel: String?) {
        self.client = client
        self.kept = kept
        self.usualModel = model ?? usualModel
        isClientsModelChosen = model != nil
        self.namedModel = namedModel
        chosenModel = model
    }

    /// The context that the next turn continues. The client receives a thread that was opened or begun only with the
    /// next turn.
    var context: ChappieClientContext {
        get async {
            if let thread = await kept?.runtime.currentThread { return thread.context }
            return await client.context()
        }
    }

    // MARK: Turns

    /// Begins a turn. ``answered(_:_:)`` or ``failed(_:)`` follows.
    mutating func begins() async {
        let context = await context
        lastItem = context.items.last
        if kept == nil { contexts.append(context) }
    }

    mutating func answered(_ question: String, _ response: ChappieResponse?) {
        transcript.add(question: question, answer: response?.outputText ?? "", by: response?.model ?? "")
        threadModel = nil
    }

    /// Ends a turn that failed.
    ///
    /// - Returns: whether the conversation keeps the question with the part of the answer that was shown.
    mutating func failed(_ question: String) async -> Bool {
        let items = await context.items
        // A part of an answer that is kept ends with a note for the model. A compaction has no such note.
        guard items.last != lastItem, items.last?["role"] == "developer" else {
            if kept == nil { contexts.removeLast() }
            return false
        }
        let shown = items.last { $0["role"] == "assistant" }.map(ChappieOutputItem.init)
        transcript.add(question: question, answer: shown?.text ?? "", by: "")
        return true
    }

    /// Takes the last turn out of the conversation. A kept conversation continues as a copy without the turn, and the
    /// complete one is archived.
    ///
    /// - Returns: the question, or `nil` without one.
    @discardableResult
    mutating func takeBack() async throws -> String? {
        guard let question = transcript.lastQuestion else { return nil }
        if let kept {
            // Turns that were stopped or failed are not part of the conversation, but may follow its last turn.
            guard let thread = await kept.runtime.currentThread,
                let last = thread.turns.lastIndex(where: { $0.status == .finished })
            else { return nil }
            if last > 0 {
                try await kept.runtime.forkThread(thread.id, at: last)
            } else {
                try await kept.runtime.clear()
            }
            try await kept.runtime.archiveThread(thread.id)
        } else if let context = contexts.popLast() {
            await client.resumeContext(context)
        } else {
            return nil
        }
        transcript.removeLast()
        return question
    }

    /// A conversation in its state before an answer is taken back.
    struct Former: Sendable {
        fileprivate let conversation: ChatConversation
        fileprivate let thread: String?
        fileprivate let context: ChappieClientContext
    }

    var former: Former {
        get async {
            Former(
                conversation: self, thread: await kept?.runtime.currentThread?.id, context: await client.context())
        }
    }

    /// Continues with the answer that was taken back, unless the attempt to replace it has called tools.
    ///
    /// - Returns: whether it continues with that answer.
    mutating func putBack(_ former: Former) async throws -> Bool {
        if let kept, let thread = former.thread {
            let attempt = await kept.runtime.currentThread
            guard attempt?.turns.last?.toolCalls.isEmpty != false else { return false }
            try await kept.runtime.openThread(thread)
            try await kept.runtime.unarchiveThread(thread)
            if let attempt, attempt.id != thread { try await kept.runtime.deleteThread(attempt.id) }
        } else {
            await client.resumeContext(former.context)
        }
        self = former.conversation
        return true
    }

    // MARK: Threads

    /// Takes over the open thread.
    ///
    /// - Returns: the thread, or `nil` if nothing is kept.
    mutating func takeOver() async -> ChappieThread? {
        guard let thread = await kept?.runtime.currentThread else { return nil }
        let model = thread.context.model
        threadModel = model.isEmpty ? nil : model
        transcript = ChatTranscript()
        for turn in thread.turns where turn.status == .finished {
            transcript.add(question: turn.messages.last?.text ?? "", answer: turn.outputText, by: turn.model)
        }
        return thread
    }

    /// Continues a kept conversation.
    mutating func open(_ id: String, in kept: KeptConversation) async throws -> ChappieThread? {
        try await kept.runtime.openThread(id)
        let thread = await takeOver()
        // The thread keeps its model unless the command line names another. The client would use the model of the
        // settings.
        chosenModel = namedModel ?? (isClientsModelChosen ? threadModel : nil)
        return thread
    }

    /// Begins a new conversation.
    mutating func clear() async throws {
        try await port.clear()
        transcript = ChatTranscript()
        contexts = []
        // A thread that was continued kept its model. A new conversation uses the user's model.
        chosenModel = namedModel ?? usualModel
    }

    // MARK: The model

    /// Uses this model from the next turn on.
    mutating func choose(_ model: String) async {
        chosenModel = model
        namedModel = model
        await client.selectModel(model)
    }

    /// The model of the next turn, if this conversation decides it.
    var knownModel: String? { chosenModel ?? threadModel }

    /// Returns the model of the next turn. The list of models may be requested.
    func model(_ running: RunningTurn) async throws -> String {
        if let knownModel { return knownModel }
        return UntrustedText.forTerminal(try await running.run { [client] in try await client.model.slug })
    }
}
