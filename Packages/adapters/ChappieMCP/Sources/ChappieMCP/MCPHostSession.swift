import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// The server's side of the Model Context Protocol, sans-IO: it takes the client's lines, and gives messages for the client
/// and calls to carry out.
///
/// It serves a client that shakes hands (revision 2025-11-25 and earlier) and one whose requests say everything for
/// themselves (2026-07-28), whichever a request is.
@_spi(ChappieInternals) public struct MCPHostSession: Sendable {
    /// The next step of the connection. It carries out the actions in their order.
    public enum Action: Sendable, Hashable {
        /// Write this as one line.
        case send(ChappieJSON)
        /// Carry this call out, and give what came of it to ``finish(_:with:)``.
        case call(Call)
        /// The client does not wait for the call with this id any more.
        case cancel(ChappieJSON)
    }

    /// A call of a tool.
    public struct Call: Sendable, Hashable {
        /// The client's, a string or a number.
        public let id: ChappieJSON
        /// The tool's name, which the server has listed.
        public let tool: String
        /// The client's arguments, unchecked.
        public let arguments: ChappieJSON
    }

    /// The calls that are carried out at a time; the next one is refused.
    public static let callLimit = 16

    private let info: ChappieJSON
    private let instructions: String
    private let tools: [ChappieJSON]
    /// The calls under way, and whether each one's result says what it is.
    private var calls: [ChappieJSON: Bool] = [:]

    /// - Parameters:
    ///   - name: the server's.
    ///   - instructions: what it is for, for the client's model.
    ///   - tools: with name, description and schema, as `tools/list` gives them.
    public init(name: String, instructions: String, tools: [ChappieJSON]) {
        info = ["name": .string(name), "version": .string(ChappieVersion.current)]
        self.instructions = instructions
        self.tools = tools
    }

    /// The client has sent a line.
    public mutating func received(_ line: [UInt8]) -> [Action] {
        if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { return [] }
        guard let message = try? ChappieJSON(parsing: line), message["jsonrpc"]?.string == "2.0" else {
            return [Self.error(nil, -32700, "That is not a message of the protocol.")]
        }
        guard let method = message["method"]?.string else { return [] }
        let parameters = message["params"] ?? [:]
        guard let id = message["id"], id.string != nil || id.int != nil else {
            guard method == "notifications/cancelled", let number = parameters["requestId"],
                calls.removeValue(forKey: number) != nil
            else { return [] }
            return [.cancel(number)]
        }
        let version = parameters["_meta"]?["io.modelcontextprotocol/protocolVersion"]?.string
        if let version, version != MCPSession.statelessVersion {
            let data: ChappieJSON = [
                "supported": [.string(MCPSession.statelessVersion)], "requested": .string(version),
            ]
            return [Self.error(id, -32022, "This server does not speak that version.", data)]
        }
        return answer(method, parameters, id, isStateless: version != nil)
    }

    private mutating func answer(
        _ method: String, _ parameters: ChappieJSON, _ id: ChappieJSON, isStateless: Bool
    ) -> [Action] {
        switch method {
        case "initialize" where !isStateless:
            let asked = parameters["protocolVersion"]?.string ?? ""
            let version = MCPSession.versions.contains(asked) ? asked : MCPSession.versions[0]
            return [
                .send(
                    Self.result(
                        id,
                        [
                            "protocolVersion": .string(version), "capabilities": ["tools": [:]], "serverInfo": info,
                            "instructions": .string(instructions),
                        ]))
            ]
        case "server/discover" where isStateless:
            return [
                .send(
                    result(
                        id,
                        [
                            "supportedVersions": [.string(MCPSession.statelessVersion)], "capabilities": ["tools": [:]],
                            "instructions": .string(instructions), "ttlMs": 0, "cacheScope": "private",
                        ], isStateless: true))
            ]
        case "ping": return [.send(result(id, [:], isStateless: isStateless))]
        case "tools/list":
            var list: ChappieJSONObject = ["tools": .array(tools)]
            if isStateless { (list["ttlMs"], list["cacheScope"]) = (0, "private") }
            return [.send(result(id, list, isStateless: isStateless))]
        case "tools/call":
            guard let name = parameters["name"]?.string, tools.contains(where: { $0["name"]?.string == name }) else {
                return [Self.error(id, -32602, "There is no tool of that name.")]
            }
            guard calls[id] == nil else { return [Self.error(id, -32600, "A call of that id is under way.")] }
            guard calls.count < Self.callLimit else {
                return [Self.error(id, -32603, "\(Self.callLimit) calls are under way; try again later.")]
            }
            calls[id] = isStateless
            return [.call(Call(id: id, tool: name, arguments: parameters["arguments"] ?? [:]))]
        default: return [Self.error(id, -32601, "This server has no such method.")]
        }
    }

    /// A call has ended.
    ///
    /// - Parameter outcome: the result as text, or the sentence for its failure.
    /// - Returns: the message for the client; `nil` if it has given the call up.
    public mutating func finish(_ id: ChappieJSON, with outcome: Result<String, MCPCallFailure>) -> ChappieJSON? {
        guard let isStateless = calls.removeValue(forKey: id) else { return nil }
        let (text, isError) =
            switch outcome {
            case .success(let text): (text, false)
            case .failure(let failure): (failure.sentence, true)
            }
        return result(
            id, ["content": [["type": "text", "text": .string(text)]], "isError": .bool(isError)],
            isStateless: isStateless)
    }

    private func result(_ id: ChappieJSON, _ members: ChappieJSONObject, isStateless: Bool) -> ChappieJSON {
        guard isStateless else { return Self.result(id, members) }
        var members = members
        members["resultType"] = "complete"
        members["_meta"] = ["io.modelcontextprotocol/serverInfo": info]
        return Self.result(id, members)
    }

    private static func result(_ id: ChappieJSON, _ members: ChappieJSONObject) -> ChappieJSON {
        ["jsonrpc": "2.0", "id": id, "result": .object(members)]
    }

    private static func error(
        _ id: ChappieJSON?, _ code: Int, _ message: String, _ data: ChappieJSON? = nil
    ) -> Action {
        var error: ChappieJSONObject = ["code": .integer(code), "message": .string(message)]
        error["data"] = data
        return .send(["jsonrpc": "2.0", "id": id ?? .null, "error": .object(error)])
    }
}

/// Why a call failed, in a sentence for the client's model.
@_spi(ChappieInternals) public struct MCPCallFailure: Error, Sendable, Hashable {
    /// The failure, and the next step of the reader.
    public let sentence: String

    /// A failure with this sentence.
    public init(_ sentence: String) { self.sentence = sentence }
}
