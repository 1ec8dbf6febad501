import ChappieCore

/// The faults that a simulator plays, as settings and as rules that change the answers to some requests.
///
/// ```json
/// {
///   "name": "two cuts",
///   "description": "The first two answers break off, the third is complete.",
///   "rules": [
///     { "match": { "path": "/backend-api/codex/responses", "method": "POST", "to": 2 },
///       "effect": { "cut": { "afterBytes": 900, "with": "rst" } } }
///   ]
/// }
/// ```
///
/// For each request, only the first rule that matches applies. `SCENARIOS.md` in this package describes every member
/// and every built-in scenario.
public struct SimulatorScenario: Sendable, Hashable {
    private struct File: Codable {
        var name: String?
        var description: String?
        var settings: ScenarioSettings?
        var rules: [ScenarioRule]?
    }

    /// The member `name`, or `unnamed` without it.
    public let name: String
    let settings: ScenarioSettings
    let rules: [ScenarioRule]

    /// Reads a scenario from the bytes of a JSON file.
    ///
    /// - Throws: ``SimulatorError`` with code `.invalidScenario`. Its message names the key path, such as
    ///   `rules[0].effect.cut.afterBytes`, or a number that doesn't fit its place. Unknown members are errors, so that
    ///   a typing mistake is not ignored.
    public init(parsing json: [UInt8]) throws(SimulatorError) {
        let file: File
        do {
            let written = try ChappieJSON(parsing: json)
            file = try JSONDecoder().decode(File.self, from: Data(json))
            let read = try ChappieJSON(parsing: Array(JSONEncoder().encode(file)))
            if let unknown = written.firstMember(missingIn: read) {
                throw SimulatorError(.invalidScenario, reason: "\(unknown) is not a member a scenario can have here")
            }
        } catch {
            throw SimulatorError(scenario: error)
        }
        name = file.name ?? "unnamed"
        settings = file.settings ?? ScenarioSettings()
        rules = file.rules ?? []
    }

    /// Reads a scenario from JSON text. See ``init(parsing:)-([UInt8])``.
    public init(parsing text: String) throws(SimulatorError) { try self.init(parsing: Array(text.utf8)) }

    /// Creates a built-in scenario.
    ///
    /// - Throws: ``SimulatorError`` with code `.unknownScenario`. The message lists the names.
    public init(named name: String) throws(SimulatorError) {
        guard let text = BuiltInScenarios.texts[name] else {
            let known = SimulatorScenario.names.joined(separator: ", ")
            throw SimulatorError(.unknownScenario, reason: "There is no scenario \"\(name)\"; there are: \(known)")
        }
        try self.init(parsing: text)
    }

    /// The names of the built-in scenarios, in alphabetical order.
    public static let names: [String] = BuiltInScenarios.texts.keys.sorted()
}

extension SimulatorError {
    /// Creates an error with the key path from an error of either JSON decoder.
    fileprivate init(scenario error: any Error) {
        func place(_ path: [any CodingKey]) -> String {
            let steps = path.map { key in key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)" }
            return path.isEmpty ? "The scenario" : String(steps.joined().dropFirst())
        }
        let reason =
            switch error {
            case let error as SimulatorError: error.reason
            case let error as ChappieJSONError:
                "The scenario is not valid JSON: \(error.reason) at byte \(error.offset)"
            case DecodingError.keyNotFound(let key, let context):
                "\(place(context.codingPath)) needs a member \"\(key.stringValue)\""
            case DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context),
                DecodingError.dataCorrupted(let context):
                "\(place(context.codingPath)): \(context.debugDescription) "
                    + (context.underlyingError.map { "(\($0))" } ?? "")
            default: "The scenario can't be read: \(error)"
            }
        self.init(.invalidScenario, reason: reason)
    }
}

extension ChappieJSON {
    /// Returns the key path of the first member that is missing in `read`, which is the same value after a decoder has
    /// read it.
    fileprivate func firstMember(missingIn read: ChappieJSON, at path: String = "") -> String? {
        if let elements = array, let others = read.array {
            return zip(elements, others).enumerated().lazy.compactMap { index, pair in
                pair.0.firstMember(missingIn: pair.1, at: "\(path)[\(index)]")
            }.first
        }
        guard let object, read.object != nil else { return nil }
        return object.members.lazy.filter { !$0.value.isNull }.compactMap { member in
            let place = path.isEmpty ? member.name : "\(path).\(member.name)"
            guard let other = read[member.name] else { return place }
            return member.value.firstMember(missingIn: other, at: place)
        }.first
    }
}

/// The part of a scenario that applies to every request. A missing member leaves the configuration unchanged.
struct ScenarioSettings: Codable, Sendable, Hashable {
    struct Account: Codable, Sendable, Hashable {
        var id: String
        var userID: String?
        var email: String?
        var name: String?
        var plan: String?
        var primaryUsedPercent: Double?
        var secondaryUsedPercent: Double?
        var models: [String]?

        var account: SimulatorAccount {
            let (usual, usualUsage) = (SimulatorAccount(), SimulatorUsage())
            let usage = SimulatorUsage(
                primaryUsedPercent: primaryUsedPercent ?? usualUsage.primaryUsedPercent,
                secondaryUsedPercent: secondaryUsedPercent ?? usualUsage.secondaryUsedPercent)
            return SimulatorAccount(
                id: id, userID: userID ?? usual.userID, email: email ?? usual.email, name: name ?? usual.name,
                plan: plan ?? usual.plan,
                usage: primaryUsedPercent == nil && secondaryUsedPercent == nil ? nil : usage, models: models)
        }
    }

    var autoApprove: Bool?
    var pollInterval: Int?
    var deltasPerSecond: Double?
    var accessTokenLifetime: UInt32?
    var firstAccessTokenLifetime: UInt32?
    var refreshTokenLifetime: UInt32?
    var revokesFamilyOnReuse: Bool?
    var plan: String?
    /// Whether tokens name the account.
    var accountClaim: Bool?
    var pin: WorkspacePin?
    var otherAccounts: [Account]?
    var primaryUsedPercent: Double?
    var secondaryUsedPercent: Double?
    var webSocket: Bool?
    var webSocketDeflate: Bool?
    var webSocketPingInterval: Double?
    var asOf: SimulatorMonth?
    var lenient: Bool?
    var modelRefusals: [String: ModelRefusal]?
    var listsRetiredModels: Bool?
    var olderEvents: Bool?
    var resetCredits: UInt8?
    var planUse: PlanUse?
    var planTools: PlanTools?
    var planTurnLimit: UInt32?
    var earliestRefresh: UInt32?

    /// Returns the configuration with these settings, which take precedence.
    func applied(to configuration: SimulatorConfiguration) -> SimulatorConfiguration {
        var result = configuration
        set(&result.autoApprove, to: autoApprove)
        set(&result.pollInterval, to: pollInterval)
        result.deltasPerSecond = deltasPerSecond ?? result.deltasPerSecond
        set(&result.accessTokenLifetime, to: accessTokenLifetime.map { .seconds($0) })
        result.refreshTokenLifetime = refreshTokenLifetime.map { .seconds($0) } ?? result.refreshTokenLifetime
        result.firstAccessTokenLifetime = firstAccessTokenLifetime.map { .seconds($0) }
        set(&result.revokesFamilyOnReuse, to: revokesFamilyOnReuse)
        set(&result.account.plan, to: plan)
        set(&result.account.isNamed, to: accountClaim)
        result.account.pin = pin ?? result.account.pin
        set(&result.otherAccounts, to: otherAccounts?.map(\.account))
        set(&result.usage.primaryUsedPercent, to: primaryUsedPercent)
        set(&result.usage.secondaryUsedPercent, to: secondaryUsedPercent)
        set(&result.webSocket, to: webSocket)
        set(&result.webSocketDeflate, to: webSocketDeflate)
        result.webSocketPingInterval = webSocketPingInterval?.seconds ?? result.webSocketPingInterval
        set(&result.asOf, to: asOf)
        set(&result.isLenient, to: lenient)
        set(&result.modelRefusals, to: modelRefusals)
        set(&result.listsRetiredModels, to: listsRetiredModels)
        set(&result.hasOlderEvents, to: olderEvents)
        set(&result.resetCreditCount, to: resetCredits.map(Int.init))
        set(&result.planUse, to: planUse)
        set(&result.planTools, to: planTools)
        result.planTurnLimit = planTurnLimit.map(Int.init) ?? result.planTurnLimit
        result.earliestRefresh = earliestRefresh.map { .seconds($0) } ?? result.earliestRefresh
        return result
    }
}

private func set<Value>(_ member: inout Value, to value: Value?) {
    if let value { member = value }
}

extension Double {
    /// The duration of this many seconds, at most a day.
    var seconds: Duration { .seconds(Swift.min(Swift.max(self, 0), 86_400)) }
}

/// A rule of a scenario, with its match and its effect.
struct ScenarioRule: Codable, Sendable, Hashable {
    var match: ScenarioMatch?
    var effect: ScenarioEffect
}

/// The requests to which a rule applies. A missing member matches everything.
struct ScenarioMatch: Codable, Sendable, Hashable {
    /// The carrier of a request: HTTP, including upgrades, or messages of a WebSocket.
    enum Carrier: String, Codable { case http, websocket }

    /// A number, or a list of numbers.
    struct Counts: Codable, Sendable, Hashable {
        let values: [Int]

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            values = try (try? [container.decode(Int.self)]) ?? container.decode([Int].self)
        }
    }

    /// The method. A WebSocket message that requests a turn is a `POST`, and one that only prepares a turn is a
    /// `PREWARM`.
    var method: String?
    var over: Carrier?
    /// The path without the query. A `*` at the end matches anything.
    var path: String?
    /// Text that the body, as it was sent, must contain.
    var bodyContains: String?
    /// The numbers of the requests that match the members above, counted from 1.
    var nth: Counts?
    var from: Int?
    var to: Int?

    /// Returns whether a request matches, so that it is counted.
    func isAbout(_ request: BackendRequest) -> Bool {
        if let method, method.uppercased() != request.method { return false }
        if let over, over != request.carrier { return false }
        if let bodyContains, !bodyContains.isEmpty,
            request.received.body.firstRange(of: Array(bodyContains.utf8)) == nil
        {
            return false
        }
        guard let path else { return true }
        return path.hasSuffix("*") ? request.path.hasPrefix(path.dropLast()) : request.path == path
    }

    /// Returns whether the rule applies to the request with this count.
    func includes(count: Int) -> Bool {
        nth?.values.contains(count) ?? true && count >= from ?? 1 && count <= to ?? .max
    }
}

/// The progress of a scenario.
struct ScenarioProgress: Sendable {
    private let rules: [ScenarioRule]
    private var counts: [Int]

    init(_ scenario: SimulatorScenario?) {
        rules = scenario?.rules ?? []
        counts = Array(repeating: 0, count: rules.count)
    }

    /// Counts a request and returns the effect of the first rule that applies to it.
    mutating func effect(for request: BackendRequest) -> ScenarioEffect? {
        var found: ScenarioEffect?
        for (index, rule) in rules.enumerated() where rule.match?.isAbout(request) ?? true {
            counts[index] += 1
            if found == nil, rule.match?.includes(count: counts[index]) ?? true { found = rule.effect }
        }
        return found
    }
}
