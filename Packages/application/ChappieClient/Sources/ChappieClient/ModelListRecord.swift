import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// A model list with its tag, its date and its owner, as a document of the cache.
struct ModelListRecord {
    /// The issuer, the backend, the user and the account.
    let owner: [String]
    /// The wire format that the list was asked for.
    let format: String
    /// Whether `priority` decides about the order of the models.
    var ranked = true

    var name: String { FNV1a.hexadecimal(owner) }
    /// The name of the document with the owner's ``RefusedModels``.
    var nameOfRefusals: String { FNV1a.hexadecimal(owner + ["refused"]) }

    /// `nil` for a list that repeats a token, as a proxy's may: tokens are kept in the credential store alone.
    func document(tag: String?, list: ChappieJSON, at date: Date) -> [UInt8]? {
        let json: ChappieJSON = [
            "owner": owners, "format": .string(format), "listed_at": Self.seconds(date),
            "etag": tag.map(ChappieJSON.string) ?? .null, "list": list,
        ]
        let text = json.serialized()
        return UntrustedText.withoutTokens(text) == text ? Array(text.utf8) : nil
    }

    /// The document of a list that still held at `date`.
    func renewed(_ document: [UInt8], at date: Date) -> [UInt8]? {
        guard var object = (try? ChappieJSON(parsing: document))?.object else { return nil }
        object["listed_at"] = Self.seconds(date)
        return ChappieJSON.object(object).serializedBytes()
    }

    /// `nil` for a document that is damaged, or that belongs to another owner. A list of another format counts as old
    /// and without a tag: the service may list more for this format.
    func read(_ document: [UInt8], of account: ChappieAccountInfo) -> ModelList? {
        guard let json = try? ChappieJSON(parsing: document), json["owner"] == owners,
            let models = json["list"].flatMap({ ChappieModel.list($0, ranked: ranked) })
        else { return nil }
        let isCurrent = json["format"]?.string == format
        let date = isCurrent ? json["listed_at"]?.int.map { Date(timeIntervalSince1970: TimeInterval($0)) } : nil
        return ModelList(
            account: account, tag: isCurrent ? UntrustedText.token(json["etag"]?.string, limit: 1024) : nil,
            models: models, listedAt: date ?? .distantPast)
    }

    private var owners: ChappieJSON { .array(owner.map(ChappieJSON.string)) }

    private static func seconds(_ date: Date) -> ChappieJSON {
        .integer(Int(clamping: date))
    }
}

/// The models that the service has refused to an account although its list has them.
///
/// A refusal counts for a day, or until the list's entry for the model changes.
struct RefusedModels: Sendable {
    let owner: [String]
    /// By slug: the entry's digest and the time of the refusal, in seconds.
    private var refusals: [String: (entry: String, at: Int)] = [:]

    /// Reads what ``document`` wrote. A document that is damaged or of another owner counts as empty.
    init(_ document: [UInt8], of owner: [String]) {
        self.owner = owner
        guard let json = try? ChappieJSON(parsing: document), json["owner"] == .array(owner.map(ChappieJSON.string))
        else { return }
        for member in json["refused"]?.object?.members ?? [] {
            guard let entry = member.value["entry"]?.string, let date = member.value["at"]?.int else { continue }
            refusals[member.name] = (entry, date)
        }
    }

    var document: [UInt8] {
        let refused = refusals.sorted { $0.key < $1.key }.map { slug, refusal -> (String, ChappieJSON) in
            (slug, ["entry": .string(refusal.entry), "at": .integer(refusal.at)])
        }
        let json: ChappieJSON = [
            "owner": .array(owner.map(ChappieJSON.string)), "refused": .object(ChappieJSONObject(refused)),
        ]
        return json.serializedBytes()
    }

    mutating func add(_ model: ChappieModel, at now: Date) {
        refusals[model.slug] = (Self.digest(of: model), Int(clamping: now))
    }

    /// Returns the models of a list that were refused within a day and are listed as they were then.
    func slugs(in models: [ChappieModel], at now: Date) -> Set<String> {
        let refused = models.filter { model in
            guard let refusal = refusals[model.slug], refusal.entry == Self.digest(of: model) else { return false }
            return 0...Int(ModelList.lifetime)
                ~= Int(clamping: now).subtractingReportingOverflow(refusal.at).partialValue
        }
        return Set(refused.map(\.slug))
    }

    private static func digest(of model: ChappieModel) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return FNV1a.hexadecimal([(try? encoder.encode(model)).map { String(decoding: $0, as: UTF8.self) } ?? ""])
    }
}

extension Int {
    /// The seconds of a date since 1970.
    fileprivate init(clamping date: Date) { self = Int(exactly: date.timeIntervalSince1970.rounded(.down)) ?? 0 }
}

extension ChappieModel {
    /// The models of a list that is kept, whoever's it is; none if it is damaged. For the completions of a shell, which
    /// need no sign-in.
    @_spi(ChappieInternals) public static func kept(in document: [UInt8]) -> [ChappieModel] {
        (try? ChappieJSON(parsing: document))?["list"].flatMap { list($0, ranked: true) } ?? []
    }
}
