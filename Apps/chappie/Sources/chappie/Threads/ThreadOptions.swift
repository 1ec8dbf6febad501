import ArgumentParser
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

/// The conversation that a command continues, and whether it is kept.
struct ThreadOptions: ParsableArguments {
    @Flag(name: [.customShort("c"), .customLong("continue")], help: "Continue the most recently changed thread.")
    var goesOn = false

    @Option(
        name: .customLong("thread"),
        help: ArgumentHelp(
            "Continue this thread: its ID, or a unique suffix of it (see chappie threads).", valueName: "id"),
        completion: .threads)
    var thread: String?

    @Flag(inversion: .prefixedNo, help: "Keep nothing of the conversation.")
    var ephemeral: Bool?

    /// Whether an earlier conversation continues.
    var isContinuing: Bool { goesOn || thread != nil }

    func validate() throws {
        if goesOn, thread != nil { throw ValidationError("-c and --thread name two threads.") }
        if ephemeral == true, isContinuing {
            throw ValidationError("--ephemeral keeps nothing that could be continued.")
        }
    }

    /// Returns the kept conversation for the question, or `nil` if the caller uses the client's own conversation.
    ///
    /// - Parameter early: whether to check the sign-in and the store now and not in the first turn.
    /// - Throws: the error because of which a requested thread cannot be opened. If a new conversation cannot be kept,
    ///   the program reports this in a line and continues.
    func kept(by client: ChappieClient, in program: Program, early: Bool = false) async throws -> KeptThread? {
        let isAsked = isContinuing
        let isKept = ephemeral.map { !$0 } ?? (isAsked || program.settings[.keepThreads]?.bool != false)
        guard isKept, let store = isAsked ? try Threads.store(program) : program.threadsIfPossible() else {
            return nil
        }
        if isAsked || early { _ = try await client.accountInfo() }
        let lenient = LenientThreadStore(store)
        let kept = KeptThread(runtime: program.runtime(client, lenient), store: lenient)
        if isAsked {
            try await kept.runtime.openThread(try await store.thread(named: thread).id)
            return kept
        }
        let id = try await kept.runtime.newThread()
        guard early else { return kept }
        do {
            try await store.prepare()
        } catch {
            try Task.checkCancellation()
            lenient.giveUp(id, error)
            if let notice = await kept.next?.news() { program.note(notice) }
        }
        return kept
    }
}

/// The runtime that keeps a conversation in a thread, and its store.
struct KeptThread: Sendable {
    let runtime: ChappieRuntime
    let store: LenientThreadStore

    /// The state of keeping the next answer.
    var next: AnswerKeeping? {
        get async { await runtime.currentThread.map { AnswerKeeping(thread: $0.id, store: store) } }
    }
}

extension ChappieFileThreadStore {
    /// Returns the thread with this id. The beginning or the end of an id is enough. `nil` means the most recently
    /// changed thread.
    ///
    /// A named thread is found even if another one is damaged. The most recently changed one is not, because it may be
    /// damaged.
    ///
    /// - Throws: ``CommandLineError`` if no thread or more than one matches.
    func thread(named name: String?) async throws -> ChappieThreadSummary {
        guard let name else {
            guard let last = try await threads().first else {
                throw CommandLineError.usage(
                    "There are no threads yet.", suggestion: "Begin one: chappie ask, or chappie chat.")
            }
            return last
        }
        let all = try await readableThreads()
        let found = Self.named(name, in: all.threads, id: \.id)
        guard let one = found.first else {
            // A damaged thread may have this name, or the list may lack a thread that is still in the index of ids.
            let damaged = Self.named(name, in: all.problems.compactMap(\.thread), id: \.self)
            if !all.problems.isEmpty, let summary = try await summary(of: damaged.first ?? name) { return summary }
            if let problem = all.problems.first(where: { $0.thread != nil && $0.thread == damaged.first }) {
                throw problem
            }
            throw CommandLineError.usage("There is no thread \(name).", suggestion: "List them: chappie threads --all.")
        }
        guard found.count == 1 else {
            throw CommandLineError.usage(
                "\(found.count) threads match \(name).", suggestion: "Give more of the id.")
        }
        return one
    }

    private static func named<Thread>(_ name: String, in all: [Thread], id: (Thread) -> String) -> [Thread] {
        if let exact = all.first(where: { id($0) == name }) { return [exact] }
        return name.count < 3 ? [] : all.filter { id($0).hasSuffix(name) || id($0).hasPrefix(name) }
    }
}

extension ChappieThreadStoreError {
    /// The thread that is damaged, or `nil` for other errors.
    fileprivate var thread: String? {
        guard case .damaged(let thread, _) = self else { return nil }
        return thread
    }
}
