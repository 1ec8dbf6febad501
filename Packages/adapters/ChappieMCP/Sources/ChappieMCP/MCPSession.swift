import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The client's side of the Model Context Protocol, sans-IO: it takes the server's bytes, and gives messages for the
/// server and answers for the caller.
///
/// JSON-RPC 2.0, one message in each line (modelcontextprotocol.io/specification/2025-11-25, Base Protocol and
/// Transports).
struct MCPSession {
    /// The next step of the connection. It carries out the actions in their order.
    enum Action: Sendable, Hashable {
        /// Write this as one line.
        case send(ChappieJSON)
        /// The request with this number has ended. The value of a list request is all of the tools.
        case finish(Int, Result<ChappieJSON, ChappieMCPError>)
        /// The server can't be used any more. Every request has ended before; this is the last action.
        case abandon(ChappieMCPError)
    }

    /// The limits for a server. Each comment names a server that would pass the limit.
    struct Limits: Sendable {
        /// Bytes of a line. An image in Base64 has a few MiB.
        var line = 16 << 20
        /// Lines in a row that are not messages: a program that prints its log, or another program than a server.
        var garbage = 100
        /// Bytes without an expected answer: a server in a loop.
        var unasked = 64 << 20
        /// Pages of a list: a server whose cursor leads in a circle.
        var pages = 100
        /// Tools: a server with more than a model can choose from.
        var tools = 1000
        /// Bytes that the server has not read yet: a server that is called, or sends pings, and never reads.
        var unread = 32 << 20
    }

    private enum Request {
        case initialize
        /// A page of the list that began with the request `first`.
        case list(first: Int, tools: [ChappieJSON], pages: Int)
        case call
    }

    private enum Phase {
        /// The handshake is under way. `.open` or `.over` follows.
        case opening
        /// `.over` may follow.
        case open(hasTools: Bool)
        case over(ChappieMCPError)
    }

    /// The versions that this client speaks, the newest first. The client offers the newest. Tools are the same in all.
    static let versions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]

    /// Whether the list has changed since the client last asked for it.
    private(set) var listHasChanged = false
    private let server: String
    private let limits: Limits
    private var phase = Phase.opening
    private var requests: [Int: Request] = [:]
    private var lastID = 0
    private var line: [UInt8] = []
    private var garbage: (count: Int, first: String) = (0, "")
    private var unasked = 0

    /// - Parameter server: the server's name, for errors.
    init(server: String, limits: Limits) {
        self.server = server
        self.limits = limits
    }

    // MARK: Requests of the client

    /// Begins the handshake.
    mutating func start() -> (id: Int, actions: [Action]) {
        guard case .opening = phase else { return refuse() }
        let parameters: ChappieJSON = [
            "protocolVersion": .string(Self.versions[0]), "capabilities": [:],
            "clientInfo": ["name": "chappie", "version": .string(ChappieVersion.current)],
        ]
        let message = request("initialize", parameters, .initialize)
        return (lastID, [.send(message)])
    }

    /// Asks for all tools, page by page.
    mutating func list() -> (id: Int, actions: [Action]) {
        listHasChanged = false
        guard case .open(let hasTools) = phase else { return refuse() }
        guard hasTools else {
            lastID += 1
            return (lastID, [.finish(lastID, .success([]))])
        }
        let page = request("tools/list", nil, .list(first: lastID + 1, tools: [], pages: 1))
        return (lastID, [.send(page)])
    }

    mutating func call(_ tool: String, _ arguments: ChappieJSON) -> (id: Int, actions: [Action]) {
        guard case .open = phase else { return refuse() }
        let message = request("tools/call", ["name": .string(tool), "arguments": arguments], .call)
        return (lastID, [.send(message)])
    }

    /// Gives up the request `id`; a later answer is ignored. To give up a list is to give up its latest page.
    mutating func giveUp(_ id: Int, because error: ChappieMCPError) -> [Action] {
        let current = requests.first { entry in
            if case .list(id, _, _) = entry.value { true } else { entry.key == id }
        }
        guard let (current, request) = current else { return [] }
        requests[current] = nil
        let finish = Action.finish(id, .failure(error))
        // The specification does not allow a client to cancel the handshake.
        if case .initialize = request { return [finish] }
        let parameters: ChappieJSON = ["requestId": .integer(current), "reason": .string(error.reason)]
        return [.send(Self.notification("notifications/cancelled", parameters)), finish]
    }

    /// Gives up every request.
    mutating func end(because error: ChappieMCPError) -> [Action] {
        if case .over = phase { return [] }
        phase = .over(error)
        line = []
        let waiting = requests.map { entry in
            if case .list(let first, _, _) = entry.value { first } else { entry.key }
        }
        requests = [:]
        return waiting.sorted().map { .finish($0, .failure(error)) } + [.abandon(error)]
    }

    private mutating func refuse() -> (id: Int, actions: [Action]) {
        lastID += 1
        guard case .over(let cause) = phase else {
            return (lastID, [.finish(lastID, .failure(error(.ended, "it has just been started again")))])
        }
        return (lastID, [.finish(lastID, .failure(cause))])
    }

    private mutating func request(_ method: String, _ parameters: ChappieJSON?, _ request: Request) -> ChappieJSON {
        lastID += 1
        requests[lastID] = request
        var message: ChappieJSONObject = [
            "jsonrpc": "2.0", "id": .integer(lastID), "method": .string(method),
        ]
        message["params"] = parameters
        return .object(message)
    }

    private static func notification(_ method: String, _ parameters: ChappieJSON? = nil) -> ChappieJSON {
        var message: ChappieJSONObject = ["jsonrpc": "2.0", "method": .string(method)]
        message["params"] = parameters
        return .object(message)
    }

    // MARK: Messages of the server

    /// The next bytes of the server's standard output have come. They may begin and end anywhere in a message.
    mutating func receivedBytes(_ bytes: [UInt8]) -> [Action] {
        var actions: [Action] = []
        var rest = bytes[...]
        while !isOver, !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "\n"))
            line += rest[..<(end ?? rest.endIndex)]
            rest = end.map { rest[($0 + 1)...] } ?? []
            guard line.count <= limits.line else {
                return actions + violation("it sent a line of more than \(limits.line) bytes")
            }
            guard end != nil else { break }
            unasked += line.count
            actions += receivedLine(line)
            line = []
            if unasked > limits.unasked, !isOver {
                actions += violation("it sent \(limits.unasked >> 20) MiB without a request")
            }
        }
        return actions
    }

    /// Whether the server can't be used any more.
    var isOver: Bool { if case .over = phase { true } else { false } }

    private mutating func receivedLine(_ line: [UInt8]) -> [Action] {
        if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { return [] }
        let value = try? ChappieJSON(parsing: line)
        // In revision 2025-03-26 one message may hold several.
        let messages = value?.array ?? value.map { [$0] } ?? []
        var actions: [Action] = []
        var isMessage = false
        for message in messages where !isOver && message["jsonrpc"]?.string == "2.0" {
            isMessage = true
            actions += received(message)
        }
        guard !isMessage else {
            garbage.count = 0
            return actions
        }
        if garbage.count == 0 { garbage.first = String(decoding: line.prefix(1000), as: UTF8.self) }
        garbage.count += 1
        guard garbage.count > limits.garbage else { return actions }
        let example = UntrustedText.message(garbage.first, limit: 120) ?? ""
        return actions + violation("its standard output is not the protocol, but: \(example)")
    }

    private mutating func received(_ message: ChappieJSON) -> [Action] {
        guard let method = message["method"]?.string else { return receivedAnswer(message) }
        guard let id = message["id"] else {
            if method == "notifications/tools/list_changed" { listHasChanged = true }
            return []
        }
        if method == "ping" { return [.send(["jsonrpc": "2.0", "id": id, "result": [:]])] }
        let error: ChappieJSON = ["code": -32601, "message": "This client has no such method."]
        return [.send(["jsonrpc": "2.0", "id": id, "error": error])]
    }

    private mutating func receivedAnswer(_ message: ChappieJSON) -> [Action] {
        // An answer without a request may belong to a request that was given up.
        guard let id = message["id"]?.int, let request = requests.removeValue(forKey: id) else { return [] }
        unasked = 0
        let result: Result<ChappieJSON, ChappieMCPError>
        if let value = message["result"], value.object != nil {
            result = .success(value)
        } else if let error = message["error"], error.object != nil {
            let words = UntrustedText.message(error["message"]?.string, limit: 1000) ?? "without a reason"
            let number = error["code"]?.int.map { " (\($0))" } ?? ""
            result = .failure(self.error(.refused, "it refused: \(words)\(number)"))
        } else {
            result = .failure(error(.protocolViolation, "its answer has neither a result nor an error"))
        }
        switch request {
        case .call: return [.finish(id, result)]
        case .initialize: return receivedHandshake(id, result)
        case .list(let first, let tools, let pages):
            switch result {
            case .failure: return [.finish(first, result)]
            case .success(let page): return receivedPage(page, first, tools, pages)
            }
        }
    }

    private mutating func receivedHandshake(_ id: Int, _ result: Result<ChappieJSON, ChappieMCPError>) -> [Action] {
        switch result {
        case .failure(let refusal):
            return fail(id, error(.handshakeFailed, "the handshake failed, \(refusal.reason)"))
        case .success(let answer):
            let version = answer["protocolVersion"]?.string
            guard let version, Self.versions.contains(version) else {
                let name = UntrustedText.token(version, limit: 40) ?? "unknown"
                let reason = "it speaks version \(name) of the protocol, which is not supported"
                return fail(id, error(.handshakeFailed, reason))
            }
            phase = .open(hasTools: answer["capabilities"]?["tools"]?.object != nil)
            return [.send(Self.notification("notifications/initialized")), .finish(id, .success(answer))]
        }
    }

    private mutating func receivedPage(
        _ page: ChappieJSON, _ first: Int, _ earlier: [ChappieJSON], _ pages: Int
    ) -> [Action] {
        let tools = earlier + (page["tools"]?.array ?? [])
        guard tools.count <= limits.tools else {
            let failure = error(.protocolViolation, "it lists more than \(limits.tools) tools")
            return [.finish(first, .failure(failure))]
        }
        guard let cursor = page["nextCursor"], !cursor.isNull else { return [.finish(first, .success(.array(tools)))] }
        guard pages < limits.pages else {
            let failure = error(.protocolViolation, "its list of tools has more than \(limits.pages) pages")
            return [.finish(first, .failure(failure))]
        }
        let next = Request.list(first: first, tools: tools, pages: pages + 1)
        return [.send(request("tools/list", ["cursor": cursor], next))]
    }

    private mutating func fail(_ id: Int, _ error: ChappieMCPError) -> [Action] {
        [.finish(id, .failure(error))] + end(because: error)
    }

    private mutating func violation(_ reason: String) -> [Action] { end(because: error(.protocolViolation, reason)) }

    private func error(_ code: ChappieMCPError.Code, _ reason: String) -> ChappieMCPError {
        ChappieMCPError(code, server: server, reason: reason)
    }
}
