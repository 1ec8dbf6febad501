import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// The server side of the Model Context Protocol, sans-IO. It takes the client's lines, and returns messages for the
/// client and calls to carry out.
///
/// It serves clients that start with a handshake (revision 2025-11-25 and earlier) and clients whose requests contain
/// everything that a handshake would contain (2026-07-28). Each request may be of either kind.
@_spi(ChappieInternals) public struct MCPHostSession: Sendable {
    /// The next step of the connection. The connection carries out the actions in order.
    public enum Action: Sendable, Hashable {
        /// Write this message as one line.
        case send(ChappieJSON)
        /// Carry out this call, and pass its outcome to ``finish(_:with:)``.
        case call(Call)
        /// The client no longer waits for the call with this number.
        case cancel(Int)
    }

    /// A call of a tool.
    public struct Call: Sendable, Hashable {
        /// The number of the call. The client's id is not enough, because the client may use it again at once after a
        /// cancellation.
        public let number: Int
        /// The client's id for the call, a string or a number.
        public let id: ChappieJSON
        /// The tool's name, which the server has listed.
        public let tool: String
        /// The client's arguments, unchecked.
        public let arguments: ChappieJSON
        /// The client's name for reports of progress, or `nil` if it wants none.
        public var progressToken: ChappieJSON?
    }

    /// A part of a result.
    public enum Content: Sendable, Hashable {
        /// Text for the client's model.
        case text(String)
        /// A picture with these bytes.
        case image(bytes: [UInt8], mediaType: String)

        var json: ChappieJSON {
            switch self {
            case .text(let text): ["type": "text", "text": .string(text)]
            case .image(let bytes, let mediaType):
                [
                    "type": "image", "data": .string(Data(bytes).base64EncodedString()),
                    "mimeType": .string(mediaType),
                ]
            }
        }
    }

    /// The largest number of concurrent calls. The next call is refused.
    public static let callLimit = 16

    private let info: ChappieJSON
    private let instructions: String
    private let tools: [ChappieJSON]
    /// The calls under way by their ids, and whether the result of each call must state its type.
    private var calls: [ChappieJSON: (number: Int, isStateless: Bool)] = [:]
    private var lastNumber = 0

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - name: the server's name.
    ///   - instructions: the purpose of the server, for the client's model.
    ///   - tools: the tools with name, description and schema, as `tools/list` returns them.
    public init(name: String, instructions: String, tools: [ChappieJSON]) {
        info = ["name": .string(name), "version": .string(ChappieVersion.current)]
        self.instructions = instructions
        self.tools = tools
    }

    /// Processes a line from the client, and returns the next actions.
    public mutating func received(_ line: [UInt8]) -> [Action] {
        if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { return [] }
        guard let message = try? ChappieJSON(parsing: line), message["jsonrpc"]?.string == "2.0" else {
            return [Self.error(nil, -32700, "That is not a message of the protocol.")]
        }
        guard let method = message["method"]?.string else { return [] }
        let parameters = message["params"] ?? [:]
        guard let id = message["id"] else {
            guard method == "notifications/cancelled", let id = parameters["requestId"],
                let call = calls.removeValue(forKey: id)
            else { return [] }
            return [.cancel(call.number)]
        }
        guard id.string != nil || id.int != nil else {
            return [Self.error(nil, -32600, "The id must be text or a whole number of at most 64 bits.")]
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
            lastNumber += 1
            calls[id] = (lastNumber, isStateless)
            let token = parameters["_meta"]?["progressToken"].flatMap { $0.string == nil && $0.int == nil ? nil : $0 }
            return [
                .call(
                    Call(
                        number: lastNumber, id: id, tool: name, arguments: parameters["arguments"] ?? [:],
                        progressToken: token))
            ]
        default: return [Self.error(id, -32601, "This server has no such method.")]
        }
    }

    /// Reports the progress of a call.
    ///
    /// - Parameter progress: A number that grows from report to report.
    /// - Returns: the message for the client, or `nil` if the client does not want it, or has cancelled the call.
    public func report(_ progress: Int, _ message: String, of call: Call) -> ChappieJSON? {
        guard let token = call.progressToken, calls[call.id]?.number == call.number else { return nil }
        return [
            "jsonrpc": "2.0", "method": "notifications/progress",
            "params": ["progressToken": token, "progress": .integer(progress), "message": .string(message)],
        ]
    }

    /// Ends a call.
    ///
    /// - Parameter outcome: the parts of the result, or the sentence for its failure.
    /// - Returns: the message for the client, or `nil` if the client has cancelled the call.
    public mutating func finish(_ call: Call, with outcome: Result<[Content], MCPCallFailure>) -> ChappieJSON? {
        guard let (number, isStateless) = calls[call.id], number == call.number else { return nil }
        calls[call.id] = nil
        let (content, isError) =
            switch outcome {
            case .success(let content): (content, false)
            case .failure(let failure): ([.text(failure.sentence)], true)
            }
        return result(
            call.id, ["content": .array(content.map(\.json)), "isError": .bool(isError)], isStateless: isStateless)
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

/// The failure of a call, as a sentence for the client's model.
@_spi(ChappieInternals) public struct MCPCallFailure: Error, Sendable, Hashable {
    /// The failure, and the next step for the reader.
    public let sentence: String

    /// Creates a failure with this sentence.
    public init(_ sentence: String) { self.sentence = sentence }
}
