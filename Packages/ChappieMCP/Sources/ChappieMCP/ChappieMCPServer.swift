public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieProcess
import Synchronization

/// The tools of a Model Context Protocol server, which runs as a program of its own and speaks over its standard input and
/// output.
///
/// ```swift
/// let files = ChappieMCPServer(command: ["mcp-server-filesystem", "/srv/notes"], name: "files")
/// defer { files.close() }
/// let tools = try await files.tools()       // starts it
/// ```
///
/// The program is started when the tools are first asked for: without a shell, in a session of its own, with `PATH`, `HOME`
/// and `LANG` and what ``init(command:environment:workingDirectory:name:policy:startTimeout:callTimeout:)`` adds. One that has
/// ended is started again at the next turn. A call that was under way then fails with a sentence and is not repeated, since
/// the server may have carried it out. The program ends with ``close()``, or with the last reference to this value: its input
/// ends, it gets SIGTERM after 2 seconds and SIGKILL, its whole process group with it, after 2 more.
///
/// What the server asks of the client (its models, its folders) is refused; what it says about its tools' dangers is not
/// believed.
public final class ChappieMCPServer: ChappieToolProvider {
    /// The newest revision of the protocol that is spoken.
    @_spi(ChappieInternals) public static let revision = MCPSession.versions[0]

    private struct State {
        var connection: MCPConnection?
        var skipped: [ChappieMCPSkippedTool] = []
        var isClosed = false
    }

    /// Groups its tools for the model: letters, digits, `_` and `-`, at most 64.
    public let name: String
    private let command: [String]
    private let environment: [String: String]
    private let workingDirectory: String?
    private let policy: ChappieToolPolicy
    private let startTimeout: Duration
    private let callTimeout: Duration
    private let limits: MCPSession.Limits
    /// One start, and one list, at a time.
    private let line = AsyncLock()
    private let state = Mutex(State())

    /// A server that is not started yet.
    ///
    /// - Parameters:
    ///   - command: the program and its arguments. A name without a slash is looked up in `PATH`, a relative path is taken from
    ///     `workingDirectory`. Other processes of the machine can read arguments: secrets belong into `environment`.
    ///   - environment: variables beside `PATH`, `HOME` and `LANG`, which they may replace. Default none.
    ///   - workingDirectory: where it starts; `nil`, the default, is where this process is.
    ///   - name: see ``name``.
    ///   - policy: whether the user is asked before each call. Default `.ask`.
    ///   - startTimeout: for the start and the handshake, and for a list of the tools. Default 30 seconds.
    ///   - callTimeout: the `timeout` of its tools. Default 5 minutes.
    public convenience init(
        command: [String], environment: [String: String] = [:], workingDirectory: String? = nil, name: String,
        policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300)
    ) {
        self.init(
            command: command, environment: environment, workingDirectory: workingDirectory, name: name, policy: policy,
            startTimeout: startTimeout, callTimeout: callTimeout, limits: MCPSession.Limits())
    }

    /// With other bounds, which tests pass sooner.
    init(
        command: [String], environment: [String: String] = [:], workingDirectory: String? = nil, name: String,
        policy: ChappieToolPolicy = .ask, startTimeout: Duration = .seconds(30), callTimeout: Duration = .seconds(300),
        limits: MCPSession.Limits
    ) {
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

    /// The server's tools as they are now, each in the namespace ``name``. Those that can't be used are in ``skippedTools``.
    ///
    /// - Throws: ``ChappieMCPError`` when the server does not start or does not list its tools; `CancellationError`.
    public func tools() async throws -> [ChappieHostTool] {
        let ticket = line.reserve()
        defer { line.leave(ticket) }
        try await line.enter(ticket)
        let connection = try await connection()
        let (tools, skipped) = try await connection.tools(within: startTimeout)
        state.withLock { $0.skipped = skipped }
        return tools.map { tool in
            ChappieHostTool(
                name: tool.name, description: tool.description, inputSchema: tool.inputSchema, policy: policy,
                timeout: callTimeout, namespace: name
            ) { [self] call in
                guard let arguments = call.argumentsJSON, arguments.object != nil else {
                    throw error(.refused, "the arguments of \(tool.name) are not a JSON object")
                }
                // The one that runs now: it may have been started again since the tools were listed.
                let current = state.withLock(\.connection) ?? connection
                return MCPResult.convert(try await current.call(tool.name, arguments))
            }
        }
    }

    /// Tools of the latest list that can't be used, and why.
    public var skippedTools: [ChappieMCPSkippedTool] { state.withLock(\.skipped) }

    /// Ends the program, and refuses everything from here on. It returns at once; ``closed()`` waits.
    public func close() {
        let connection = state.withLock { state in
            state.isClosed = true
            return state.connection
        }
        connection?.end(because: error(.closed, "it has been closed"))
    }

    /// Closes, and waits until the program is no more: 4 seconds at most.
    public func closed() async {
        close()
        let connection = state.withLock(\.connection)
        try? await connection?.hasEnded.value()
    }

    /// The connection that is open, or a new one.
    private func connection() async throws -> MCPConnection {
        if let open = state.withLock(\.connection), open.isOpen { return open }
        guard MCPTool.isName(name) else {
            throw error(.notStarted, "its name is not made of 1 to 64 letters, digits, _ and -")
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
        // Known before it is started, so that closing reaches it.
        let isClosed = state.withLock { state in
            if !state.isClosed { state.connection = new }
            return state.isClosed
        }
        guard !isClosed else { throw error(.closed, "it has been closed") }
        try await new.start(invocation, within: startTimeout)
        return new
    }

    private func error(_ code: ChappieMCPError.Code, _ reason: String) -> ChappieMCPError {
        ChappieMCPError(code, server: name, reason: reason)
    }
}
