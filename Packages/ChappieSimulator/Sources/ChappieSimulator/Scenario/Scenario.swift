import ChappieCore

/// The faults to play, and when: settings, and rules that change the answers to some requests.
///
/// ```json
/// {
///   "name": "two cuts",
///   "description": "The first two answers break off, the third is whole.",
///   "rules": [
///     { "match": { "path": "/backend-api/codex/responses", "method": "POST", "to": 2 },
///       "effect": { "cut": { "afterBytes": 900, "with": "rst" } } }
///   ]
/// }
/// ```
///
/// For each request the first rule that matches applies, and no other. `SCENARIOS.md` beside the package describes every
/// member and every built-in scenario.
public struct SimulatorScenario: Sendable, Hashable {
    private struct File: ScenarioPart {
        var name: String?
        var description: String?
        var settings: ScenarioSettings?
        var rules: [ScenarioRule]?
    }

    /// The member `name`; `unnamed` without it.
    public let name: String
    /// One sentence for lists.
    public let summary: String
    let settings: ScenarioSettings
    let rules: [ScenarioRule]

    /// Reads a scenario from the bytes of a JSON file.
    ///
    /// - Throws: ``SimulatorError`` with code `.invalidScenario`; its message names the key path, such as
    ///   `rules[0].effect.cut.afterBytes`. Unknown members are errors: a typing mistake must not pass for a setting.
    public init(parsing json: [UInt8]) throws(SimulatorError) {
        let file: File
        do {
            file = try ScenarioDecoder(try ChappieJSON(parsing: json)).decode(File.self)
        } catch let error as SimulatorError {
            throw error
        } catch let error as ChappieJSONError {
            throw SimulatorError(
                .invalidScenario, reason: "The scenario is not valid JSON: \(error.reason) at byte \(error.offset)")
        } catch {
            throw SimulatorError(.invalidScenario, reason: "The scenario can't be read: \(error)")
        }
        name = file.name ?? "unnamed"
        summary = file.description ?? ""
        settings = file.settings ?? ScenarioSettings()
        rules = file.rules ?? []
    }

    /// Reads a scenario from JSON text. See ``init(parsing:)-([UInt8])``.
    public init(parsing text: String) throws(SimulatorError) { try self.init(parsing: Array(text.utf8)) }

    /// A built-in scenario.
    ///
    /// - Throws: ``SimulatorError`` with code `.unknownScenario`; the message lists the names.
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

/// The part of a scenario that holds for every request; a missing member leaves the configuration as it is.
struct ScenarioSettings: ScenarioPart {
    struct Account: ScenarioPart {
        var id: String
        var userID: String?
        var email: String?
        var name: String?
        var plan: String?
        var primaryUsedPercent: Double?
        var secondaryUsedPercent: Double?
        var models: [String]?

        static let bounds: [String: ClosedRange<Double>] = [
            "primaryUsedPercent": 0...100, "secondaryUsedPercent": 0...100,
        ]
        var complaint: String? { id.isEmpty ? "needs an id" : nil }

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
    var accessTokenLifetime: Int?
    var firstAccessTokenLifetime: Int?
    var refreshTokenLifetime: Int?
    var revokesFamilyOnReuse: Bool?
    var plan: String?
    var otherAccounts: [Account]?
    var primaryUsedPercent: Double?
    var secondaryUsedPercent: Double?
    var webSocket: Bool?
    var webSocketDeflate: Bool?
    var webSocketPingInterval: Duration?

    static let bounds: [String: ClosedRange<Double>] = {
        let lifetime = 0...Double(SimulatorConfiguration.lifetimeBounds.upperBound)
        return [
            "pollInterval": 0...Double(SimulatorConfiguration.pollIntervalBounds.upperBound),
            "deltasPerSecond": SimulatorConfiguration.rateBounds,
            "accessTokenLifetime": lifetime, "firstAccessTokenLifetime": lifetime, "refreshTokenLifetime": lifetime,
            "primaryUsedPercent": 0...100, "secondaryUsedPercent": 0...100,
        ]
    }()
}

/// When a rule applies, and what it does.
struct ScenarioRule: ScenarioPart {
    var match: ScenarioMatch?
    var effect: ScenarioEffect
}

/// Which requests a rule is about. A missing member matches everything.
struct ScenarioMatch: ScenarioPart {
    /// The carrier of a request: HTTP, upgrades included, or messages of a WebSocket.
    enum Carrier: String, ScenarioChoice { case http, websocket }

    /// A number, or a list of them.
    struct Counts: Decodable, Sendable, Hashable {
        let values: [Int]

        init(from decoder: any Decoder) throws {
            let here = try ScenarioDecoder.of(decoder)
            values = here.value.array == nil ? [try here.integer()] : try here.decode([Int].self)
        }
    }

    /// A WebSocket message that asks for a turn is a `POST`, one that only warms up is a `PREWARM`.
    var method: String?
    var over: Carrier?
    /// The path without the query; a `*` at the end stands for anything.
    var path: String?
    /// Text that the body, as it was sent, must hold.
    var bodyContains: String?
    /// Which of the requests that fit the above, counted from 1.
    var nth: Counts?
    var from: Int?
    var to: Int?

    static let bounds: [String: ClosedRange<Double>] = [
        "nth": 1...1_000_000, "from": 1...1_000_000, "to": 1...1_000_000,
    ]

    /// Whether a request is one of those that are counted.
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

    /// Whether the rule applies to the request with this count.
    func includes(count: Int) -> Bool {
        if let nth, !nth.values.contains(count) { return false }
        return count >= from ?? 1 && count <= to ?? .max
    }
}

/// How far a scenario has been played.
struct ScenarioProgress: Sendable {
    private let rules: [ScenarioRule]
    private var counts: [Int]

    init(_ scenario: SimulatorScenario?) {
        rules = scenario?.rules ?? []
        counts = Array(repeating: 0, count: rules.count)
    }

    /// Counts a request, and gives the effect of the first rule that applies to it.
    mutating func effect(for request: BackendRequest) -> ScenarioEffect? {
        var found: ScenarioEffect?
        for (index, rule) in rules.enumerated() where rule.match?.isAbout(request) ?? true {
            counts[index] += 1
            if found == nil, rule.match?.includes(count: counts[index]) ?? true { found = rule.effect }
        }
        return found
    }
}
