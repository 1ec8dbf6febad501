@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema
import FoundationEssentials

/// A mistake in a manifest, such as `tools[1].name` `must be a string`.
struct ManifestFault: Error {
    let path: String
    let what: String

    init(path: String, what: String) {
        self.path = path
        self.what = what
    }

    init(_ path: [any CodingKey], _ what: String) { self.init(path: path.keyPath, what: what) }

    /// Creates the fault for an error.
    ///
    /// - Parameter error: An error of a decoder, or of the types below.
    init(_ error: any Error) {
        switch error {
        case let fault as ManifestFault: self = fault
        case DecodingError.keyNotFound(let key, let context): self.init(context.codingPath + [key], "is missing")
        case DecodingError.typeMismatch(let type, let context), DecodingError.valueNotFound(let type, let context):
            self.init(context.codingPath, "must be \(Self.word(for: type))")
        case DecodingError.dataCorrupted(let context): self.init(context.codingPath, "can't be used")
        default: self.init(path: "", what: "can't be used")
        }
    }

    private static func word(for type: any Any.Type) -> String {
        if type == String.self { return "a string" }
        if type == Bool.self { return "true or false" }
        if type == Double.self { return ManifestProgram.timeoutWords }
        return "\(type)".hasPrefix("Array<") || "\(type)".hasPrefix("Unkeyed") ? "an array" : "an object"
    }

    /// Finds the first object that has a member twice. Returns `nil` if there is none. A decoder accepts either member
    /// without an error. A schema may contain a member twice.
    init?(doublesIn json: ChappieJSON, at path: [any CodingKey] = []) {
        for (index, element) in (json.array ?? []).enumerated() {
            if let fault = ManifestFault(doublesIn: element, at: path + [AnyKey(index)]) {
                self = fault
                return
            }
        }
        var names: Set<String> = []
        for member in json.object?.members ?? [] where member.name != "inputSchema" {
            if !names.insert(member.name).inserted {
                self.init(path, "has \(member.name) twice")
                return
            }
            if let fault = ManifestFault(doublesIn: member.value, at: path + [AnyKey(member.name)]) {
                self = fault
                return
            }
        }
        return nil
    }
}

/// The members of a manifest, decoded to their types.
struct ManifestDocument: Decodable {
    var tools: [ManifestTool]
    var servers: [String: ManifestServer]
    /// Whether the servers have the name that an editor gives them.
    let isEditors: Bool

    private enum Key: String, CodingKey, CaseIterable { case tools, mcpServers, servers, inputs }

    init(_ json: [UInt8]) throws(ManifestFault) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(json))
        } catch {
            throw ManifestFault(error)
        }
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.members(Key.self)
        tools = try members.given([ManifestTool].self, .tools) ?? []
        // An editor uses this name, and has `inputs` next to it.
        isEditors = members.contains(.servers)
        if isEditors, members.contains(.mcpServers) {
            throw members.fault(.servers, "is another name of mcpServers, which is there as well")
        }
        servers = try members.given([String: ManifestServer].self, isEditors ? .servers : .mcpServers) ?? [:]
    }
}

/// An entry of `tools`.
struct ManifestTool: Decodable {
    var name: String
    var description: String
    var inputSchema: ManifestSchema?
    var format: ChappieToolTextFormat?
    var runsAlone: Bool
    var program: ManifestProgram

    private enum Key: String, CodingKey, CaseIterable {
        case name, description, inputSchema, format, runsAlone
        case command, args, env, passEnv, cwd, policy, timeout
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.members(Key.self)
        name = try members.decode(ManifestText.self, forKey: .name).text
        description = try members.given(ManifestText.self, .description)?.text ?? ""
        inputSchema = try members.given(ManifestSchema.self, .inputSchema)
        format = try members.given(ManifestTextFormat.self, .format)?.format
        if format != nil, inputSchema != nil {
            throw members.fault(.format, "is for a tool that takes free text, and this one has an inputSchema")
        }
        runsAlone = try members.given(Bool.self, .runsAlone) ?? false
        program = try ManifestProgram(from: decoder)
    }
}

/// An entry of `mcpServers`.
struct ManifestServer: Decodable {
    /// The program. Its command is empty for a remote server.
    var program: ManifestProgram
    /// The address of a remote server, in which variables are not replaced yet.
    var address: String?
    /// Whether the server is left out.
    let isDisabled: Bool
    /// The members that only other programs use.
    let ignored: [String]
    var headerFields: [String: String]
    /// The variable that contains the token for an `Authorization: Bearer` field.
    var tokenVariable: String?
    var startTimeout: Duration?
    var allowedTools: [String]?
    var deniedTools: [String]
    var signIn: ManifestSignIn?

    private enum Key: String, CodingKey, CaseIterable {
        case type, url, headers, bearerTokenEnv, oauth, startTimeout, allowTools, denyTools, disabled
        case command, args, env, passEnv, cwd, policy, timeout
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Key.self)
        let known = Key.allCases.map(\.stringValue) + ["disabled", "description"]
        let names = try decoder.container(keyedBy: AnyKey.self).allKeys.map(\.stringValue)
        ignored = names.filter { !known.contains($0) }.sorted()
        isDisabled = try members.given(Bool.self, .disabled) ?? false
        address = try members.given(ManifestText.self, .url)?.text
        if let type = try members.given(ManifestText.self, .type),
            !(address == nil ? ["stdio"] : ["http", "streamable-http"]).contains(type.text)
        {
            throw members.fault(
                .type,
                "must be \"stdio\" with a command, or \"http\" with a url: a server that is reached otherwise can't be used"
            )
        }
        program = try ManifestProgram(from: decoder, needsCommand: address == nil)
        headerFields = try members.given([String: ManifestText].self, .headers)?.mapValues(\.text) ?? [:]
        tokenVariable = try members.given(ManifestText.self, .bearerTokenEnv)?.text
        startTimeout = try members.givenSeconds(.startTimeout)
        allowedTools = try members.givenToolNames(.allowTools)
        deniedTools = try members.givenToolNames(.denyTools) ?? []
        signIn = try members.given(ManifestSignIn.self, .oauth)
        guard address != nil else {
            for key in [Key.headers, .bearerTokenEnv, .oauth] where members.contains(key) {
                throw members.fault(key, "is for a server with a url")
            }
            return
        }
        for key in [Key.command, .args, .env, .passEnv, .cwd] where members.contains(key) {
            throw members.fault(key, "is for a server that is a program, and this one has a url")
        }
        let isAuthorized = tokenVariable != nil || headerFields.keys.contains { $0.lowercased() == "authorization" }
        guard signIn == nil || !isAuthorized else {
            throw members.fault(.oauth, "is for a server without its own authorization, and this one has a token")
        }
    }
}

/// The member `oauth` of a remote server.
struct ManifestSignIn: Decodable {
    var clientID: String?
    var scopes: [String]

    private enum Key: String, CodingKey, CaseIterable { case clientId, scopes }

    init(from decoder: any Decoder) throws {
        let members = try decoder.members(Key.self)
        clientID = try members.given(ManifestText.self, .clientId)?.text
        guard clientID.map({ UntrustedText.token($0, limit: 2048) != nil }) ?? true else {
            throw members.fault(.clientId, "must be visible ASCII characters, at most 2048")
        }
        scopes = try members.given([ManifestText].self, .scopes)?.map(\.text) ?? []
        guard scopes.allSatisfy({ UntrustedText.token($0, limit: 200) != nil }) else {
            throw members.fault(.scopes, "must be words without spaces, each of at most 200 ASCII characters")
        }
    }
}

/// The members that tools and servers share.
struct ManifestProgram: Decodable {
    static let timeoutWords = "seconds, more than 0 and at most 86400"

    var command: String
    var arguments: [String]
    var variables: [String: String]
    var passedVariables: [String]
    var workingDirectory: String?
    var policy: ChappieToolPolicy
    var timeout: Duration?

    private enum Key: String, CodingKey { case command, args, env, passEnv, cwd, policy, timeout }

    init(from decoder: any Decoder) throws { try self.init(from: decoder, needsCommand: true) }

    init(from decoder: any Decoder, needsCommand: Bool) throws {
        let members = try decoder.container(keyedBy: Key.self)
        command = needsCommand ? try members.decode(ManifestText.self, forKey: .command).text : ""
        arguments = try members.given([ManifestText].self, .args)?.map(\.text) ?? []
        passedVariables = try members.given([ManifestText].self, .passEnv)?.map(\.text) ?? []
        variables = try members.given([String: ManifestText].self, .env)?.mapValues(\.text) ?? [:]
        for name in variables.keys.sorted() where name.isEmpty || name.contains("=") {
            throw ManifestFault(members.codingPath + [Key.env, AnyKey(name)], "is not the name of a variable")
        }
        workingDirectory = try members.given(ManifestText.self, .cwd)?.text
        policy = try members.given(ManifestText.self, .policy).map { ChappieToolPolicy(rawValue: $0.text) } ?? .ask
        guard [.ask, .automatic, .deny].contains(policy) else {
            throw members.fault(.policy, "must be \"ask\", \"automatic\" or \"deny\"")
        }
        timeout = try members.givenSeconds(.timeout)
    }
}

/// A string that can be passed to C.
struct ManifestText: Decodable {
    let text: String

    init(from decoder: any Decoder) throws {
        text = try decoder.singleValueContainer().decode(String.self)
        guard !text.utf8.contains(0) else { throw ManifestFault(decoder.codingPath, "holds a NUL character") }
    }
}

/// The format of free text.
struct ManifestTextFormat: Decodable {
    let format: ChappieToolTextFormat

    private enum Key: String, CodingKey, CaseIterable { case type, syntax, definition }

    init(from decoder: any Decoder) throws {
        let members = try decoder.members(Key.self)
        do {
            format = try ChappieToolTextFormat(from: decoder)
        } catch {
            throw ManifestFault(
                decoder.codingPath,
                "must be {\"type\": \"text\"}, or have the type \"grammar\", the syntax \"lark\" or \"regex\", and a definition"
            )
        }
        let definition = try members.given(ManifestText.self, .definition)?.text
        guard format == .text || definition?.isEmpty == false else {
            throw members.fault(.definition, "must not be empty")
        }
    }
}

/// A schema against which arguments can be checked.
struct ManifestSchema: Decodable {
    init(from decoder: any Decoder) throws {
        let json = try ChappieJSON(from: decoder)
        guard ChappieJSONSchema(json).allowsObjects else {
            throw ManifestFault(decoder.codingPath, "must be a JSON Schema of an object")
        }
        do throws(ChappieJSONSchemaError) {
            try ChappieJSONSchema(json).check()
        } catch {
            let reason = error.reason.hasSuffix(".") ? String(error.reason.dropLast()) : error.reason
            throw ManifestFault(decoder.codingPath, "can't be used, at \"\(error.path)\": \(reason)")
        }
    }
}

// MARK: Decoding

private struct AnyKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(_ name: String) {
        stringValue = name
        intValue = nil
    }

    init(_ index: Int) {
        stringValue = "\(index)"
        intValue = index
    }

    init(stringValue: String) { self.init(stringValue) }
    init(intValue: Int) { self.init(intValue) }
}

extension Decoder {
    /// Returns the members of an object that must have no others.
    fileprivate func members<Key: CodingKey & CaseIterable>(
        _ keys: Key.Type
    ) throws -> KeyedDecodingContainer<Key> {
        let known = Key.allCases.map(\.stringValue).sorted()
        let names = try container(keyedBy: AnyKey.self).allKeys.map(\.stringValue)
        if let unknown = names.sorted().first(where: { !known.contains($0) }) {
            throw ManifestFault(
                codingPath + [AnyKey(unknown)], "is not known; known are \(known.joined(separator: ", "))")
        }
        return try container(keyedBy: Key.self)
    }
}

extension KeyedDecodingContainer {
    /// Returns the member's value, or `nil` if it is missing. No member here accepts null.
    fileprivate func given<Value: Decodable>(_ type: Value.Type, _ key: Key) throws -> Value? {
        contains(key) ? try decode(type, forKey: key) : nil
    }

    /// Returns a time limit, or `nil` if there is none.
    fileprivate func givenSeconds(_ key: Key) throws -> Duration? {
        guard let seconds = try given(Double.self, key) else { return nil }
        guard seconds > 0, seconds <= 86_400 else { throw fault(key, "must be \(ManifestProgram.timeoutWords)") }
        return .seconds(seconds)
    }

    /// Returns the tool names in a list, or `nil` if there is no list.
    fileprivate func givenToolNames(_ key: Key) throws -> [String]? {
        let names = try given([ManifestText].self, key)?.map(\.text)
        for (index, name) in (names ?? []).enumerated() where name.isEmpty {
            throw ManifestFault(codingPath + [key, AnyKey(index)], "must be the name of a tool")
        }
        return names
    }

    fileprivate func fault(_ key: Key, _ what: String) -> ManifestFault { ManifestFault(codingPath + [key], what) }
}
