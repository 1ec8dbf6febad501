@_spi(ChappieInternals) import ChappieCore

/// The client side of the Model Context Protocol, sans-IO. It takes the server's bytes, and returns messages for the
/// server and answers for the caller.
///
/// It uses JSON-RPC 2.0 with one message in each line (modelcontextprotocol.io/specification/2025-11-25, Base Protocol
/// and Transports). A server that refuses the handshake is asked to describe itself. Since revision 2026-07-28 there is
/// no handshake, and every request contains everything that a handshake contained.
struct MCPSession {
    /// The next step of the connection. The connection carries out the actions in order.
    enum Action: Sendable, Hashable {
        /// Write this message as one line.
        case send(ChappieJSON)
        /// The request with this number has ended. The value of a list request consists of all its entries.
        case finish(Int, Result<ChappieJSON, ChappieMCPError>)
        /// The server reports progress of the request with this number.
        case progress(Int, MCPProgress)
        /// The server can no longer be used. Every request has already ended. This is the last action.
        case abandon(ChappieMCPError)
    }

    private enum Request {
        case initialize
        /// Asks a server without a handshake for its versions, in place of the request `first`.
        case discover(first: Int)
        /// A page of the list that began with the request `first`.
        case list(MCPList, first: Int, entries: [ChappieJSON], cursors: [ChappieJSON])
        /// An attempt at the request for one thing that began with the request `first`.
        case ask(String, first: Int, parameters: ChappieJSONObject, attempts: Int)
        /// Stays open for notifications about the lists.
        case listen

        /// Returns the number by which the caller knows the request.
        func number(_ own: Int) -> Int {
            switch self {
            case .discover(let first), .list(_, let first, _, _), .ask(_, let first, _, _): first
            case .initialize, .listen: own
            }
        }
    }

    private enum Phase {
        /// The handshake is in progress. `.open` or `.over` follows.
        case opening
        /// `.over` may follow.
        case open(offers: Set<MCPOffer>)
        case over(ChappieMCPError)
    }

    /// The versions that this client supports, from newest to oldest. The client offers the newest version. Tools are
    /// the same in all of them.
    static let versions = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    /// The version that has no handshake.
    static let statelessVersion = "2026-07-28"
    /// The errors of a server that has no handshake. It does not know the method, or it does not know the version.
    private static let refusesHandshake = [-32601, -32022]
    /// The number of times that a server may ask for a call again.
    private static let attemptLimit = 10

    /// The number of times that the server has announced a change of each of its lists.
    private(set) var changes: [MCPOffer: Int] = [:]
    private let server: String
    private let limits: Limits
    private let capabilities: ChappieJSON
    private var phase = Phase.opening
    private var isStateless = false
    private var requests: [Int: Request] = [:]
    private var lastID = 0
    private var line: [UInt8] = []
    private var garbage: (count: Int, first: String) = (0, "")
    private var unasked = (bytes: 0, messages: 0)

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - server: the server's name, for errors.
    ///   - capabilities: the capabilities that the client states.
    init(server: String, limits: Limits, capabilities: ChappieJSON = [:]) {
        self.server = server
        self.limits = limits
        self.capabilities = capabilities
    }

    // MARK: Requests of the client

    /// Begins the handshake.
    mutating func start() -> (id: Int, actions: [Action]) {
        guard case .opening = phase else { return refuse() }
        let parameters: ChappieJSON = [
            "protocolVersion": .string(Self.versions[0]), "capabilities": capabilities,
            "clientInfo": MCPMessage.clientInfo,
        ]
        let message = request("initialize", parameters, .initialize)
        return (lastID, [.send(message)])
    }

    /// Returns whether the server is open and has this kind of feature.
    func offers(_ offer: MCPOffer) -> Bool {
        if case .open(let offers) = phase { offers.contains(offer) } else { false }
    }

    /// Requests all entries of a list, page by page. A server that does not offer the list is not asked.
    mutating func list(_ list: MCPList) -> (id: Int, actions: [Action]) {
        guard case .open(let offers) = phase else { return refuse() }
        guard offers.contains(list.offer) else {
            lastID += 1
            return (lastID, [.finish(lastID, .success([]))])
        }
        let page = request(list.method, nil, .list(list, first: lastID + 1, entries: [], cursors: []))
        return (lastID, [.send(page)])
    }

    mutating func call(_ tool: String, _ arguments: ChappieJSON) -> (id: Int, actions: [Action]) {
        ask("tools/call", ["name": .string(tool), "arguments": arguments], reportsProgress: true)
    }

    /// Requests one thing: the result of a call, a resource's contents or a prompt.
    ///
    /// - Parameter reportsProgress: whether the server is asked to report progress. Its token is the request's number.
    mutating func ask(
        _ method: String, _ parameters: ChappieJSONObject, reportsProgress: Bool = false
    ) -> (id: Int, actions: [Action]) {
        guard case .open = phase else { return refuse() }
        var parameters = parameters
        if reportsProgress { parameters["_meta"] = ["progressToken": .integer(lastID + 1)] }
        let ask = Request.ask(method, first: lastID + 1, parameters: parameters, attempts: 1)
        let message = request(method, .object(parameters), ask)
        return (lastID, [.send(message)])
    }

    /// Gives up the request `id`. A later answer is ignored. If the request is for a list, its latest page is given up.
    mutating func giveUp(_ id: Int, because error: ChappieMCPError) -> [Action] {
        let current = requests.first { $0.value.number($0.key) == id }
        guard let (current, request) = current else { return [] }
        requests[current] = nil
        let finish = Action.finish(id, .failure(error))
        // The specification does not allow a client to cancel the handshake.
        switch request {
        case .initialize, .discover: return [finish]
        case .list, .ask, .listen: break
        }
        let parameters: ChappieJSON = ["requestId": .integer(current), "reason": .string(error.reason)]
        return [.send(MCPMessage.notification("notifications/cancelled", parameters)), finish]
    }

    /// Ends the request `id`, which will have no answer because its carrier is gone. If the reason is that the session
    /// has ended, all other requests end with it. The server may have carried these out.
    mutating func lose(_ id: Int, because error: ChappieMCPError) -> [Action] {
        guard let request = requests.removeValue(forKey: id) else { return [] }
        let finish = Action.finish(request.number(id), .failure(error))
        switch request {
        case .initialize, .discover: return [finish] + end(because: error)
        case .list, .ask, .listen:
            return error.code == .sessionEnded
                ? [finish] + end(because: self.error(.ended, error.reason)) : [finish]
        }
    }

    /// Gives up every request.
    mutating func end(because error: ChappieMCPError) -> [Action] {
        if case .over = phase { return [] }
        phase = .over(error)
        line = []
        let waiting = requests.filter { if case .listen = $0.value { false } else { true } }
            .map { $0.value.number($0.key) }
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
        if isStateless {
            var stated = parameters?.object ?? ChappieJSONObject()
            var statement = MCPMessage.statement
            statement["progressToken"] = stated["_meta"]?["progressToken"]
            stated["_meta"] = .object(statement)
            message["params"] = .object(stated)
        }
        return .object(message)
    }

    // MARK: Messages of the server

    /// Processes the next bytes of the server's standard output. They may begin and end anywhere in a message.
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
            unasked.bytes += line.count
            unasked.messages += 1
            actions += receivedLine(line)
            line = []
            if unasked.messages > limits.unaskedMessages, !isOver {
                actions += violation("it sent \(limits.unaskedMessages) messages without a request")
            }
            if unasked.bytes > limits.unasked, !isOver {
                actions += violation("it sent \(limits.unasked >> 20) MiB without a request")
            }
        }
        return actions
    }

    /// Whether the server can no longer be used.
    var isOver: Bool { if case .over = phase { true } else { false } }

    private mutating func receivedLine(_ line: [UInt8]) -> [Action] {
        if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { return [] }
        let value = try? ChappieJSON(parsing: Array(line.trimmingPrefix([0xEF, 0xBB, 0xBF])))
        // In revision 2025-03-26, one line may contain several messages.
        let messages = value?.array ?? value.map { [$0] } ?? []
        var actions: [Action] = []
        var isMessage = false
        for message in messages where !isOver && MCPMessage.isMessage(message) {
            isMessage = true
            actions += received(message)
        }
        guard !isMessage else {
            garbage.count = 0
            return actions
        }
        let text = String(decoding: line.prefix(1000), as: UTF8.self)
        if value == nil, text.contains(#""jsonrpc""#), let request = onlyOpenRequest {
            let quote = UntrustedText.message(text, limit: 120) ?? ""
            return lose(request, because: error(.protocolViolation, "its answer can't be read: \(quote)"))
        }
        if garbage.count == 0 { garbage.first = text }
        garbage.count += 1
        guard garbage.count > limits.garbage else { return actions }
        let example = UntrustedText.message(garbage.first, limit: 120) ?? ""
        return actions + violation("its standard output is not the protocol, but: \(example)")
    }

    /// The only request that waits for an answer, or `nil` if there is none or several.
    private var onlyOpenRequest: Int? {
        let open = requests.filter { if case .listen = $0.value { false } else { true } }
        return open.count == 1 ? open.first?.key : nil
    }

    private func progress(_ report: ChappieJSON) -> [Action] {
        guard let id = MCPMessage.number(report["progressToken"]) else { return [] }
        // A token is the number of the first attempt.
        guard requests.contains(where: { $0.value.number($0.key) == id }) else { return [] }
        return [.progress(id, MCPProgress(report))]
    }

    private mutating func received(_ message: ChappieJSON) -> [Action] {
        guard let method = message["method"]?.string else { return receivedAnswer(message) }
        guard let id = message["id"] else {
            if let offer = MCPOffer(changedBy: method) { changes[offer, default: 0] += 1 }
            return method == "notifications/progress" ? progress(message["params"] ?? .null) : []
        }
        if method == "elicitation/create", let call = onlyOpenRequest {
            let addresses = MCPMessage.addresses(in: [message["params"] ?? .null])
            if !addresses.isEmpty {
                let failure = ChappieMCPError(
                    .refused, server: server, reason: "it needs you to open a page first", addresses: addresses)
                return [.send(["jsonrpc": "2.0", "id": id, "result": ["action": "decline"]])]
                    + lose(call, because: failure)
            }
        }
        if method == "ping" { return [.send(["jsonrpc": "2.0", "id": id, "result": [:]])] }
        let error: ChappieJSON = ["code": -32601, "message": "This client has no such method."]
        return [.send(["jsonrpc": "2.0", "id": id, "error": error])]
    }

    private mutating func receivedAnswer(_ message: ChappieJSON) -> [Action] {
        // An answer without a request may belong to a request that was given up.
        // An error without an id is about a request that the server could not read.
        let isUnnamed = message["id"]?.isNull != false && message["error"]?.object != nil
        guard let id = isUnnamed ? onlyOpenRequest : MCPMessage.number(message["id"]),
            let request = requests.removeValue(forKey: id)
        else { return [] }
        unasked = (0, 0)
        let result: Result<ChappieJSON, ChappieMCPError>
        if let value = message["result"], value.object != nil {
            result = .success(value)
        } else if let error = message["error"], error.object != nil {
            let words = UntrustedText.message(error["message"]?.string, limit: 1000) ?? "without a reason"
            let number = error["code"]?.int.map { " (\($0))" } ?? ""
            result = .failure(
                ChappieMCPError(
                    .refused, server: server, reason: "it refused: \(words)\(number)",
                    addresses: MCPMessage.addresses(error)))
        } else {
            result = .failure(error(.protocolViolation, "its answer has neither a result nor an error"))
        }
        switch request {
        case .ask(let method, let first, let parameters, let attempts):
            return receivedResult(result, method, first, parameters, attempts)
        case .initialize:
            if let code = message["error"]?["code"]?.int, Self.refusesHandshake.contains(code) {
                isStateless = true
                return [.send(self.request("server/discover", nil, .discover(first: id)))]
            }
            return receivedHandshake(id, result)
        case .discover(let first): return receivedDiscovery(first, result)
        case .listen: return []
        case .list(let list, let first, let entries, let cursors):
            switch result {
            case .failure: return [.finish(first, result)]
            case .success(let page): return receivedPage(page, of: list, first, entries, cursors)
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
            phase = .open(offers: MCPMessage.offers(answer))
            return [.send(MCPMessage.notification("notifications/initialized")), .finish(id, .success(answer))]
        }
    }

    private mutating func receivedDiscovery(
        _ id: Int, _ result: Result<ChappieJSON, ChappieMCPError>
    ) -> [Action] {
        switch result {
        case .failure(let refusal):
            return fail(
                id, error(.handshakeFailed, "it takes no handshake, and does not say what it is: \(refusal.reason)"))
        case .success(let answer):
            let versions = (answer["supportedVersions"]?.array ?? []).compactMap(\.string)
            guard versions.contains(Self.statelessVersion) else {
                let name = UntrustedText.token(versions.first, limit: 40) ?? "unknown"
                let reason = "it speaks version \(name) of the protocol, which is not supported"
                return fail(id, error(.handshakeFailed, reason))
            }
            phase = .open(offers: MCPMessage.offers(answer))
            let finish = Action.finish(id, .success(answer))
            var wanted = ChappieJSONObject()
            for offer in MCPOffer.allCases where answer["capabilities"]?[offer.rawValue]?["listChanged"]?.bool == true {
                wanted[offer.subscription] = true
            }
            guard !wanted.isEmpty else { return [finish] }
            let listen = request("subscriptions/listen", ["notifications": .object(wanted)], .listen)
            return [.send(listen), finish]
        }
    }

    /// Processes a result. Without a handshake, a result may ask for the same request again with the state that the
    /// server has recorded.
    private mutating func receivedResult(
        _ result: Result<ChappieJSON, ChappieMCPError>, _ method: String, _ first: Int, _ parameters: ChappieJSONObject,
        _ attempts: Int
    ) -> [Action] {
        guard isStateless, case .success(let value) = result, value["resultType"]?.string == "input_required" else {
            return [.finish(first, result)]
        }
        let asks = value["inputRequests"]?.object?.isEmpty == false
        guard !asks, let state = value["requestState"]?.string else {
            let refusal = error(.refused, "it asks the user for input, which is not supported")
            return [.finish(first, .failure(refusal))]
        }
        guard attempts < Self.attemptLimit else {
            let failure = error(.protocolViolation, "it asked for one request more than \(Self.attemptLimit) times")
            return [.finish(first, .failure(failure))]
        }
        var next = parameters
        next["requestState"] = .string(state)
        let again = Request.ask(method, first: first, parameters: parameters, attempts: attempts + 1)
        return [.send(request(method, .object(next), again))]
    }

    private mutating func receivedPage(
        _ page: ChappieJSON, of list: MCPList, _ first: Int, _ earlier: [ChappieJSON], _ cursors: [ChappieJSON]
    ) -> [Action] {
        let entries = earlier + (page[list.member]?.array ?? [])
        guard entries.count <= limits.entries else {
            let failure = error(.protocolViolation, "it lists more than \(limits.entries) \(list.words)")
            return [.finish(first, .failure(failure))]
        }
        // A cursor that was used before leads in a circle.
        guard let cursor = page["nextCursor"], !cursor.isNull, !cursors.contains(cursor) else {
            return [.finish(first, .success(.array(entries)))]
        }
        guard cursors.count + 1 < limits.pages else {
            let failure = error(
                .protocolViolation, "its list of \(list.words) has more than \(limits.pages) pages")
            return [.finish(first, .failure(failure))]
        }
        let next = Request.list(list, first: first, entries: entries, cursors: cursors + [cursor])
        return [.send(request(list.method, ["cursor": cursor], next))]
    }

    private mutating func fail(_ id: Int, _ error: ChappieMCPError) -> [Action] {
        [.finish(id, .failure(error))] + end(because: error)
    }

    private mutating func violation(_ reason: String) -> [Action] { end(because: error(.protocolViolation, reason)) }

    private func error(_ code: ChappieMCPError.Code, _ reason: String) -> ChappieMCPError {
        ChappieMCPError(code, server: server, reason: reason)
    }
}
