import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The parts of requests that the service refuses for the models of one account, as a document of the cache.
///
/// A part counts until the list's entry for the model changes, but at most for a day, so that a service that refuses
/// something by mistake is asked again.
struct RefusedPartsRecord: Sendable, Codable {
    struct Entry: Sendable, Codable {
        var parts: RefusedParts
        /// The model's entry in the list at that time, or `nil` if the list lacked it.
        var model: ChappieModel?
        var learnedAt: Date
    }

    /// The issuer, the backend, the user and the account that the record belongs to.
    let owner: [String]
    private var entries: [String: Entry] = [:]

    private static let lifetime: TimeInterval = 24 * 3600

    /// Creates a record without entries.
    init(owner: [String]) { self.owner = owner }

    /// Reads a record from a document.
    ///
    /// - Returns: `nil` for a document that is damaged, or that belongs to another owner.
    init?(_ document: [UInt8], owner: [String]) {
        guard let record = try? JSONDecoder().decode(Self.self, from: Data(document)), record.owner == owner else {
            return nil
        }
        self = record
    }

    var name: String { Self.name(owner: owner) }

    static func name(owner: [String]) -> String { FNV1a.hexadecimal(owner + ["refused parts"]) }

    var document: [UInt8]? { (try? JSONEncoder().encode(self)).map(Array.init) }

    /// Returns the parts to leave out of a request to the model `slug`, whose current entry in the list is `model`.
    func parts(of slug: String, _ model: ChappieModel?, at now: Date) -> RefusedParts {
        guard let entry = entries[slug], entry.model == model,
            (0...Self.lifetime).contains(now.timeIntervalSince(entry.learnedAt))
        else { return RefusedParts() }
        return entry.parts
    }

    /// Returns the models of a list that the service refuses entirely.
    func refused(in models: [ChappieModel], at now: Date) -> Set<String> {
        Set(models.filter { parts(of: $0.slug, $0, at: now).wholeModel }.map(\.slug))
    }

    mutating func learn(_ parts: RefusedParts, of slug: String, _ model: ChappieModel?, at now: Date) {
        entries = entries.filter { (0...Self.lifetime).contains(now.timeIntervalSince($0.value.learnedAt)) }
        entries[slug] = Entry(parts: parts, model: model, learnedAt: now)
    }
}
