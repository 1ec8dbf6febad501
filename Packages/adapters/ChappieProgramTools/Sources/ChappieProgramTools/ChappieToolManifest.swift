@_spi(ChappieInternals) public import ChappieCore
import ChappieProcess
import FoundationEssentials

/// A file that lists tools for the model: programs, and Model Context Protocol servers.
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
/// A program receives the arguments as JSON on its standard input, and its standard output is the result. Instead of
/// `inputSchema`, it may have a `format`, which is encoded like a `ChappieToolTextFormat`. It then receives free text.
/// Every entry may have `args`, `env` (variables in addition to `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TERM`,
/// `TMPDIR`, `LANG` and `LC_ALL`), `passEnv` (names of
/// variables that are passed on), `cwd` (relative to the manifest's folder; default: this process's working directory),
/// `policy` (`ask`, which is the default, `automatic` or `deny`) and `timeout` (seconds for a call; default: 60 for a
/// program, 300 for a server). A `command` without a slash is looked up in `PATH`. Another command is relative to the
/// manifest's folder. A server with a `url` is called over HTTP. In addition to `policy` and `timeout`, it may have
/// `headers` and `bearerTokenEnv`, the name of the variable that contains its token. Alternatively, it may have `oauth`
/// for the user's sign-in at the server, with `clientId` (a program that its owner has registered at the server's
/// authorization server) and `scopes` (permissions to request). Every server may have `startTimeout` (seconds for its
/// start, and for each of its lists; default: 30), `allowTools` (the names of the only tools that are offered) and
/// `denyTools` (names of tools that are not). Times are more than 0 seconds, and at most a day.
///
/// `${NAME}` in `command`, `args`, `env`, `cwd`, `url` and `headers` is replaced with the environment variable, and
/// `${NAME:-default}` with the default if the variable is not set or empty. A variable that is not set is an error
/// otherwise. A `command` or `cwd` that begins with `~/` is in the home directory.
///
/// Manifests of other programs are accepted unchanged. A server with `disabled` is left out. Members of a server that
/// only other programs use, such as `autoApprove` and `alwaysAllow`, are ignored, and ``notes`` names them: they never
/// grant an approval. `servers` is another name of `mcpServers`. Other unknown members are an error.
public struct ChappieToolManifest: Sendable, Hashable {
    /// A Model Context Protocol server, as the manifest describes it. It contains the values for a `ChappieMCPServer`
    /// of ChappieMCP.
    public struct Server: Sendable, Hashable {
        /// The name that groups the server's tools for the model. It has 1 to 64 letters, digits, `_` and `-`. Other
        /// characters of the manifest's name are replaced with `_`.
        public var name: String
        /// The address of a remote server, or `nil` for a program.
        public var url: URL?
        /// The header fields for a remote server, including the one with its token.
        public var headers: [String: String]
        /// The client id for the user's sign-in at a remote server, or `nil` if the program registers itself.
        public var clientID: String?
        /// The permissions to request at the user's sign-in, in addition to the server's own.
        public var scopes: [String]
        /// The program, as an absolute path, and its arguments. It is empty for a remote server.
        public var command: [String]
        /// All variables that the program receives.
        public var environment: [String: String]
        /// The program's working directory, or `nil` for this process's own.
        public var workingDirectory: String?
        /// Whether the user is asked before each call.
        public var policy: ChappieToolPolicy
        /// The limit for a call.
        public var timeout: Duration
        /// The limit for the server's start, and for each of its lists.
        public var startTimeout: Duration
        /// The names of the only tools that are offered, or `nil` for all.
        public var allowedTools: [String]?
        /// The names of tools that are not offered.
        public var deniedTools: [String]

        /// Creates a server with the given properties.
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
    /// The servers, in the file's order, without those that are disabled.
    public var servers: [Server] = []
    /// Sentences about members that are ignored.
    public var notes: [String] = []
    /// The names of the environment variables that the manifest uses, in alphabetical order. Variables that every
    /// program receives are not among them.
    public var variables: [String] = []

    /// Reads a manifest. Checks that the programs that it names exist and may be run.
    ///
    /// - Parameters:
    ///   - json: The file's content. A byte order mark at its start is left out.
    ///   - file: The file's path. Relative paths in the manifest begin in its folder, and errors name it.
    ///   - variable: A closure that looks up an environment variable. By default, it uses this process's environment.
    /// - Throws: ``ChappieToolManifestError``, which names the key path.
    public init(
        _ json: [UInt8], file: String,
        variable: @escaping (String) -> String? = { ProcessInfo.processInfo.environment[$0] }
    ) throws(ChappieToolManifestError) {
        let json = Array(json.trimmingPrefix([0xEF, 0xBB, 0xBF]))
        let value: ChappieJSON
        do throws(ChappieJSONError) {
            value = try ChappieJSON(parsing: json)
        } catch {
            throw ChappieToolManifestError(
                file: file,
                reason:
                    "\(error.errorDescription ?? "It is not JSON.") A manifest is JSON without comments, and without a "
                    + "comma before } or ].")
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

    /// The folder and the environment of a manifest, for the paths and variables in it.
    private struct Place {
        /// The path of the folder, which ends with a slash.
        let folder: String
        let variable: (String) -> String?

        func absolute(_ path: String) -> String {
            if path.hasPrefix("/") { return path }
            if path.hasPrefix("~/"), let home = variable("HOME"), home.hasPrefix("/") { return home + path.dropFirst() }
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
            let program = try invocation(entry.program, path, place)
            // A decoder loses the order of the members, and the model reads them in that order.
            let schema = entry.inputSchema == nil ? nil : json["tools"]?[index]?["inputSchema"]
            tools.append(
                ChappieProgramTool(
                    name: entry.name, description: entry.description, inputSchema: schema,
                    invocation: program, policy: entry.program.policy, timeout: entry.program.timeout ?? .seconds(60),
                    runsAlone: entry.runsAlone))
            tools[tools.endIndex - 1].textFormat = entry.format
        }
        let member = document.isEditors ? "servers" : "mcpServers"
        for name in json[member]?.object?.names ?? [] {
            guard let entry = document.servers[name], !entry.isDisabled else { continue }
            try add(entry, named: name, at: "\(member).\(name)", place)
        }
        variables = Set(variables).sorted()
    }

    private mutating func add(
        _ entry: ManifestServer, named given: String, at path: String, _ place: Place
    ) throws(ManifestFault) {
        if !entry.ignored.isEmpty { notes.append("\(path): \(entry.ignored.joined(separator: ", ")) ignored.") }
        let name = String(given.map { ToolName.isValid(String($0)) ? $0 : "_" })
        try Self.check(name, at: path)
        guard ToolName.isValidGroup(name) else {
            throw ManifestFault(path: path, what: "must have another name: tools without a server have it")
        }
        guard !servers.contains(where: { $0.name == name }) else {
            throw ManifestFault(path: path, what: "must have another name: an earlier server is also called \(name)")
        }
        var server = Server(
            name: name, policy: entry.program.policy, timeout: entry.program.timeout ?? .seconds(300),
            startTimeout: entry.startTimeout ?? .seconds(30), allowedTools: entry.allowedTools,
            deniedTools: entry.deniedTools)
        if let address = entry.address {
            server.url = try Self.url(try expand(address, "\(path).url", place), "\(path).url")
            for (field, value) in entry.headerFields {
                server.headers[field] = try expand(value, "\(path).headers.\(field)", place)
            }
            if let variable = entry.tokenVariable {
                variables.append(variable)
                guard let token = place.variable(variable), !token.isEmpty else {
                    throw ManifestFault(path: "\(path).bearerTokenEnv", what: "names \(variable), which is not set")
                }
                server.headers["Authorization"] = "Bearer \(token)"
            }
            server.clientID = entry.signIn?.clientID
            server.scopes = entry.signIn?.scopes ?? []
        } else {
            let program = try invocation(entry.program, path, place)
            server.command = [program.path] + program.arguments
            server.environment = program.environment
            server.workingDirectory = program.workingDirectory
        }
        servers.append(server)
    }

    private static func url(_ address: String, _ path: String) throws(ManifestFault) -> URL {
        guard let url = URL(string: address), ["https", "http"].contains(url.scheme?.lowercased()),
            url.host()?.isEmpty == false, url.user() == nil
        else {
            throw ManifestFault(
                path: path, what: "must be an address that begins with https:// (or http:// on this machine)")
        }
        return url
    }

    /// Replaces `${NAME}`, `${NAME:-default}` and `${env:NAME}`. Other text is unchanged.
    private mutating func expand(_ text: String, _ path: String, _ place: Place) throws(ManifestFault) -> String {
        var pieces = text.components(separatedBy: "${")
        var expanded = pieces.removeFirst()
        for piece in pieces {
            let content = piece.prefix { $0 != "}" }
            let parts = content.components(separatedBy: ":-")
            let name = parts[0].hasPrefix("env:") ? String(parts[0].dropFirst(4)) : parts[0]
            guard content.count < piece.count, Self.isVariable(name) else {
                guard !name.hasPrefix("input:") else {
                    throw ManifestFault(path: path, what: "asks for an input. Set a variable, and write ${NAME}")
                }
                expanded += "${" + piece
                continue
            }
            variables.append(name)
            let value = place.variable(name)
            if parts.count > 1, value?.isEmpty != false {
                expanded += parts.dropFirst().joined(separator: ":-")
            } else if let value {
                expanded += value
            } else {
                throw ManifestFault(
                    path: path,
                    what: "names the variable \(name), which is not set. Set it, or write ${\(name):-default}")
            }
            expanded += piece.dropFirst(content.count + 1)
        }
        return expanded
    }

    private static func isVariable(_ name: String) -> Bool {
        guard let first = name.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return name.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
    }

    private static func check(_ name: String, at path: String) throws(ManifestFault) {
        guard ToolName.isValid(name) else {
            throw ManifestFault(path: path, what: "must be named with 1 to 64 letters, digits, _ and -")
        }
    }

    /// Returns the program to start. Checks that it exists and may be run.
    private mutating func invocation(
        _ entry: ManifestProgram, _ path: String, _ place: Place
    ) throws(ManifestFault) -> ProgramInvocation {
        var environment: [String: String] = [:]
        variables += entry.passedVariables
        for name in ProgramInvocation.passedVariables + entry.passedVariables {
            environment[name] = place.variable(name)
        }
        for (name, value) in entry.variables {
            environment[name] = try expand(value, "\(path).env.\(name)", place)
        }
        let command = try expand(entry.command, "\(path).command", place)
        var arguments: [String] = []
        for (index, argument) in entry.arguments.enumerated() {
            arguments.append(try expand(argument, "\(path).args[\(index)]", place))
        }
        let folder = try entry.workingDirectory.map { folder throws(ManifestFault) in
            place.absolute(try expand(folder, "\(path).cwd", place))
        }
        do throws(StartFailure) {
            return try ProgramInvocation(
                command: [command.contains("/") ? place.absolute(command) : command] + arguments,
                environment: environment, workingDirectory: folder)
        } catch {
            let advice = command.contains(" ") ? ". Its arguments belong into \"args\"" : ""
            throw ManifestFault(path: "\(path).command", what: "can't be started: \(error.reason)\(advice)")
        }
    }
}

/// The reason why a manifest of tools can't be used, and the location of the mistake in it.
public struct ChappieToolManifestError: ChappieError, Hashable {
    /// The path of the file.
    public let file: String
    /// The location in the file, such as `tools[1].command`. It is empty if the error concerns the entire file.
    public let keyPath: String
    /// The reason as a sentence that names the location.
    public let reason: String

    /// Creates an error with the given properties.
    public init(file: String, keyPath: String = "", reason: String) {
        self.file = file
        self.keyPath = keyPath
        self.reason = reason
    }

    public var errorDescription: String? { "\(file): \(reason)" }
}
