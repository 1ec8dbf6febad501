import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// A model list with its tag, its date and its owner, as a document of the cache.
struct ModelListRecord {
    /// The issuer, the backend, the user and the account that the list belongs to.
    let owner: [String]
    /// The wire format with which the list was requested.
    let format: String
    /// Whether `priority` determines the order of the models.
    var ranked = true

    var name: String { FNV1a.hexadecimal(owner) }

    /// Returns the document of a list, or `nil` for a list that repeats a token, as a proxy's may. Tokens are stored
    /// only in the credential store.
    func document(tag: String?, list: ChappieJSON, at date: Date) -> [UInt8]? {
        let json: ChappieJSON = [
            "owner": owners, "format": .string(format), "listed_at": Self.seconds(date),
            "etag": tag.map(ChappieJSON.string) ?? .null, "list": list,
        ]
        let text = json.serialized()
        return UntrustedText.withoutTokens(text) == text ? Array(text.utf8) : nil
    }

    /// Returns the document of a list that was still valid at `date`.
    func renewed(_ document: [UInt8], at date: Date) -> [UInt8]? {
        guard var object = (try? ChappieJSON(parsing: document))?.object else { return nil }
        object["listed_at"] = Self.seconds(date)
        return ChappieJSON.object(object).serializedBytes()
    }

    /// Returns the list in a document, or `nil` for a document that is damaged, or that belongs to another owner. A
    /// list of another format is considered old and has no tag, because the service may list more models for this
    /// format.
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
        .integer(Int(exactly: date.timeIntervalSince1970.rounded(.down)) ?? 0)
    }
}

extension ChappieModel {
    /// Returns the models of a stored list, whichever account it belongs to, or none if it is damaged. The completions
    /// of a shell use this, because they need no sign-in.
    @_spi(ChappieInternals) public static func kept(in document: [UInt8]) -> [ChappieModel] {
        (try? ChappieJSON(parsing: document))?["list"].flatMap { list($0, ranked: true) } ?? []
    }
}
