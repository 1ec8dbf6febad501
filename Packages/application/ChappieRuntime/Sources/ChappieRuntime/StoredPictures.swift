@_spi(ChappieInternals) import ChappieCore

// A picture of a turn is stored once: in the record of the tool call that returned it, or of the message with which the
// user steered the turn. The items in later records refer to it by its index there.

extension ChappieTurn {
    /// Returns an item in the form of a record. A number replaces each picture that an earlier record of the turn has.
    func stored(_ item: ChappieJSON) -> ChappieJSON {
        if item["role"] == "user",
            let index = steeringMessages.firstIndex(where: { $0.hasAttachment && $0.inputItem == item })
        {
            return .integer(index)
        }
        let known = parts(of: item).map { $0["image_url"] }
        return mappingPictures(of: item) { url in
            guard url?.string != nil, let index = known.firstIndex(of: url) else { return nil }
            return .integer(index)
        }
    }

    /// Returns the item of a record in its full form. See ``stored(_:)``.
    func restored(_ item: ChappieJSON) -> ChappieJSON {
        if let index = item.int {
            guard steeringMessages.indices.contains(index) else {
                return ChappieInputMessage.user("(A message was here. Its record is missing.)").inputItem
            }
            return steeringMessages[index].inputItem
        }
        let known = parts(of: item)
        return mappingPictures(of: item) { index in
            guard let index = index?.int else { return nil }
            return known.indices.contains(index) ? known[index]["image_url"] : .null
        }
    }

    /// Returns the parts that the call returned whose output the item is.
    private func parts(of item: ChappieJSON) -> [ChappieJSON] {
        guard item["output"]?.array != nil, let id = item["call_id"]?.string else { return [] }
        return toolCalls.last { $0.id == id }?.result?.result.parts ?? []
    }

    /// Returns the output of a tool with other addresses of its pictures. The address stays if `change` returns `nil`,
    /// and a sentence replaces the picture if it returns `null`. The order of members stays, because prompts depend on
    /// it.
    private func mappingPictures(of item: ChappieJSON, _ change: (ChappieJSON?) -> ChappieJSON?) -> ChappieJSON {
        guard var object = item.object, item["type"]?.string?.hasSuffix("_call_output") == true,
            let parts = item["output"]?.array, parts.contains(where: { $0["type"] == "input_image" })
        else { return item }
        object["output"] = .array(
            parts.map { part in
                guard part["type"] == "input_image", var picture = part.object, let url = change(part["image_url"])
                else { return part }
                guard !url.isNull else {
                    return ["type": "input_text", "text": "(A picture was here. Its record is missing.)"]
                }
                picture["image_url"] = url
                return .object(picture)
            })
        return .object(object)
    }
}

extension ChappieInputMessage {
    /// Whether the message has a part that is not text.
    fileprivate var hasAttachment: Bool {
        parts.contains { if case .text = $0 { false } else { true } }
    }
}
