@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) import ChappieProcess
import FoundationEssentials

/// A file that names tools for the model: programs, and Model Context Protocol servers.
///
/// ```json
/// {
///   "tools": [
///     { "name": "weather", "description": "The weather in a town.", "command": "./weather.py", "args": ["--metric"],
///       "inputSchema": { "type": "object", "properties": { "town": { "type": "string" } }, "required": ["town"] },
///       "policy": "automatic", "timeout": 20 }
///   ],
///   "mcpServers": {
///     "files": { "command": "mcp-server-filesystem", "args": ["/srv/notes"], "passEnv": ["NOTES_KEY"],
///                "allowTools": ["read_file", "search_files"], "startTimeout": 60 },
///     "docs": { "url": "https://docs.example/mcp", "bearerTokenEnv": "DOCS_TOKEN" }
///   }
/// }
/// ```
///
/// A program gets the arguments as JSON on its standard input, and its standard output is the result. Instead of
/// `inputSchema` it may have a `format`, as a `ChappieToolTextFormat` is encoded: then it gets free text. Every entry may
/// have `args`, `env` (variables beside `PATH`, `HOME` and `LANG`), `passEnv` (names of variables that are passed on),
/// `cwd` (from the manifest's folder; default: this process's working directory), `policy` (`ask`, which is the
/// default, `automatic` or `deny`) and `timeout` (seconds for a call; default: 60 for a program, 300 for a server). A
/// `command` without a slash is looked up in `PATH`, another command from the manifest's folder. A server with a `url`
/// is asked over HTTP; beside `policy` and `timeout` it may have `headers` and `bearerTokenEnv`, the name of the variable
/// that holds its token, or `oauth` with `clientId` (a program that its owner has registered at the server's authorization
/// server) and `scopes` (permissions to ask for) for the user's sign-in there. Every server may have `startTimeout`
/// (seconds for its start, and for each of its lists; default: 30), `allowTools` (the names of the only tools that are
/// offered) and `denyTools` (names of tools that are not). Times are more than 0 seconds, and at most a day. An unknown
/// member is an error.
public struct ChappieToolManifest: Sendable, Hashable {
    /// A Model Context Protocol server, as the manifest describes it: the values for a `ChappieMCPServer` of
    /// ChappieMCP.
    public struct Server: Sendable, Hashable {
        /// Groups its tools for the model: 1 to 64 letters, digits, `_` and `-`.
        public var name: String
        /// The address of a server elsewhere; `nil` for a program.
        public var url: URL?
        /// The header fields for a server elsewhere, its token's among them.
        public var headers: [String: String]
        /// The client id for the user's sign-in at a server elsewhere; `nil` if the program registers itself.
        public var clientID: String?
        /// The permissions to ask for at the user's sign-in, beside the server's own.
        public var scopes: [String]
        /// The program, as an absolute path, and its arguments; empty for a server elsewhere.
        public var command: [String]
        /// All variables that it gets.
        public var environment: [String: String]
        /// The program's working directory; `nil` means this process's own.
        public var workingDirectory: String?
        /// Whether the user is asked before each call.
        public var policy: ChappieToolPolicy
        /// For a call.
        public var timeout: Duration
        /// For its start, and for each of its lists.
        public var startTimeout: Duration
        /// The names of the only tools that are offered; `nil` for all.
        public var allowedTools: [String]?
        /// The names of tools that are not offered.
        public var deniedTools: [String]

        /// A server with the given properties.
        public init(
            name: String, command: [String] = [], environment: [String: String] = [:], workingDirectory: String? = nil,
            url: URL? = nil, headers: [String: String] = [:], clientID: String? = nil, scopes: [String] = [],
            policy: ChappieToolPolicy = .ask, timeout: Duration = .seconds(300), startTimeout: Duration = .seconds(30),
            allowedTools: [String]? = nil, deniedTools: [String] = []
        ) {
            self.url = url
            self.headers = headers
            self.clientID = clientID
            self.scopes = scopes
            self.name = name
            self.command = command
            self.environment = environment
            self.workingDirectory = workingDirectory
            self.policy = policy
            self.timeout = timeout
            self.startTimeout = startTimeout
            self.allowedTools = allowedTools
            self.deniedTools = deniedTools
        }
    }

    /// The programs, in the file's order.
    public var tools: [ChappieProgramTool] = []
    /// The servers, in the file's order.
    public var servers: [Server] = []

    /// Reads a manifest. The programs that it names are there, and may be run.
    ///
    /// - Parameters:
    ///   - json: the file's content.
    ///   - file: its path: relative paths in it begin in its folder, and errors name it.
    ///   - variable: looks up a variable of the environment. Default: this process's own.
    /// - Throws: ``ChappieToolManifestError``, which names the key path.
    public init(
        _ json: [UInt8], file: String,
        variable: @escaping (String) -> String? = { ProcessInfo.processInfo.environment[$0] }
    ) throws(ChappieToolManifestError) {
        let value: ChappieJSON
        do throws(ChappieJSONError) {
            value = try ChappieJSON(parsing: json)
        } catch {
            throw ChappieToolManifestError(file: file, reason: error.errorDescription ?? "It is not JSON.")
        }
        do throws(ManifestFault) {
            if let fault = ManifestFault(doublesIn: value) { throw fault }
            let document = try ManifestDocument(json)
            let folder = file.lastIndex(of: "/").map { String(file[...$0]) } ?? "./"
            try self.init(document, value, place: Place(folder: folder, variable: variable))
        } catch {
            throw ChappieToolManifestError(
                file: file, keyPath: error.path,
                reason: "\(error.path.isEmpty ? "the manifest" : error.path) \(error.what).")
        }
    }

    /// A manifest's folder and environment, for the paths and variables in it.
    private struct Place {
        /// Ends with a slash.
        let folder: String
        let variable: (String) -> String?

        func absolute(_ path: String) -> String {
            if path.hasPrefix("/") { return path }
            let current = FileManager.default.currentDirectoryPath
            // A name that is not UTF-8 can't be part of a path here, and the relative path leads to the same file.
            return (folder.hasPrefix("/") || current.isRepaired ? folder : current + "/" + folder) + path
        }
    }

    private init(_ document: ManifestDocument, _ json: ChappieJSON, place: Place) throws(ManifestFault) {
        var names: Set<String> = []
        for (index, entry) in document.tools.enumerated() {
            let path = "tools[\(index)]"
            try Self.check(entry.name, at: "\(path).name")
            guard names.insert(entry.name).inserted else {
                throw ManifestFault(path: "\(path).name", what: "is the name of an earlier tool")
            }
            let program = try Self.invocation(entry.program, path, place)
            // A decoder loses the order of the members, and the model reads them in that order.
            let schema = entry.inputSchema == nil ? nil : json["tools"]?[index]?["inputSchema"]
            tools.append(
                ChappieProgramTool(
                    name: entry.name, description: entry.description, inputSchema: schema,
                    invocation: program, policy: entry.program.policy, timeout: entry.program.timeout ?? .seconds(60),
                    runsAlone: entry.runsAlone))
            tools[tools.endIndex - 1].textFormat = entry.format
        }
        for name in json["mcpServers"]?.object?.names ?? [] {
            guard let entry = document.servers[name] else { continue }
            try Self.check(name, at: "mcpServers.\(name)")
            guard ToolName.isValidGroup(name) else {
                throw ManifestFault(
                    path: "mcpServers.\(name)", what: "must have another name: tools without a server have it")
            }
            var server = Server(
                name: name, url: entry.url, policy: entry.program.policy,
                timeout: entry.program.timeout ?? .seconds(300), startTimeout: entry.startTimeout ?? .seconds(30),
                allowedTools: entry.allowedTools, deniedTools: entry.deniedTools)
            if entry.url == nil {
                let program = try Self.invocation(entry.program, "mcpServers.\(name)", place)
                server.command = [program.path] + program.arguments
                server.environment = program.environment
                server.workingDirectory = program.workingDirectory
            } else {
                server.headers = entry.headerFields
                if let variable = entry.tokenVariable {
                    guard let token = place.variable(variable), !token.isEmpty else {
                        throw ManifestFault(
                            path: "mcpServers.\(name).bearerTokenEnv", what: "names \(variable), which is not set")
                    }
                    server.headers["Authorization"] = "Bearer \(token)"
                }
                server.clientID = entry.signIn?.clientID
                server.scopes = entry.signIn?.scopes ?? []
            }
            servers.append(server)
        }
    }

    private static func check(_ name: String, at path: String) throws(ManifestFault) {
        guard ToolName.isValid(name) else {
            throw ManifestFault(path: path, what: "must be named with 1 to 64 letters, digits, _ and -")
        }
    }

    /// The program to start; it is there and may be run.
    private static func invocation(
        _ entry: ManifestProgram, _ path: String, _ place: Place
    ) throws(ManifestFault) -> ProgramInvocation {
        var environment: [String: String] = [:]
        for name in ["PATH", "HOME", "LANG"] + entry.passedVariables { environment[name] = place.variable(name) }
        environment.merge(entry.variables) { _, given in given }
        let program = entry.command.contains("/") ? place.absolute(entry.command) : entry.command
        do throws(StartFailure) {
            return try ProgramInvocation(
                command: [program] + entry.arguments, environment: environment,
                workingDirectory: entry.workingDirectory.map(place.absolute))
        } catch {
            throw ManifestFault(path: "\(path).command", what: "can't be started: \(error.reason)")
        }
    }
}

/// The reason for which a manifest of tools can't be used, and the place of the mistake in it.
public struct ChappieToolManifestError: ChappieError, Hashable {
    /// The file.
    public let file: String
    /// The place in it, such as `tools[1].command`; empty for the whole file.
    public let keyPath: String
    /// A sentence, which names the place.
    public let reason: String

    /// An error with the given properties.
    public init(file: String, keyPath: String = "", reason: String) {
        self.file = file
        self.keyPath = keyPath
        self.reason = reason
    }

    public var errorDescription: String? { "\(file): \(reason)" }
}
