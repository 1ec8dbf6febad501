import ChappieJSONSchema
import ChappieMCP
@_spi(ChappieInternals) import ChappieProcess
import ChappieSDK
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
///     "files": { "command": "mcp-server-filesystem", "args": ["/srv/notes"], "passEnv": ["NOTES_KEY"] }
///   }
/// }
/// ```
///
/// A program gets the arguments as JSON on its standard input, and its standard output is the result. Every entry may have
/// `args`, `env` (variables beside `PATH`, `HOME` and `LANG`), `passEnv` (names of variables that are passed on), `cwd` (from
/// the manifest's folder; default: where chappie was started), `policy` (`ask`, which is the default, `automatic` or `deny`)
/// and `timeout` (seconds for a call). A `command` without a slash is looked up in `PATH`, another one from the manifest's
/// folder. What is not known here is an error that names its key path.
struct ToolManifest: Sendable {
    /// A server, as the manifest describes it.
    struct Server: Sendable, Hashable {
        var name: String
        var command: [String]
        var environment: [String: String]
        var workingDirectory: String?
        var policy: ChappieToolPolicy
        var timeout: Duration
    }

    var tools: [ExecutableTool] = []
    var servers: [Server] = []

    /// - Throws: ``CommandLineError``.
    init(path: String, environment: ProgramEnvironment) throws {
        let bytes = try SmallFile.read(path)
        let json: ChappieJSON
        do throws(ChappieJSONError) {
            json = try ChappieJSON(parsing: bytes)
        } catch {
            throw CommandLineError.usage("\(path): \(error.errorDescription ?? "It is not JSON.")")
        }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "./"
        try self.init(json, file: path, folder: folder, environment: environment)
    }

    /// - Parameters:
    ///   - file: for errors.
    ///   - folder: what relative paths begin with, with its slash.
    init(_ json: ChappieJSON, file: String, folder: String, environment: ProgramEnvironment) throws {
        let root = ManifestNode(json, "", file)
        try root.allow(["tools", "mcpServers"])
        var names: Set<String> = []
        for node in try root["tools"]?.elements() ?? [] {
            try node.allow(ManifestNode.shared + ["name", "description", "inputSchema", "runsAlone"])
            let name = try node.required("name")
            guard names.insert(try name.name()).inserted else { throw name.fault("is the name of an earlier tool") }
            tools.append(
                ExecutableTool(
                    name: try name.name(), description: try node["description"]?.string() ?? "",
                    inputSchema: try node["inputSchema"]?.schema() ?? ["type": "object", "properties": [:]],
                    invocation: try node.invocation(folder, environment), policy: try node.policy(),
                    timeout: try node.timeout() ?? .seconds(60), runsAlone: try node["runsAlone"]?.bool() ?? false))
        }
        for node in try root["mcpServers"]?.members() ?? [] {
            try node.allow(ManifestNode.shared + ["type"])
            if let type = node["type"], try type.string() != "stdio" {
                throw type.fault("must be \"stdio\": a server that is reached otherwise can't be used")
            }
            let invocation = try node.invocation(folder, environment)
            servers.append(
                Server(
                    name: try node.nameOfItself(), command: [invocation.path] + invocation.arguments,
                    environment: invocation.environment, workingDirectory: invocation.workingDirectory,
                    policy: try node.policy(), timeout: try node.timeout() ?? .seconds(300)))
        }
    }
}

/// A value of a manifest, and where it is.
private struct ManifestNode {
    static let shared = ["command", "args", "env", "passEnv", "cwd", "policy", "timeout"]

    private let json: ChappieJSON
    private let path: String
    private let file: String
    /// The last member of the path.
    private let key: String

    init(_ json: ChappieJSON, _ path: String, _ file: String, key: String = "") {
        (self.json, self.path, self.file, self.key) = (json, path, file, key)
    }

    func fault(_ what: String) -> CommandLineError {
        CommandLineError.usage("\(file): \(path.isEmpty ? "the manifest" : path) \(what).")
    }

    subscript(key: String) -> ManifestNode? {
        json[key].map { ManifestNode($0, path.isEmpty ? key : "\(path).\(key)", file, key: key) }
    }

    func required(_ key: String) throws -> ManifestNode {
        if let node = self[key] { return node }
        throw ManifestNode(.null, path.isEmpty ? key : "\(path).\(key)", file).fault("is missing")
    }

    /// The value must be an object with no other members than these.
    func allow(_ keys: [String]) throws {
        guard let object = json.object else { throw fault("must be an object") }
        guard let unknown = object.names.first(where: { !keys.contains($0) }) else { return }
        let known = keys.sorted().joined(separator: ", ")
        throw ManifestNode(.null, path.isEmpty ? unknown : "\(path).\(unknown)", file)
            .fault("is not known; known are \(known)")
    }

    func elements() throws -> [ManifestNode] {
        guard let array = json.array else { throw fault("must be an array") }
        return array.enumerated().map { ManifestNode($1, "\(path)[\($0)]", file) }
    }

    func members() throws -> [ManifestNode] {
        guard let object = json.object else { throw fault("must be an object") }
        var names: Set<String> = []
        return try object.names.map { name in
            guard names.insert(name).inserted, let node = self[name] else {
                throw fault("has \(name) twice")
            }
            return node
        }
    }

    func string() throws -> String {
        guard let string = json.string else { throw fault("must be a string") }
        guard !string.utf8.contains(0) else { throw fault("holds a NUL character") }
        return string
    }

    func bool() throws -> Bool {
        guard let bool = json.bool else { throw fault("must be true or false") }
        return bool
    }

    func strings() throws -> [String] { try elements().map { try $0.string() } }

    func name() throws -> String { try named(try string()) }
    func nameOfItself() throws -> String { try named(key) }

    private func named(_ name: String) throws -> String {
        let isName = name.utf8.allSatisfy { byte in
            let character = Character(Unicode.Scalar(byte))
            return character.isASCII && (character.isLetter || character.isNumber || "_-".contains(character))
        }
        guard isName, (1...64).contains(name.utf8.count) else {
            throw fault("must be named with 1 to 64 letters, digits, _ and -")
        }
        return name
    }

    func schema() throws -> ChappieJSON {
        guard json["type"]?.string == "object" else { throw fault("must be a JSON Schema of an object") }
        do throws(ChappieJSONSchemaError) {
            try ChappieJSONSchema(json).check()
        } catch {
            throw fault("can't be used, at \"\(error.path)\": \(error.reason.droppingFinalStop)")
        }
        return json
    }

    func policy() throws -> ChappieToolPolicy {
        guard let node = self["policy"] else { return .ask }
        let policy = ChappieToolPolicy(rawValue: try node.string())
        guard [.ask, .automatic, .deny].contains(policy) else {
            throw node.fault("must be \"ask\", \"automatic\" or \"deny\"")
        }
        return policy
    }

    func timeout() throws -> Duration? {
        guard let node = self["timeout"] else { return nil }
        guard let seconds = node.json.double, seconds > 0, seconds <= 86_400 else {
            throw node.fault("must be seconds, more than 0 and at most 86400")
        }
        return .seconds(seconds)
    }

    /// The program to start; it is there and may be run.
    func invocation(_ folder: String, _ environment: ProgramEnvironment) throws -> ProgramInvocation {
        let command = try required("command")
        var program = try command.string()
        if program.contains("/"), !program.hasPrefix("/") { program = try absolute(folder) + program }
        var variables: [String: String] = [:]
        for name in ["PATH", "HOME", "LANG"] { variables[name] = environment[name] }
        for name in try self["passEnv"]?.strings() ?? [] { variables[name] = environment[name] }
        for variable in try self["env"]?.members() ?? [] {
            guard !variable.key.isEmpty, !variable.key.contains("=") else {
                throw variable.fault("is no name of a variable")
            }
            variables[variable.key] = try variable.string()
        }
        let directory = try self["cwd"].map { node in
            let path = try node.string()
            return path.hasPrefix("/") ? path : try absolute(folder) + path
        }
        let arguments = try self["args"]?.strings() ?? []
        do throws(StartFailure) {
            return try ProgramInvocation(
                command: [program] + arguments, environment: variables, workingDirectory: directory)
        } catch {
            throw command.fault("can't be started: \(error.reason)")
        }
    }

    private func absolute(_ folder: String) throws -> String {
        folder.hasPrefix("/") ? folder : FileManager.default.currentDirectoryPath + "/" + folder
    }
}

extension String {
    fileprivate var droppingFinalStop: String { hasSuffix(".") ? String(dropLast()) : self }
}
