@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

/// The thread of a chat and its model. The runtime's thread is the only history.
struct ChatThread: Sendable {
    let client: ChappieClient
    /// The runtime, whose store keeps the conversation, or has it in memory if nothing is kept.
    let runtime: ChappieRuntime
    /// The conversation on the disk, or `nil` if nothing is kept.
    let kept: KeptThread?
    /// The model of new conversations, or `nil` if the account's best model is used.
    private let usualModel: String?
    /// Whether the client has its own model, which it would also use for a thread that was opened.
    private let isClientsModelChosen: Bool
    /// The model that the command line or `/model` has named.
    private var namedModel: String?
    /// The model to ask. If it is `nil`, the thread's own model or the account's best model is used.
    private(set) var chosenModel: String?

    /// - Parameters:
    ///   - model: the client's model, which the command line, a template or the settings have chosen.
    ///   - namedModel: the model that the command line has named.
    ///   - usualModel: the model of the settings.
    init(_ client: ChappieClient, _ kept: KeptThread?, model: String?, namedModel: String?, usualModel: String?) {
        self.client = client
        self.kept = kept
        runtime = kept?.runtime ?? client.runtime(store: ChappieInMemoryThreadStore())
        self.usualModel = model ?? usualModel
        isClientsModelChosen = model != nil
        self.namedModel = namedModel
        chosenModel = model
    }

    /// The thread that was opened or begun.
    var thread: ChappieThread? { get async { await runtime.currentThread } }

    /// The context that the next turn continues. The client receives a thread that was opened or begun only with the
    /// next turn.
    var context: ChappieClientContext {
        get async {
            if let thread = await thread { return thread.context }
            return await client.context()
        }
    }

    /// The questions and answers.
    var transcript: ChatTranscript { get async { ChatTranscript(await thread?.turns ?? []) } }

    // MARK: Threads

    /// Continues a kept conversation.
    mutating func open(_ id: String) async throws -> ChappieThread {
        let thread = try await runtime.openThread(id)
        // The thread keeps its model unless the command line names another. The client would use the model of the
        // settings.
        chosenModel = namedModel ?? (isClientsModelChosen ? thread.model : nil)
        return thread
    }

    /// Begins a new conversation.
    mutating func clear() async throws {
        try await runtime.clear()
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
    var knownModel: String? {
        get async {
            if let chosenModel { return chosenModel }
            return await thread?.model
        }
    }

    /// Returns the model of the next turn. The list of models may be requested.
    func model(_ running: RunningTurn) async throws -> String {
        if let known = await knownModel { return known }
        return UntrustedText.forTerminal(try await running.run { [client] in try await client.model.slug })
    }
}

extension ChappieThread {
    /// The model of the conversation, or `nil` before its first answer.
    fileprivate var model: String? { context.model.isEmpty ? nil : context.model }
}
