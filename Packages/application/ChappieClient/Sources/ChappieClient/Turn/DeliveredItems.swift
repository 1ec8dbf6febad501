@_spi(ChappieInternals) import ChappieCore

/// The items that a reader has been handed, and the number of them that the present attempt has repeated.
struct DeliveredItems: Sendable {
    enum Match {
        case new
        /// An earlier attempt has handed out this item.
        case known(ChappieOutputItem)
        /// An earlier attempt has handed out another item in this place.
        case different
    }

    /// The items, in order.
    private(set) var items: [ChappieOutputItem] = []
    /// The items, by kind.
    private var byKind: [String: [ChappieOutputItem]] = [:]
    /// The number of items of each kind that the present attempt has completed.
    private var seen: [String: Int] = [:]

    var isEmpty: Bool { items.isEmpty }
    /// Whether the present attempt has repeated all calls.
    var hasAllCalls: Bool {
        byKind.allSatisfy { kind, items in
            seen[kind, default: 0] >= items.count || !items.contains(where: \.isToolCall)
        }
    }

    mutating func attemptBegan() { seen = [:] }

    /// Compares the attempt's next item with the items of earlier attempts.
    mutating func match(_ item: ChappieOutputItem) -> Match {
        let index = seen[item.kind, default: 0]
        seen[item.kind] = index + 1
        guard let known = byKind[item.kind]?.dropFirst(index).first else { return .new }
        if item.phase == .commentary { return .known(item) }
        guard item.isToolCall ? item.asksTheSame(as: known) : item.text == known.text else { return .different }
        return .known(item.isToolCall ? item.withCallID(known.callID) : item)
    }

    mutating func add(_ item: ChappieOutputItem) {
        byKind[item.kind, default: []].append(item)
        items.append(item)
    }
}

extension ChappieOutputItem {
    /// The kind of the item. Items of a kind are repeated in the same order. Commentary need not be repeated.
    fileprivate var kind: String { phase == .commentary ? "commentary" : type }

    /// Returns whether two tool calls are for the same tool with the same arguments. Ids differ from answer to answer.
    fileprivate func asksTheSame(as other: ChappieOutputItem) -> Bool {
        guard name == other.name, json["namespace"] == other.json["namespace"] else { return false }
        return ["arguments", "input"].allSatisfy { Self.meaning(of: json[$0]) == Self.meaning(of: other.json[$0]) }
    }

    /// Returns the parsed arguments. Arguments are JSON in a string, where spacing has no meaning.
    private static func meaning(of arguments: ChappieJSON?) -> ChappieJSON? {
        arguments?.string.flatMap { try? ChappieJSON(parsing: $0) } ?? arguments
    }

    /// Returns the call with the id that the host knows, so that its output can be matched.
    func withCallID(_ callID: String?) -> ChappieOutputItem {
        guard var object = json.object else { return self }
        object["call_id"] = callID.map(ChappieJSON.string)
        return ChappieOutputItem(.object(object))
    }
}
