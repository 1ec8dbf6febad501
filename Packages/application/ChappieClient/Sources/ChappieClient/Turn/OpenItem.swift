import ChappieCore

/// An item that has begun.
struct OpenItem {
    let item: ChappieOutputItem
    /// The arguments or the free text of a call, once they are complete.
    var arguments: String?

    /// The types of the events that complete a call's arguments.
    static let argumentsEnded: Set = ["response.function_call_arguments.done", "response.custom_tool_call_input.done"]

    init(_ item: ChappieOutputItem) { self.item = item }

    /// Returns whether an event about an item refers to this one.
    func isMeant(by event: ChappieJSON) -> Bool {
        guard let id = event["item_id"]?.string ?? event["call_id"]?.string else { return arguments == nil }
        return id == item.id || id == item.callID
    }

    /// Returns whether the complete item is this one.
    func isBeginning(of other: ChappieOutputItem) -> Bool {
        guard item.type == other.type else { return false }
        return item.id == nil || other.id == nil || item.id == other.id
            || item.callID.map { $0 == other.callID } ?? false
    }

    /// The complete call, or `nil` for other items, and if its arguments have not arrived.
    var call: ChappieOutputItem? {
        guard item.isToolCall, let arguments, var object = item.json.object else { return nil }
        object[item.type == "custom_tool_call" ? "input" : "arguments"] = .string(arguments)
        object["status"] = "completed"
        return ChappieOutputItem(.object(object))
    }
}
