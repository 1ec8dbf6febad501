@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieMCP
import ChappieProgramTools
import ChappieSDK
import HTTPTypes
import Synchronization

/// The tools of all manifests in one run of a command.
struct CommandLineTools: Sendable {
    let tools: [ChappieHostTool]
    let servers: [ChappieMCPServer]
    /// The user's sign-ins at remote servers.
    let signIns: [ChappieMCPAuthorization]
    /// The command that signs in at each server, keyed by the server's name.
    let logins: [String: ToolSignInCommand]
    let providers: [any ChappieToolProvider]

    /// - Parameters:
    ///   - logs: the folder for the servers' logs, or `nil` for none.
    ///   - transport: the transport to remote servers.
    ///   - ownSignIns: the user's sign-ins at remote servers.
    /// - Throws: ``CommandLineError`` for a manifest that cannot be used, for a name that occurs in two manifests, and
    ///   for a log that cannot be written.
    init(
        manifests: [String], logs: String?, _ environment: ProgramEnvironment, _ console: Console,
        _ transport: any HTTPTransport, _ ownSignIns: ToolSignIns
    ) throws {
        var (tools, servers): ([ChappieHostTool], [ChappieMCPServer]) = ([], [])
        var signIns: [ChappieMCPAuthorization] = []
        var logins: [String: ToolSignInCommand] = [:]
        for path in manifests {
            let manifest = try ChappieToolManifest(WholeFile.read(path), file: path) { environment[$0] }
            for note in manifest.notes { console.note("chappie: \(path): \(UntrustedText.forTerminal(note))") }
            for tool in manifest.tools {
                guard !tools.contains(where: { $0.name == tool.name }) else {
                    throw CommandLineError.usage("\(path): an earlier manifest has the tool \(tool.name) as well.")
                }
                tools.append(tool.hostTool)
            }
            for server in manifest.servers {
                guard !servers.contains(where: { $0.name == server.name }) else {
                    throw CommandLineError.usage("\(path): an earlier manifest has the server \(server.name) as well.")
                }
                let log = try logs.map { try ToolLog(of: server.name, in: $0) }.map { log in
                    { @Sendable (line: String) in log.write(line) }
                }
                let allowed = server.allowedTools.map(Set.init)
                logins[server.name] = ownSignIns.command(signingInAt: server.name, in: path)
                if let url = server.url {
                    var fields = HTTPFields()
                    for (name, value) in server.headers.sorted(by: { $0.key < $1.key }) {
                        guard let name = HTTPField.Name(name), HTTPField.isValidValue(value) else {
                            throw CommandLineError.usage(
                                "\(path): mcpServers.\(server.name).headers has a field that can't be sent.")
                        }
                        fields[name] = value
                    }
                    let authorization = ownSignIns.authorization(at: server)
                    if let authorization { signIns.append(authorization) }
                    servers.append(
                        ChappieMCPServer(
                            url: url, headerFields: fields, transport: transport, authorization: authorization,
                            name: server.name, policy: server.policy, startTimeout: server.startTimeout,
                            callTimeout: server.timeout, allowedTools: allowed, deniedTools: Set(server.deniedTools),
                            log: log))
                    continue
                }
                servers.append(
                    ChappieMCPServer(
                        command: server.command, environment: server.environment,
                        workingDirectory: server.workingDirectory, name: server.name, policy: server.policy,
                        startTimeout: server.startTimeout, callTimeout: server.timeout, allowedTools: allowed,
                        deniedTools: Set(server.deniedTools), log: log))
            }
        }
        self.tools = tools
        self.servers = servers
        self.signIns = signIns
        self.logins = logins
        providers = servers.map { NotedServer(server: $0, console: console, login: logins[$0.name]) }
    }
}

/// A server with notes. It notes once each tool that cannot be used, and its errors name the command that signs in.
private final class NotedServer: ChappieToolProvider {
    /// The maximum number of tools that are noted. A server may give its tools new names every time.
    private static let limit = 1000
    /// The maximum number of tools that one note names.
    private static let namesInNote = 3
    /// The maximum number of failures that are noted.
    private static let failureLimit = 20
    private let server: ChappieMCPServer
    private let console: Console
    private let login: ToolSignInCommand?
    private let noted = Mutex<Set<ChappieMCPSkippedTool>>([])
    private let saidFailures = Mutex<Set<String>>([])

    init(server: ChappieMCPServer, console: Console, login: ToolSignInCommand?) {
        self.server = server
        self.console = console
        self.login = login
        server.reportProgress { [console] line in console.status(line) }
    }

    func tools() async throws -> [ChappieHostTool] {
        let tools: [ChappieHostTool]
        do {
            tools = try await server.tools()
        } catch let error as ChappieMCPError {
            throw login?.naming(error) ?? error
        }
        let new = server.skippedTools.filter { skipped in
            noted.withLock { $0.count < Self.limit && $0.insert(skipped).inserted }
        }
        for (reason, skipped) in Dictionary(grouping: new, by: \.reason).sorted(by: { $0.key < $1.key }) {
            note(skipped, because: reason)
        }
        return tools.map { tool in tool.handled { handler in { try await self.call($0, handler) } } }
    }

    /// Notes tools that are left out for one reason. The server wrote their names and parts of the reason.
    private func note(_ skipped: [ChappieMCPSkippedTool], because reason: String) {
        let names = skipped.prefix(Self.namesInNote).map {
            UntrustedText.message($0.name, limit: 64) ?? "without a name"
        }
        let more = skipped.count - names.count
        let list = names.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
        let form =
            skipped.count == 1 ? "the tool \(list) of \(server.name) is" : "the tools \(list) of \(server.name) are"
        console.note("chappie: \(form) left out. \(UntrustedText.message(reason) ?? "")")
    }

    /// Calls the tool. A sign-in that is missing in the middle of a turn, and a page that the server asks the user to
    /// open, are reported to the user, not only to the model.
    private func call(_ call: ChappieToolCall, _ handler: ChappieHostTool.Handler) async throws -> ChappieToolResult {
        do {
            return try await handler(call)
        } catch let error as ChappieMCPError {
            let named = login?.naming(error) ?? error
            let words = named.errorDescription ?? ""
            let isForUser = named != error || !error.addresses.isEmpty
            if isForUser, saidFailures.withLock({ $0.count < Self.failureLimit && $0.insert(words).inserted }) {
                console.note("chappie: \(words)")
            }
            throw named
        }
    }
}

/// The servers and programs that a command has started.
final class StartedTools: Sendable {
    private struct State {
        var tools: CommandLineTools?
        var calls: [Int: Promise<Void>] = [:]
        var lastCall = 0
    }
    /// The time to wait for a program. A program that is ended receives SIGTERM, and SIGKILL a second later.
    private static let patience = Duration.seconds(2)
    private let state = Mutex(State())

    /// Returns the tools of the manifests, which `read` reads at the first call.
    func tools(_ read: () throws -> CommandLineTools) throws -> CommandLineTools {
        try state.withLock { state in
            let tools = try state.tools ?? read()
            state.tools = tools
            return tools
        }
    }

    /// The resources and prompts of the servers.
    var offers: ServerOffers {
        let tools = state.withLock(\.tools)
        return ServerOffers(servers: tools?.servers ?? [], logins: tools?.logins ?? [:])
    }

    /// Returns the tool with calls for which the command waits at its end. A cancelled turn does not wait for the
    /// program.
    func awaiting(_ tool: ChappieHostTool) -> ChappieHostTool {
        tool.handled { handler in
            { call in
                let id = self.begin()
                defer { self.end(id) }
                return try await handler(call)
            }
        }
    }

    private func begin() -> Int {
        state.withLock { state in
            state.lastCall += 1
            state.calls[state.lastCall] = Promise()
            return state.lastCall
        }
    }

    private func end(_ id: Int) { state.withLock { $0.calls.removeValue(forKey: id) }?.fulfil(.success(())) }

    /// Ends all servers at the same time. Waits for them, for their sign-ins that are being renewed, and for cancelled
    /// programs. This happens in a separate task because Ctrl-C may have cancelled the current one.
    func end() async {
        let (tools, calls) = state.withLock { ($0.tools, $0.calls.values) }
        let servers = tools?.servers ?? []
        let signIns = tools?.signIns ?? []
        for server in servers { server.close() }
        await uncancelled {
            for call in calls {
                try? await withDeadline(Self.patience, clock: SystemClock(), late: CancellationError()) {
                    try await call.value()
                }
            }
            for server in servers { await server.closed() }
            for signIn in signIns { await signIn.settle() }
        }
    }
}
