@_spi(ChappieInternals) import ChappieCore
import ChappieMCP
import ChappieProgramTools
import ChappieSDK
import Synchronization

/// The tools of all manifests in one run of a command.
struct CommandLineTools: Sendable {
    let tools: [ChappieHostTool]
    let servers: [ChappieMCPServer]
    let providers: [any ChappieToolProvider]

    /// - Throws: ``CommandLineError`` for a manifest that can't be used, and for a name that two of them have.
    init(manifests: [String], _ environment: ProgramEnvironment, _ console: Console) throws {
        var (tools, servers): ([ChappieHostTool], [ChappieMCPServer]) = ([], [])
        for path in manifests {
            let manifest = try ChappieToolManifest(SmallFile.read(path), file: path) { environment[$0] }
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
                servers.append(
                    ChappieMCPServer(
                        command: server.command, environment: server.environment,
                        workingDirectory: server.workingDirectory, name: server.name, policy: server.policy,
                        callTimeout: server.timeout))
            }
        }
        self.tools = tools
        self.servers = servers
        providers = servers.map { NotedServer(server: $0, console: console) }
    }
}

/// A server. It notes each of its tools that can't be used, once.
private final class NotedServer: ChappieToolProvider {
    private let server: ChappieMCPServer
    private let console: Console
    private let noted = Mutex<Set<ChappieMCPSkippedTool>>([])

    init(server: ChappieMCPServer, console: Console) {
        self.server = server
        self.console = console
    }

    func tools() async throws -> [ChappieHostTool] {
        let tools = try await server.tools()
        for skipped in server.skippedTools where noted.withLock({ $0.insert(skipped).inserted }) {
            console.note("chappie: the tool \(skipped.name) of \(server.name) is left out. \(skipped.reason)")
        }
        return tools
    }
}

/// The servers that a command has started.
final class ToolServers: Sendable {
    private let servers = Mutex<[ChappieMCPServer]>([])

    func add(_ more: [ChappieMCPServer]) { servers.withLock { $0 += more } }

    /// Ends all of them at once and waits for that, in a task of its own: Ctrl-C may have cancelled this task.
    func end() async {
        let servers = servers.withLock(\.self)
        for server in servers { server.close() }
        await uncancelled { for server in servers { await server.closed() } }
    }
}
