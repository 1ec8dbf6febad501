public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieProcess
public import HTTPTypes
import Synchronization

/// The tools of a Model Context Protocol server. The server is a separate program, which speaks over its standard input
/// and output, or one elsewhere, which is asked over HTTP.
///
/// ```swift
/// let files = ChappieMCPServer(command: ["mcp-server-filesystem", "/srv/notes"], name: "files")
/// defer { files.close() }
/// let tools = try await files.tools()       // starts it
/// ```
///
/// The first call of ``tools()`` starts the program: without a shell, in its own session, with the variables `PATH`,
/// `HOME` and `LANG` and the ones of
/// ``init(command:environment:workingDirectory:name:policy:startTimeout:callTimeout:)`` adds. If the program has ended,
/// the next turn starts it again. A call that was under way then fails with a sentence and is not repeated, because the
/// server may have carried it out. The program ends with ``close()``, or with the last reference to this value: its
/// input ends, the program and its process group get SIGTERM after 2 seconds, and SIGKILL after 2 more.
///
/// The client refuses every request of the server (for its models or its folders), and does not rely on the server's
/// hints about the dangers of its tools.
public final class ChappieMCPServer: ChappieToolProvider {
    /// The newest revision of the protocol that this client speaks.
    @_spi(ChappieInternals) public static let revision = MCPSession.versions[0]

    private struct State {
        var connection: MCPConnection?
        /// The start, or the list, that is under way.
        var listing: Promise<Listing>?
        var skipped: [ChappieMCPSkippedTool] = []
        /// A start that took too long, and the time until which it is not tried again.
        var lateStart: (error: ChappieMCPError, until: ContinuousClock.Instant)?
        var isClosed = false
    }

    /// The name of the group that the model sees the tools in: letters, digits, `_` and `-`, at most 64.
    public let name: String
    private let endpoint: MCPEndpoint?
    private let command: [String]
    private let environment: [String: String]
    private let workingDirectory: String?
    private let policy: ChappieToolPolicy
    private let startTimeout: Duration
    private let callTimeout: Duration
    private let limits: MCPSession.Limits
    /// The time for which a server that did not start in time is left alone: each turn would wait for it.
    private static let pauseAfterLateStart = Duration.seconds(300)
    private let state = Mutex(State())

    /// A server that is not started yet.
    ///
    /// - Parameters:
    ///   - command: the program and its arguments. A name without a slash is looked up in `PATH`; a relative path
    ///     begins at `workingDirectory`. Other processes of the machine can read arguments: secrets belong in
    ///     `environment`.
    ///   - environment: variables beside `PATH`, `HOME` and `LANG`, which they may replace. Default: none.
    ///   - workingDirectory: the folder that the program starts in. Default `nil`: this process's folder.
    ///   - name: see ``name``.
    ///   - policy: whether the user is asked before each call. Default `.ask`.
    ///   - startTimeout: the limit for the start with the handshake, and for a list of the tools. Default 30 seconds.
    ///   - callTimeout: the `timeout` of the server's tools. Default 5 minutes.
    public convenience init(
        command: [String], environment: [String: String] = [:], workingDirectory: String? = nil, name: String,
        policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300)
    ) {
        self.init(
            command: command, environment: environment, workingDirectory: workingDirectory, name: name, policy: policy,
            startTimeout: startTimeout, callTimeout: callTimeout, limits: MCPSession.Limits())
    }

    /// A server elsewhere, which is asked over HTTP ("Streamable HTTP"); a session with it begins at the first call of
    /// ``tools()``, and its tools are listed anew in every turn.
    ///
    /// - Parameters:
    ///   - url: `https:`, or `http:` on this machine.
    ///   - headerFields: sent with every request, for example an authorization; no message names them. Default: none.
    ///   - transport: how it is reached: its proxy, its trust and its deadlines for connecting hold.
    ///   - authorization: the user's sign-in, made for the same `url`. Default `nil`: a server that wants one is an error.
    ///   - name: see ``name``.
    ///   - policy: whether the user is asked before each call. Default `.ask`.
    ///   - startTimeout: the limit for the handshake, and for a list of the tools. Default 30 seconds.
    ///   - callTimeout: the `timeout` of the server's tools. Default 5 minutes.
    public convenience init(
        url: URL, headerFields: HTTPFields = [:], transport: any HTTPTransport,
        authorization: ChappieMCPAuthorization? = nil, name: String,
        policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300)
    ) {
        let authorized = authorization.map {
            MiddlewareTransport(transport, middleware: [MCPAuthorizing(authorization: $0)])
        }
        self.init(
            endpoint: MCPEndpoint(
                url: url, headerFields: headerFields, transport: authorized ?? transport, callTimeout: callTimeout),
            command: [], name: name, policy: policy, startTimeout: startTimeout, callTimeout: callTimeout,
            limits: MCPSession.Limits())
    }

    /// A server with other limits, which tests reach sooner.
    init(
        endpoint: MCPEndpoint? = nil, command: [String], environment: [String: String] = [:],
        workingDirectory: String? = nil, name: String,
        policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300),
        limits: MCPSession.Limits
    ) {
        self.endpoint = endpoint
        self.command = command
        self.environment = environment
        self.workingDirectory = workingDirectory
        self.name = name
        self.policy = policy
        self.startTimeout = startTimeout
        self.callTimeout = callTimeout
        self.limits = limits
    }

    deinit { close() }

    /// The server's present tools, each in the namespace ``name``. The tools that can't be used are in
    /// ``skippedTools``.
    ///
    /// - Throws: ``ChappieMCPError`` if the server does not start or does not list its tools; `CancellationError`. A
    ///   server that took too long is not tried again for 5 minutes, in which this method throws that error at once.
    public func tools() async throws -> [ChappieHostTool] {
        let listing = try await listing().value()
        let connection = listing.connection
        return listing.tools.map { tool in
            ChappieHostTool(
                name: tool.name, description: tool.description, inputSchema: tool.inputSchema, policy: policy,
                timeout: callTimeout, namespace: name
            ) { [self] call in
                guard let arguments = call.argumentsJSON, arguments.object != nil else {
                    throw error(.refused, "the arguments of \(tool.name) are not a JSON object")
                }
                // The server may have been started again since the tools were listed.
                let current = state.withLock(\.connection) ?? connection
                return MCPResult.convert(try await current.call(tool.name, arguments))
            }
        }
    }

    /// One start, or one list, at a time, in a task of its own: a turn that is cancelled, or a prewarm that ends, stops
    /// waiting, and the server goes on starting for the next turn. ``close()`` ends it.
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
                let connection = try await self.connection()
                let (tools, skipped) = try await connection.tools(within: startTimeout)
                state.withLock { state in
                    state.skipped = skipped
                    state.lateStart = nil
                }
                result = .success(Listing(connection: connection, tools: tools))
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
    }

    /// Tools of the latest list that can't be used, and why.
    public var skippedTools: [ChappieMCPSkippedTool] { state.withLock(\.skipped) }

    /// Ends the program, and refuses every later call. It returns at once; ``closed()`` waits.
    public func close() {
        let connection = state.withLock { state in
            state.isClosed = true
            return state.connection
        }
        connection?.end(because: error(.closed, "it has been closed"))
    }

    /// Closes, and waits until the program has ended: 4 seconds at most.
    public func closed() async {
        close()
        let connection = state.withLock(\.connection)
        try? await connection?.hasEnded.value()
    }

    /// The open connection, or a new one.
    private func connection() async throws -> MCPConnection {
        if let open = state.withLock(\.connection), open.isOpen { return open }
        guard ToolName.isValidGroup(name) else {
            throw error(
                .notStarted, "its name must consist of 1 to 64 letters, digits, _ and -, and not be \(ToolName.noGroup)"
            )
        }
        if let endpoint {
            let new = MCPConnection(server: name, limits: limits, hearsOfChanges: false)
            try use(new)
            try await new.start(endpoint, within: startTimeout)
            return new
        }
        let invocation: ProgramInvocation
        do throws(StartFailure) {
            invocation = try ProgramInvocation(
                command: command, environment: ProgramInvocation.cleanEnvironment(adding: environment),
                workingDirectory: workingDirectory)
        } catch {
            throw self.error(.notStarted, "it does not start: \(error.reason)")
        }
        let new = MCPConnection(server: name, limits: limits)
        try use(new)
        try await new.start(invocation, within: startTimeout)
        return new
    }

    /// The state knows the connection before it starts, so that ``close()`` ends it.
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
