@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes
import Synchronization

/// A Model Context Protocol server with its tools, resources and prompts. It is reached over HTTP. With the module
/// ChappieProgramTools, it may also be a program on this machine, which communicates over its standard input and output.
///
/// ```swift
/// let search = ChappieMCPServer(url: url, transport: transport, name: "search")
/// defer { search.close() }
/// let tools = try await search.tools()       // begins a session
/// ```
///
/// If the session has ended, another one begins. A call that the server has refused for that reason is repeated once. A
/// call that was under way fails with a sentence and is not repeated, because the server may have carried it out. The
/// session ends with ``close()``, or with the last
/// reference to this value.
///
/// A server with resources gets two additional tools, with which the model reads them: `list_resources` and
/// `read_resource`. The prompts are for the user. Your program requests one and sends its messages.
///
/// ```swift
/// let notes = try await search.read("file:///srv/notes/today.md")
/// let review = try await search.prompt("review", arguments: ["language": "Swift"])
/// for try await event in client.streamResponse(ChappieResponseRequest(messages: review)) { … }
/// ```
///
/// The client refuses every request of the server (for its models or its folders), and does not rely on the server's
/// hints about the dangers of its tools.
public final class ChappieMCPServer: ChappieToolProvider {
    /// The newest revision of the protocol that this client speaks.
    @_spi(ChappieInternals) public static let revision = MCPSession.versions[0]

    private struct State {
        var connection: MCPConnection?
        /// The start or the list request that is under way.
        var listing: Promise<Listing>?
        var skipped: [ChappieMCPSkippedTool] = []
        /// The error of a start that took too long, and the time until which the start is not tried again.
        var lateStart: (error: ChappieMCPError, until: ContinuousClock.Instant)?
        var isClosed = false
        /// Receives the progress of calls.
        var onProgress: (@Sendable (String) -> Void)?
    }

    /// The name of the group that contains the tools for the model: letters, digits, `_` and `-`, at most 64.
    public let name: String
    private let start: MCPServerStart
    private let policy: ChappieToolPolicy
    private let startTimeout: Duration
    private let callTimeout: Duration
    private let allowedTools: Set<String>?
    private let deniedTools: Set<String>
    private let log: MCPLog?
    private let limits: MCPSession.Limits
    /// The time for which a server that did not start in time is not started again. Without it, each turn would wait
    /// for the server.
    private static let pauseAfterLateStart = Duration.seconds(300)
    private let state = Mutex(State())

    /// Creates a server that is reached over HTTP ("Streamable HTTP"). A session with it begins at the first call of
    /// ``tools()``, and its tools are listed again in every turn.
    ///
    /// - Parameters:
    ///   - url: `https:`, or `http:` on this machine.
    ///   - headerFields: the fields that are sent with every request, for example an authorization. No message names
    ///     them. Default: none.
    ///   - transport: the transport to the server, whose proxy, trust and deadlines for connecting apply.
    ///   - authorization: the user's sign-in, made for the same `url`. Default `nil`: a server that requires one is an
    ///     error.
    ///   - name: see ``name``.
    ///   - policy: whether the user is asked before each call. Default `.ask`.
    ///   - startTimeout: the limit for the handshake, and for each list. Default 30 seconds.
    ///   - callTimeout: the limit of a call, of reading and of prompts. Each report of progress restarts it, up to 12
    ///     times its length. Default 5 minutes.
    ///   - allowedTools: the names of the only tools that are offered. Default `nil`: all of them. A name that the
    ///     server does not have is in ``skippedTools``.
    ///   - deniedTools: the names of tools that are not offered, although they may be allowed. Default: none.
    ///   - log: receives the log line by line, without line feeds. The log contains an outline of the messages with
    ///     methods, sizes, times and failures, but without contents, arguments and header fields. It omits header
    ///     fields that the server repeats, and text that looks like a secret. The closure is called on several threads
    ///     and delays the server. Default `nil`: no log.
    public convenience init(
        url: URL, headerFields: HTTPFields = [:], transport: any HTTPTransport,
        authorization: ChappieMCPAuthorization? = nil, name: String, policy: ChappieToolPolicy = .ask,
        startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300),
        allowedTools: Set<String>? = nil, deniedTools: Set<String> = [], log: (@Sendable (String) -> Void)? = nil
    ) {
        let authorized = authorization.map {
            MiddlewareTransport(transport, middleware: [MCPAuthorizing(authorization: $0)])
        }
        self.init(
            start: .http(
                MCPEndpoint(
                    url: url, headerFields: headerFields, transport: authorized ?? transport,
                    callTimeout: callTimeout)),
            name: name, policy: policy, startTimeout: startTimeout, callTimeout: callTimeout,
            allowedTools: allowedTools, deniedTools: deniedTools, log: log, limits: MCPSession.Limits())
    }

    /// Creates a server that is reached in this way, without starting it. See the other initialisers.
    @_spi(ChappieInternals) public convenience init(
        start: MCPServerStart, name: String, policy: ChappieToolPolicy, startTimeout: Duration, callTimeout: Duration,
        allowedTools: Set<String>?, deniedTools: Set<String>, log: (@Sendable (String) -> Void)?
    ) {
        self.init(
            start: start, name: name, policy: policy, startTimeout: startTimeout, callTimeout: callTimeout,
            allowedTools: allowedTools, deniedTools: deniedTools, log: log, limits: MCPSession.Limits())
    }

    /// Creates a server with other limits, which tests reach sooner.
    init(
        start: MCPServerStart, name: String, policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30),
        callTimeout: Duration = .seconds(300), allowedTools: Set<String>? = nil, deniedTools: Set<String> = [],
        log: (@Sendable (String) -> Void)? = nil, limits: MCPSession.Limits
    ) {
        self.start = start
        self.name = name
        self.policy = policy
        self.startTimeout = startTimeout
        self.callTimeout = callTimeout
        self.allowedTools = allowedTools
        self.deniedTools = deniedTools
        self.log = log.map { MCPLog(without: start.secrets, $0) }
        self.limits = limits
    }

    deinit { close() }

    /// Returns the server's current tools, each in the namespace ``name``. The tools that cannot be used are in
    /// ``skippedTools``.
    ///
    /// - Throws: ``ChappieMCPError`` if the server does not start or does not list its tools, or `CancellationError`. A
    ///   server that took too long is not tried again for 5 minutes. During this time, this method throws the same
    ///   error at once.
    public func tools() async throws -> [ChappieHostTool] {
        let listing = try await listing().value()
        return listing.tools.map { hostTool($0, listing) }
            + listing.readers.map { reader in
                hostTool(reader.rawValue, reader.description, reader.inputSchema, listing) { [self] arguments in
                    switch reader {
                    case .list:
                        let all = try await inSession(listing) { try await $0.resources(within: startTimeout) }
                        return ChappieToolResult(output: ChappieJSON.array(all.map(\.json)).serialized())
                    case .read:
                        let contents = try await inSession(listing) { connection in
                            try await self.contents(of: arguments["uri"]?.string ?? "", connection)
                        }
                        let blocks = contents.map { ChappieJSON.object(["type": "resource", "resource": $0]) }
                        return MCPResult.convert(["content": .array(blocks)])
                    }
                }
            }
    }

    /// Returns the server's current tools with their entries in its list.
    func entries() async throws -> [(entry: MCPTool, tool: ChappieHostTool)] {
        let listing = try await listing().value()
        return listing.tools.map { ($0, hostTool($0, listing)) }
    }

    private func hostTool(_ tool: MCPTool, _ listing: Listing) -> ChappieHostTool {
        hostTool(tool.offeredName, tool.description, tool.inputSchema, listing) { [self] arguments in
            let result = try await inSession(listing) { connection in
                try await connection.call(tool.name, arguments, within: callTimeout) { [weak self] progress in
                    self?.report(progress, of: tool.offeredName)
                }
            }
            return MCPResult.convert(result)
        }
    }

    private func hostTool(
        _ name: String, _ description: String, _ schema: ChappieJSON, _ listing: Listing,
        _ work: @escaping @Sendable (ChappieJSON) async throws -> ChappieToolResult
    ) -> ChappieHostTool {
        // The connection has the limit of a call, which progress may extend.
        var tool = ChappieHostTool(
            name: name, description: description, inputSchema: schema, policy: policy,
            timeout: callTimeout * (MCPConnection.progressFactor + 1), namespace: self.name
        ) { [self] call in
            guard let arguments = call.argumentsJSON, arguments.object != nil else {
                throw error(.refused, "the arguments of \(name) are not a JSON object")
            }
            return try await work(arguments)
        }
        tool.origin = start.origin
        tool.aboutNamespace = listing.connection.about
        return tool
    }

    /// Performs work in the current session, which may have begun after the tools were listed, or begins one. If the
    /// server did not take the request because the session had ended, the work is repeated once in a new session.
    private func inSession<Value>(
        _ listing: Listing, _ work: (MCPConnection) async throws -> Value
    ) async throws -> Value {
        do {
            let current = state.withLock(\.connection) ?? listing.connection
            return try await work(current.isOpen ? current : self.listing().value().connection)
        } catch let error as ChappieMCPError where error.code == .sessionEnded {
            return try await work(self.listing().value().connection)
        }
    }

    /// Sets the closure that receives the progress of calls, each as one line that is cleaned for display.
    @_spi(ChappieInternals) public func reportProgress(to take: @escaping @Sendable (String) -> Void) {
        state.withLock { $0.onProgress = take }
    }

    private func report(_ progress: MCPProgress, of tool: String) {
        state.withLock(\.onProgress)?("\(name)/\(tool): \(progress.line)")
    }

    // MARK: Resources and prompts

    /// Returns the server's current resources and address templates, at most 1000 of each. Entries without an address
    /// are left out.
    ///
    /// - Throws: The errors of ``tools()``.
    public func resources() async throws -> [ChappieMCPResource] {
        try await listing().value().connection.resources(within: startTimeout)
    }

    /// Returns the contents of the resource at `uri`, in at most 1000 parts. The address may come from a template and
    /// need not be listed.
    ///
    /// - Throws: The errors of ``tools()``. The code is `refused` if the server has no such resource.
    public func read(_ uri: String) async throws -> [ChappieMCPContent] {
        try await contents(of: uri, listing().value().connection).map { entry in
            guard let content = ChappieMCPContent(entry) else {
                throw error(.protocolViolation, "a content of its resource is neither text nor Base64")
            }
            return content
        }
    }

    /// Returns the server's current prompts, at most 1000. Entries without a name are left out.
    ///
    /// - Throws: The errors of ``tools()``.
    public func prompts() async throws -> [ChappieMCPPrompt] {
        try await listing().value().connection.list(.prompts, within: startTimeout).compactMap(ChappieMCPPrompt.init)
    }

    /// Returns the messages of a prompt whose placeholders are filled in. There are 1 to 1000 messages, each by the
    /// user or the model.
    ///
    /// - Throws: The errors of ``tools()``. The code is `refused` if the server has no such prompt, or lacks an
    ///   argument.
    public func prompt(_ name: String, arguments: [String: String] = [:]) async throws -> [ChappieInputMessage] {
        let given = ChappieJSONObject(arguments.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })
        let answer = try await listing().value().connection.ask(
            "prompts/get", ["name": .string(name), "arguments": .object(given)], for: "the prompt", within: callTimeout)
        let messages = try bounded(answer["messages"]?.array ?? [], "messages").map { ChappieInputMessage($0) }.filter {
            !$0.parts.isEmpty
        }
        guard !messages.isEmpty else { throw error(.protocolViolation, "its prompt is empty") }
        return messages
    }

    /// Returns the parts of one answer, or throws if there are too many. Each part needs more space in a request than
    /// here.
    private func bounded(_ entries: [ChappieJSON], _ what: String) throws -> [ChappieJSON] {
        guard entries.count <= limits.entries else {
            throw error(.protocolViolation, "its answer has more than \(limits.entries) \(what)")
        }
        return entries
    }

    private func contents(of uri: String, _ connection: MCPConnection) async throws -> [ChappieJSON] {
        let answer = try await connection.ask(
            "resources/read", ["uri": .string(uri)], for: "the resource", within: callTimeout)
        return try bounded(answer["contents"]?.array ?? [], "contents")
    }

    // MARK: Starting and ending

    /// Starts the server and lists its tools, one attempt at a time. The work runs in a separate task. If a turn is
    /// cancelled or a prewarm ends, the caller stops waiting, and the server continues to start for the next turn.
    /// ``close()`` ends the work.
    private func listing() -> Promise<Listing> {
        let (listing, isNew) = state.withLock { state in
            if let listing = state.listing { return (listing, false) }
            let new = Promise<Listing>()
            if let late = state.lateStart, ContinuousClock.now < late.until, !state.isClosed {
                new.fulfil(.failure(late.error))
                return (new, false)
            }
            state.listing = new
            return (new, true)
        }
        guard isNew else { return listing }
        Task.detached { [weak self] in
            let result: Result<Listing, any Error>
            do {
                guard let self else { throw CancellationError() }
                var connection = try await self.connection()
                let list: MCPConnection.ToolList
                do {
                    list = try await connection.tools(within: startTimeout)
                } catch let error as ChappieMCPError where error.code == .sessionEnded {
                    connection = try await self.connection()
                    list = try await connection.tools(within: startTimeout)
                }
                let hasResources = try await connection.hasResources(within: startTimeout)
                let listing = offered(connection, list, hasResources)
                state.withLock { state in
                    state.skipped = listing.skipped
                    state.lateStart = nil
                }
                result = .success(listing)
            } catch {
                if let late = error as? ChappieMCPError, late.code == .timedOut {
                    self?.state.withLock { $0.lateStart = (late, .now + Self.pauseAfterLateStart) }
                }
                result = .failure(error)
            }
            self?.state.withLock { $0.listing = nil }
            listing.fulfil(result)
        }
        return listing
    }

    private struct Listing: Sendable {
        let connection: MCPConnection
        let tools: [MCPTool]
        let readers: [MCPReader]
        let skipped: [ChappieMCPSkippedTool]
    }

    /// Returns the server's tools and the tools that read its resources, filtered by the allowed and denied names.
    private func offered(_ connection: MCPConnection, _ list: MCPConnection.ToolList, _ hasResources: Bool) -> Listing {
        func isOffered(_ name: String) -> Bool {
            allowedTools?.contains(name) != false && !deniedTools.contains(name)
        }
        let names = Set(list.tools.map(\.name))
        let offeredNames = Set(list.tools.map(\.offeredName))
        let readers = hasResources ? MCPReader.allCases.filter { !offeredNames.contains($0.rawValue) } : []
        let known = names.union(readers.map(\.rawValue)).union(list.skipped.map(\.name))
        func missing(_ names: Set<String>, _ list: String) -> [ChappieMCPSkippedTool] {
            names.subtracting(known).sorted().map { name in
                ChappieMCPSkippedTool(
                    name: name, reason: "The list of \(list) tools names it, and the server has no such tool.")
            }
        }
        return Listing(
            connection: connection, tools: list.tools.filter { isOffered($0.name) },
            readers: readers.filter { isOffered($0.rawValue) },
            skipped: list.skipped.filter { isOffered($0.name) } + missing(allowedTools ?? [], "allowed")
                + missing(deniedTools, "denied"))
    }

    /// The tools of the latest list that cannot be used, and the allowed or denied names that the list lacks, each with
    /// the reason.
    public var skippedTools: [ChappieMCPSkippedTool] { state.withLock(\.skipped) }

    /// Ends the program and refuses every later call. This method returns at once. ``closed()`` waits for the end.
    public func close() {
        let connection = state.withLock { state in
            state.isClosed = true
            return state.connection
        }
        connection?.end(because: error(.closed, "it has been closed"))
    }

    /// Closes the server and waits until the program has ended, at most 4 seconds.
    public func closed() async {
        close()
        let connection = state.withLock(\.connection)
        try? await connection?.hasEnded.value()
    }

    /// Returns the open connection, or opens a new one.
    private func connection() async throws -> MCPConnection {
        if let open = state.withLock(\.connection), open.isOpen { return open }
        guard ToolName.isValidGroup(name) else {
            throw error(
                .notStarted, "its name must consist of 1 to 64 letters, digits, _ and -, and not be \(ToolName.noGroup)"
            )
        }
        let new = MCPConnection(server: name, reachedBy: start, limits: limits, log: log)
        try use(new)
        try await new.begin(within: startTimeout)
        return new
    }

    /// Stores the connection before it starts, so that ``close()`` can end it.
    private func use(_ new: MCPConnection) throws {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.connection = new }
            return state.isClosed
        }
        guard !isClosed else { throw error(.closed, "it has been closed") }
    }

    private func error(_ code: ChappieMCPError.Code, _ reason: String) -> ChappieMCPError {
        ChappieMCPError(code, server: name, reason: reason)
    }
}
