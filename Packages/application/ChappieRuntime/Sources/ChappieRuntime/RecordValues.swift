import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore

/// Functions that read and write values in records.
enum Records {
    /// Returns the items of an answer for a record. An item that is also among the turn's items is replaced by its
    /// index there.
    static func output(_ output: [ChappieOutputItem], in items: [ChappieJSON]) -> ChappieJSON {
        var rest = items[...]
        let entries = output.reversed().map { item -> ChappieJSON in
            guard let place = rest.lastIndex(of: item.json) else { return item.json }
            rest = rest[..<place]
            return .integer(place)
        }
        return .array(entries.reversed())
    }

    /// Returns the items of the answer that a turn with these items ended with.
    static func output(_ body: ChappieJSON, of items: [ChappieJSON]) -> [ChappieOutputItem] {
        (body["output"]?.array ?? []).compactMap { entry in
            guard let place = entry.int else { return ChappieOutputItem(entry) }
            return items.indices.contains(place) ? ChappieOutputItem(items[place]) : nil
        }
    }

    /// Adds the account and the user of a turn to `body`, but never a token.
    static func note(_ body: inout ChappieJSONObject, _ accountID: String?, _ userID: String?) {
        body["account"] = accountID.map { .string($0) }
        body["accountUser"] = userID.map { .string($0) }
    }

    /// Returns the account that ``note(_:_:_:)`` has added. If an account has no id, the user's id is in its place.
    static func account(_ body: ChappieJSON) -> ChappieAccountInfo? {
        guard let account = body["account"]?.string else { return nil }
        let user = body["accountUser"]?.string
        return ChappieAccountInfo(userID: user, accountID: account == user ? nil : account)
    }

    /// Returns whether the model that answered differs from the model that was asked. A date at the end of a name makes
    /// no difference.
    static func isOther(_ answered: String, than asked: String) -> Bool {
        !answered.isEmpty && !ChappieModel.isSame(answered, asked)
    }

    static func value<Value: Decodable>(_ json: ChappieJSON?) -> Value? {
        json.flatMap { try? JSONDecoder().decode(Value.self, from: Data($0.serializedBytes())) }
    }

    static func values<Value: Decodable>(_ json: ChappieJSON?) -> [Value] {
        (json?.array ?? []).compactMap { value($0) }
    }

    static func json(_ value: some Encodable) -> ChappieJSON {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return (try? encoder.encode(value)).flatMap { try? ChappieJSON(parsing: Array($0)) } ?? .null
    }
}
