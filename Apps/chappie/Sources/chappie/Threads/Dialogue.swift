import ArgumentParser
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
import Synchronization

/// Which conversation a command goes on with, and whether it is kept.
struct ThreadOptions: ParsableArguments {
    @Flag(name: [.customShort("c"), .customLong("continue")], help: "Go on with the thread that was written last.")
    var goesOn = false

    @Option(
        name: .customLong("thread"),
        help: ArgumentHelp(
            "Go on with this thread: its id, or enough of its end (see chappie threads).", valueName: "id"))
    var thread: String?

    @Flag(help: "Keep nothing of the conversation.")
    var ephemeral = false

    func validate() throws {
        if goesOn, thread != nil { throw ValidationError("-c and --thread name two threads.") }
        if ephemeral, goesOn || thread != nil { throw ValidationError("--ephemeral keeps nothing that could go on.") }
    }

    /// The conversation to ask in.
    ///
    /// - Throws: where a thread is asked for: what keeps it from being opened. A new conversation goes on without being
    ///   kept then, and a line says so.
    func dialogue(with client: ChappieClient, in program: Program) async throws -> Dialogue {
        let isAsked = goesOn || thread != nil
        guard !ephemeral, let store = isAsked ? try Threads.store(program) : try? program.threads() else {
            return Dialogue(client: client, runtime: nil)
        }
        // Without a sign-in nothing is begun.
        _ = try await client.accountInfo()
        let runtime = program.runtime(client, store)
        if isAsked {
            try await runtime.openThread(try await store.thread(named: thread).id)
            return Dialogue(client: client, runtime: runtime, store: store)
        }
        do {
            try await store.prepare()
        } catch {
            try Task.checkCancellation()
            let reason = error.errorDescription ?? "\(error)"
            program.console.note("chappie: this conversation is not kept. \(reason) (--ephemeral asks for that.)")
            return Dialogue(client: client, runtime: nil)
        }
        try await runtime.newThread()
        return Dialogue(client: client, runtime: runtime, store: store)
    }
}

/// The runtimes of a command.
final class Runtimes: Sendable {
    private let all = Mutex<[ChappieRuntime]>([])

    func add(_ runtime: ChappieRuntime) { all.withLock { $0.append(runtime) } }

    /// Waits until they have kept what was said, also where Ctrl-C has cut it.
    func settle() async {
        for runtime in all.withLock({ $0 }) { await runtime.settle() }
    }
}

/// A conversation, kept or not.
struct Dialogue: Sendable {
    let client: ChappieClient
    /// Keeps the turns; `nil` where nothing is kept.
    let runtime: ChappieRuntime?
    /// Where it keeps them.
    var store: (any ChappieThreadStore)?

    func stream(_ request: ChappieResponseRequest) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        runtime?.streamResponse(request) ?? client.streamResponse(request)
    }

    /// Connects while the user types.
    func prewarm() async {
        if let runtime { await runtime.prewarm() } else { await client.prewarm() }
    }

    /// The thread that the turns go to.
    var thread: ChappieThread? { get async { await runtime?.currentThread } }

    func clear() async throws {
        _ = try await runtime?.newThread()
        if runtime == nil { await client.clearContext() }
    }

    func compact() async throws -> ChappieClientContext {
        guard let runtime else { return try await client.compactContext() }
        try await runtime.compact()
        return await client.context()
    }
}

extension ChappieThreadStore {
    /// The thread that a user means by an id, or the beginning or the end of one; `nil` means the one written last.
    ///
    /// - Throws: ``CommandLineError`` where it is none, or not one.
    func thread(named name: String?) async throws -> ChappieThreadSummary {
        let all = try await summaries()
        guard let name else {
            guard let last = all.filter({ !$0.isArchived }).max(by: { $0.updatedAt < $1.updatedAt }) else {
                throw CommandLineError.usage(
                    "There is no thread yet.", suggestion: "Begin one: chappie ask, or chappie chat.")
            }
            return last
        }
        if let exact = all.first(where: { $0.id == name }) { return exact }
        let found = name.count < 3 ? [] : all.filter { $0.id.hasSuffix(name) || $0.id.hasPrefix(name) }
        guard let one = found.first else {
            throw CommandLineError.usage("There is no thread \(name).", suggestion: "List them: chappie threads --all.")
        }
        guard found.count == 1 else {
            throw CommandLineError.usage(
                "\(found.count) threads are called \(name).", suggestion: "Give more of the id.")
        }
        return one
    }
}
