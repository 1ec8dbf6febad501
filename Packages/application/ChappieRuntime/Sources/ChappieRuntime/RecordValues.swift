import ChappieClient
@_spi(ChappieInternals) import ChappieCore

/// Values in records.
enum Records {
    /// The items of an answer; an item that is also among the turn's items is replaced by its index there.
    static func output(_ output: [ChappieOutputItem], in items: [ChappieJSON]) -> ChappieJSON {
        var rest = items[...]
        let entries = output.reversed().map { item -> ChappieJSON in
            guard let place = rest.lastIndex(of: item.json) else { return item.json }
            rest = rest[..<place]
            return .integer(place)
        }
        return .array(entries.reversed())
    }

    /// The items of the answer that a turn of these items ended with. Records of earlier versions hold them whole.
    static func output(_ body: ChappieJSON, of items: [ChappieJSON]) -> [ChappieOutputItem] {
        (body["output"]?.array ?? []).compactMap { entry in
            guard let place = entry.int else { return ChappieOutputItem(entry) }
            return items.indices.contains(place) ? ChappieOutputItem(items[place]) : nil
        }
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
