@_spi(ChappieInternals) import ChappieCore

/// The form of a conversation's items in one request.
///
/// The service checks every item that is sent back to it, and refuses the entire request because of one that it does
/// not take: ids that are too long, of another kind or used twice, reasoning that it can't read, arguments above its
/// limit. Such parts are left out here. The result depends only on the request and the items, so that a conversation
/// that grows always begins with the same bytes.
struct RequestInput {
    /// Whether the request has the lite form: calls have a namespace, and images are bytes without `detail`.
    let isLite: Bool
    /// The namespaces that the request declares, or `nil` if calls keep any namespace.
    let namespaces: Set<String>?
    /// Whether the model takes pictures. Otherwise a sentence replaces each of them.
    var takesPictures = true

    /// The limits of the service, in characters.
    private static let limits = (id: 64, arguments: 1 << 20)

    /// The prefixes of ids, by the type of the item.
    private static let prefixes = [
        "message": "msg_", "reasoning": "rs_", "function_call": "fc_", "function_call_output": "fco_",
        "custom_tool_call": "ctc_", "custom_tool_call_output": "ctco_", "local_shell_call": "lsh_",
        "tool_search_call": "tsc_", "tool_search_output": "tso_", "web_search_call": "ws_",
        "image_generation_call": "ig_", "compaction": "cmp_",
    ]

    /// Returns `items` in the form of the request.
    ///
    /// - Parameter sent: The items that come before them in the request, in its form.
    func written(_ items: [ChappieJSON], after sent: [ChappieJSON] = []) -> [ChappieJSON] {
        // The plan's route takes no search for tools.
        let items = namespaces == nil ? ToolSearch.withoutSearches(items) : items
        let namespaces = namespaces.map { declared in
            [sent, items].reduce(declared) { $0.union(ToolSearch.namespaces(foundIn: $1)) }
        }
        var ids = Set(sent.compactMap { $0["id"]?.string })
        var shortened: Set<String> = []
        var room = Self.pictureRoom
        // The newest pictures are sent. Earlier ones may no longer fit into a request.
        let tooLarge = Set(items.indices.reversed().filter { !Self.fits(items[$0], &room) })
        return items.enumerated().compactMap { index, item in
            guard let object = item.object, let type = object["type"]?.string else { return item }
            var written = object
            for member in object.members where member.value.isNull { written[member.name] = nil }
            if type == "reasoning" || type == "compaction" {
                guard let content = object["encrypted_content"]?.string, !content.isEmpty else { return nil }
                written["content"] = nil
            }
            if let id = written["id"], !isGood(id.string, of: type) || !ids.insert(id.string ?? "").inserted {
                written["id"] = nil
            }
            switch type {
            case "function_call", "custom_tool_call":
                write(&written, namespaces, shortened: &shortened)
            case "function_call_output", "custom_tool_call_output":
                if let call = object["call_id"]?.string, shortened.contains(call) { note(in: &written) }
                if written[ServiceOutputs.member] != nil { written[ServiceOutputs.member] = nil }
            default: break
            }
            for name in ["content", "output"] {
                guard let parts = written[name]?.array, parts.contains(where: Self.isImage) else { continue }
                let isLeftOut = name == "output" && tooLarge.contains(index)
                written[name] = .array(parts.map { isLeftOut && Self.isImage($0) ? Self.leftOutPicture : part($0) })
            }
            return .object(written)
        }
    }

    private func isGood(_ id: String?, of type: String) -> Bool {
        guard let id, id.utf8.count <= Self.limits.id else { return false }
        return Self.prefixes[type].map { id.hasPrefix($0) } ?? true
    }

    // MARK: Calls

    /// Gives a call the namespace under which the request declares its tool, and leaves out arguments above the limit.
    private func write(_ call: inout ChappieJSONObject, _ namespaces: Set<String>?, shortened: inout Set<String>) {
        if isLite {
            if call["namespace"] == nil { call["namespace"] = .string(ToolName.noGroup) }
        } else if let namespaces, let name = call["namespace"]?.string, !namespaces.contains(name) {
            call["namespace"] = nil
        }
        for (name, empty) in [("arguments", "{}"), ("input", "")] {
            guard let text = call[name]?.string, text.utf8.count > Self.limits.arguments,
                text.unicodeScalars.count > Self.limits.arguments
            else { continue }
            call[name] = .string(empty)
            if let id = call["call_id"]?.string { shortened.insert(id) }
        }
    }

    /// Adds a note for the model to a call's output that the arguments above it are not those that ran.
    private func note(in output: inout ChappieJSONObject) {
        let note = "(The arguments of this call were too long to be sent again. They are left out above.)\n"
        if let text = output["output"]?.string {
            output["output"] = .string(note + text)
        } else if let parts = output["output"]?.array {
            output["output"] = .array([["type": "input_text", "text": .string(note)]] + parts)
        }
    }

    // MARK: Pictures

    /// The largest size of the pictures of tools in one request, in bytes of Base64. A request may have 50 MB.
    private static let pictureRoom = 24 << 20

    private static let leftOutPicture: ChappieJSON = [
        "type": "input_text", "text": "(The picture is not sent again. The user has it.)",
    ]

    /// Returns whether the pictures in a tool's output fit into the rest of `room`. A picture that the service would
    /// refuse for its size does not.
    private static func fits(_ item: ChappieJSON, _ room: inout Int) -> Bool {
        let sizes = (item["output"]?.array ?? []).compactMap { ChappieGeneratedImage.dataURL(of: $0)?.utf8.count }
        guard !sizes.isEmpty else { return true }
        room -= sizes.reduce(0, +)
        return room >= 0 && sizes.allSatisfy { $0 / 4 * 3 <= ChappieImage.defaultLimit }
    }

    /// Returns whether `item` has an image that is given only by an address.
    static func hasImageByAddress(_ item: ChappieJSON) -> Bool {
        (item["content"]?.array ?? []).contains { isImage($0) && address(of: $0) != nil }
    }

    /// Returns whether `item` has an image.
    static func hasImage(_ item: ChappieJSON) -> Bool {
        ["content", "output"].contains { (item[$0]?.array ?? []).contains(where: isImage) }
    }

    private static func isImage(_ part: ChappieJSON) -> Bool { part["type"]?.string == "input_image" }

    private static func address(of image: ChappieJSON) -> String? {
        image["image_url"]?.string.flatMap { $0.hasPrefix("data:") ? nil : $0 }
    }

    private func part(_ part: ChappieJSON) -> ChappieJSON {
        guard Self.isImage(part), var image = part.object else { return part }
        guard takesPictures else {
            return ["type": "input_text", "text": "(A picture, which this model can't see.)"]
        }
        guard isLite else { return part }
        if let address = Self.address(of: part) {
            return ["type": "input_text", "text": .string("(An image at \(address), which is not sent.)")]
        }
        image["detail"] = nil
        return .object(image)
    }
}
