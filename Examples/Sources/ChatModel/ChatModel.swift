import ChappieSDK
import ChappieSDKRuntime
import Foundation
import Observation

/// The state of a chat, which the views show, and the actions of their buttons. It has no view, so its tests need no
/// screen.
@MainActor @Observable
public final class ChatModel {
    /// A question or an answer.
    public struct Message: Identifiable, Hashable, Sendable {
        public let id: Int
        public let isFromUser: Bool
        public let text: String
    }

    /// The messages of the open chat. The last one grows while an answer arrives.
    public private(set) var messages: [Message] = []
    /// The chats that are kept on this device, with the latest one at the top.
    public private(set) var chats: [ChappieThreadSummary] = []
    /// Whether an answer is arriving.
    public private(set) var isAnswering = false
    /// The last failure and the user's next step.
    public private(set) var problem: String?
    /// The page on which the user manages the usage, after a limit was reached.
    public private(set) var usagePage: URL?
    /// The text of the input field.
    public var draft = ""

    private let runtime: ChappieRuntime
    @ObservationIgnored private var turn: Task<Void, Never>?

    /// Creates a model of a runtime, so that tests can pass another one.
    public init(runtime: ChappieRuntime) { self.runtime = runtime }

    // MARK: A turn

    /// Sends the draft. Does nothing while an answer arrives.
    ///
    /// - Returns: The task that receives the answer.
    @discardableResult
    public func send() -> Task<Void, Never>? {
        let question = draft.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !isAnswering, !question.isEmpty else { return nil }
        draft = ""
        isAnswering = true
        forgetProblem()
        let turn = Task { await ask(question) }
        self.turn = turn
        return turn
    }

    /// Ends the answer that arrives, and keeps what has arrived.
    public func stop() async {
        await runtime.interrupt()
        await turn?.value
    }

    private func ask(_ question: String) async {
        let earlier = messages.map { (isFromUser: $0.isFromUser, text: $0.text) }
        var answer = ""
        show(earlier + [(true, question)])
        do {
            for try await event in runtime.startStream(.user(question)).events {
                switch event {
                case .textDelta(let text): answer += text
                // The connection broke, and the complete new answer follows.
                case .restarted(let discarded): answer.removeLast(discarded.count)
                default: continue
                }
                show(earlier + [(true, question), (false, answer)])
            }
        } catch {
            explain(error)
        }
        // The thread decides what belongs to the chat. A question that was not asked returns to the input field.
        let turns = await runtime.currentThread?.turns.filter(\.isPartOfConversation) ?? []
        show(turns)
        if turns.last?.messages.last?.text != question, draft.isEmpty { draft = question }
        await refresh()
        isAnswering = false
    }

    // MARK: Chats

    /// Reads the list of chats, and opens the latest one if none is open.
    public func load() async {
        await refresh()
        if let latest = chats.first, messages.isEmpty, await runtime.currentThread == nil { await open(latest.id) }
    }

    /// Opens a chat.
    public func open(_ id: String) async {
        await attempt { show(try await runtime.openThread(id).turns.filter(\.isPartOfConversation)) }
    }

    /// Begins a new chat, which is kept from its first question on.
    public func begin() async {
        await attempt {
            try await runtime.newThread()
            messages = []
        }
    }

    /// Removes a chat from this device.
    public func delete(_ id: String) async {
        let isOpen = await runtime.currentThread?.id == id
        await attempt { try await runtime.deleteThread(id) }
        if isOpen { messages = [] }
        await refresh()
    }

    /// Ends the answer and shows nothing any more, for a user who signs out. The chats are kept on this device.
    public func close() async {
        await stop()
        await begin()
        chats = []
        draft = ""
    }

    private func refresh() async {
        do {
            chats = try await runtime.listThreads()
        } catch {
            explain(error)
        }
    }

    // MARK: Messages and failures

    private func show(_ turns: [ChappieTurn]) {
        show(
            turns.flatMap(\.exchanges).flatMap { exchange in
                let question = exchange.messages.map(\.text).joined(separator: "\n")
                return [(isFromUser: true, text: question), (isFromUser: false, text: exchange.answer)]
            })
    }

    private func show(_ texts: [(isFromUser: Bool, text: String)]) {
        messages = texts.enumerated().filter { !$1.text.isEmpty }.map { index, message in
            Message(id: index, isFromUser: message.isFromUser, text: message.text)
        }
    }

    private func attempt(_ work: () async throws -> Void) async {
        forgetProblem()
        do {
            try await work()
        } catch {
            explain(error)
        }
    }

    private func forgetProblem() {
        problem = nil
        usagePage = nil
    }

    private func explain(_ error: any Error) {
        if error is CancellationError { return }
        if case ChappieClientError.usageLimitReached(let limit) = error { usagePage = limit.usagePage }
        problem = (error as? any ChappieError)?.explanation ?? error.localizedDescription
    }
}
