import ChappieCore

/// The endpoint that searches the web and opens pages. Its web is made up: every address has a page.
extension Backend {
    /// The members that a command of each name needs.
    private static let commands: [String: [String]] = [
        "search_query": ["q"], "image_query": ["q"], "open": ["ref_id"], "click": ["ref_id", "id"],
        "find": ["ref_id", "pattern"], "screenshot": ["ref_id", "pageno"], "finance": ["ticker", "type"],
        "weather": ["location"], "sports": ["fn", "league"], "time": ["utc_offset"],
    ]
    /// The number of queries that a call may contain.
    private static let queryLimit = 4

    /// Returns the answer to the commands of one call.
    mutating func search(_ request: BackendRequest) -> BackendResponse {
        do throws(BackendResponse) {
            let body = try request.plainObject(
                allowing: ["id", "model", "input", "commands", "settings", "max_output_tokens"])
            try Self.checkSearch(body)
            return answer(body["commands"] ?? .null, of: body["id"]?.string ?? "", settings: body["settings"])
        } catch {
            return error
        }
    }

    private static func checkSearch(_ body: ChappieJSON) throws(BackendResponse) {
        for name in ["id", "model"] where body[name]?.string?.isEmpty ?? true {
            throw .missing(name)
        }
        guard let input = body["input"]?.array, !input.isEmpty else { throw .missing("input") }
        for (index, item) in input.enumerated() {
            let role = item["role"]?.string ?? ""
            guard item["type"] == "message", ["user", "assistant"].contains(role), item["content"]?.array != nil else {
                throw .invalid("Only messages of the user and the assistant are input.", parameter: "input[\(index)]")
            }
        }
        guard body["commands"]?.object?.members.isEmpty == false else { throw .missing("commands") }
        try checkSettings(body["settings"] ?? [:])
        guard let limit = body["max_output_tokens"] else { return }
        guard let limit = limit.int, limit > 0 else {
            throw .invalid("Must be a positive number.", parameter: "max_output_tokens")
        }
    }

    private static func checkSettings(_ settings: ChappieJSON) throws(BackendResponse) {
        let isKnown = settings["external_web_access"].map { $0.bool != nil } ?? true
        guard settings.object != nil, isKnown else {
            throw .invalid("external_web_access must be true or false.", parameter: "settings.external_web_access")
        }
        if let size = settings["search_context_size"], !["low", "medium", "high"].contains(size) {
            throw .invalid("Must be low, medium or high.", parameter: "settings.search_context_size")
        }
        if let location = settings["user_location"], location["type"] != "approximate" {
            throw .invalid("The type of a location is approximate.", parameter: "settings.user_location")
        }
    }

    /// Returns the first mistake in the commands, which the endpoint reports in the output of a 200.
    private static func problem(with commands: ChappieJSON) -> String? {
        for (name, elements) in commands.object?.members.map({ ($0.name, $0.value) }) ?? [] {
            if name == "response_length" {
                if ["short", "medium", "long"].contains(elements) { continue }
                return "response_length must be short, medium or long"
            }
            guard let needed = Self.commands[name] else { return "unknown command \(name)" }
            guard let elements = elements.array, !elements.isEmpty else { return "\(name) must be a list" }
            let lacking = elements.lazy.compactMap { element in needed.first { element[$0]?.isNull ?? true } }.first
            if let lacking { return "\(name) needs \(lacking)" }
        }
        return nil
    }

    private mutating func answer(
        _ commands: ChappieJSON, of conversation: String, settings: ChappieJSON?
    ) -> BackendResponse {
        let queries = (commands["search_query"]?.array ?? []) + (commands["image_query"]?.array ?? [])
        guard queries.count <= Self.queryLimit else {
            return .invalid("At most \(Self.queryLimit) queries are allowed.", parameter: "commands.search_query")
        }
        let length = commands["response_length"]?.string ?? "medium"
        guard queries.count < Self.queryLimit || length != "short" else {
            return .invalid("Four queries need a medium or long answer.", parameter: "commands.response_length")
        }
        if let problem = Self.problem(with: commands) {
            return .json(["output": .string("Error parsing function call: \(problem)"), "encrypted_output": nil])
        }
        var session = searches[conversation] ?? SearchSession()
        let domains = settings?["filters"]?["allowed_domains"]?.array?.compactMap(\.string)
        let hitCount = ["short": 1, "long": 3][length] ?? 2
        var results: [ChappieJSON] = []
        var output: [String] = []
        for query in queries {
            let own = query["domains"]?.array?.compactMap(\.string)
            let found = session.hits(for: query["q"]?.string ?? "", on: own ?? domains ?? [], count: hitCount)
            results += found.map(\.json)
            output += found.flatMap(\.lines)
        }
        for (name, elements) in commands.object?.members.map({ ($0.name, $0.value.array ?? []) }) ?? [] {
            for element in elements {
                output += session.lines(for: name, element)
            }
        }
        session.callCount += 1
        searches[conversation] = session
        var answer: ChappieJSONObject = ["output": .string(output.joined(separator: "\n")), "encrypted_output": nil]
        if !results.isEmpty { answer["results"] = .array(results) }
        return .json(.object(answer))
    }
}

/// The references of one conversation. Those of an earlier call are valid only with the same id.
struct SearchSession: Sendable {
    /// The number of calls before this one.
    var callCount = 0
    private var addresses: [String: String] = [:]

    fileprivate struct Hit {
        let reference: String
        let title: String
        let address: String
        let domain: String
        let snippet: String

        var json: ChappieJSON {
            [
                "type": "text_result", "ref_id": .string(reference), "title": .string(title), "url": .string(address),
                "domain": .string(domain), "snippet": .string(snippet),
            ]
        }
        var lines: [String] { ["\(reference): \(title) (\(address))", snippet] }
    }

    /// Returns a new reference to an address.
    private mutating func reference(_ kind: String, to address: String) -> String {
        let start = "turn\(callCount)\(kind)"
        let reference = start + String(addresses.keys.count { $0.hasPrefix(start) })
        addresses[reference] = address
        return reference
    }

    fileprivate mutating func hits(for query: String, on domains: [String], count: Int) -> [Hit] {
        let words = query.lowercased().split { !$0.isLetter && !$0.isNumber }
        return (1...count).map { number in
            let domain = domains.isEmpty ? "example.com" : domains[(number - 1) % domains.count]
            let address = "https://\(domain)/\(words.joined(separator: "-"))/\(number)"
            return Hit(
                reference: reference("search", to: address), title: "\(query), page \(number)", address: address,
                domain: domain, snippet: "What \(domain) says about \(query).")
        }
    }

    /// Returns the output of one command other than a query.
    fileprivate mutating func lines(for command: String, _ element: ChappieJSON) -> [String] {
        switch command {
        case "search_query", "image_query", "response_length": return []
        case "open", "click", "find", "screenshot": return pageLines(for: command, element)
        default:
            let wishes = element.object?.members.map { "\($0.name) \($0.value.string ?? $0.value.serialized())" }
            return ["\(command): \(wishes?.joined(separator: ", ") ?? ""): 42"]
        }
    }

    private mutating func pageLines(for command: String, _ element: ChappieJSON) -> [String] {
        let reference = element["ref_id"]?.string ?? ""
        let isAddress = reference.hasPrefix("https://") || reference.hasPrefix("http://")
        guard var address = isAddress ? reference : addresses[reference] else {
            return ["Found no tool response for \(reference)"]
        }
        if command == "click" { address += "/\(element["id"]?.int ?? 0)" }
        let lines = [
            "A page at \(address)", "This page is made up.", "It has a second paragraph.", "[0] \(address)/0",
        ]
        var numbered = lines.enumerated().map { "L\($0.offset): \($0.element)" }
        switch command {
        case "find":
            let pattern = element["pattern"]?.string ?? ""
            numbered = numbered.filter { $0.contains(pattern) }
            if numbered.isEmpty { numbered = ["No line contains \(pattern)."] }
        case "screenshot": numbered = ["Page \(element["pageno"]?.int ?? 0) of the document at \(address)"]
        default: numbered = Array(numbered.dropFirst(element["lineno"]?.int ?? 0))
        }
        return ["\(self.reference("view", to: address)): \(address)"] + numbered
    }
}

extension BackendRequest {
    /// Returns the body of an endpoint that takes an uncompressed JSON object.
    ///
    /// - Parameter names: the members that the object may have.
    /// - Throws: 415 or 400.
    func plainObject(allowing names: Set<String>) throws(BackendResponse) -> ChappieJSON {
        guard list("content-type", separator: ";").first == "application/json" else {
            throw .json(["detail": "The body must be application/json."], status: 415)
        }
        guard header("content-encoding") == nil else {
            throw .json(["detail": "The body must not be compressed."], status: 415)
        }
        guard let json, let members = json.object?.members else { throw Backend.notAnObject }
        if let unknown = members.first(where: { !names.contains($0.name) }) {
            throw .invalid("Unknown parameter: \(unknown.name)", code: "unknown_parameter", parameter: unknown.name)
        }
        return json
    }
}

extension BackendResponse {
    static func missing(_ name: String) -> BackendResponse {
        .invalid("Missing required parameter: \(name)", code: "missing_required_parameter", parameter: name)
    }
}
