@_spi(ChappieInternals) import ChappieCore

/// A message of the user's role in a session of the Codex CLI. The program also sends instructions in that role, and
/// adds text to the user's.
struct CodexQuestion {
    /// The parts that the user wrote.
    private(set) var content: [ChappieJSON] = []
    private(set) var leftOut: [String] = []

    init(_ item: ChappieJSON) {
        let parts = item["content"]?.array ?? []
        let kinds = item["internal_chat_message_metadata_passthrough"]?["content_item_kinds"]?.array ?? []
        for (index, part) in parts.enumerated() {
            let kind = kinds.indices.contains(index) ? kinds[index].string : nil
            guard let text = part["text"]?.string else {
                let known = Self.part(part)
                if let known { content.append(known) } else { leftOut.append(part["type"]?.string ?? "part") }
                continue
            }
            if Self.isMarkupOfPicture(text) { continue }
            let isTyped = kind.map { $0.hasPrefix("user.") } ?? !Self.isInstruction(text)
            guard isTyped else {
                leftOut.append("instruction of the program")
                continue
            }
            let request = Self.request(in: text)
            if request != text { leftOut.append("context of an editor") }
            if !request.isEmpty { content.append(["type": "input_text", "text": .string(request)]) }
        }
    }

    /// Returns a part as the backend accepts it, or `nil` for an unknown one.
    static func part(_ part: ChappieJSON) -> ChappieJSON? {
        let names: [String]
        switch part["type"]?.string {
        case "input_text", "output_text": names = ["type", "text"]
        case "refusal": names = ["type", "refusal"]
        case "input_image":
            return [
                "type": "input_image", "image_url": part["image_url"] ?? "",
                "detail": .string(part["detail"]?.string ?? "auto"),
            ]
        default: return part["text"]?.string.map { ["type": "output_text", "text": .string($0)] }
        }
        return .object(ChappieJSONObject(names.compactMap { name in part[name].map { (name, $0) } }))
    }

    /// Returns whether the program wrote the text. Its texts are within a tag, whose name is that of no tag of HTML.
    private static func isInstruction(_ text: String) -> Bool {
        let text = text.trimmed.lowercased()
        if text.hasPrefix("# agents.md instructions") { return true }
        guard text.first == "<", let end = text.firstIndex(of: ">") else { return false }
        let name = text[..<end].dropFirst()
        let word = name.prefix { !$0.isWhitespace }
        let known = [
            "environment_context", "user_instructions", "instructions", "turn_aborted", "permissions instructions",
            "user_shell_command", "skill", "user_action", "subagent_notification",
        ]
        return known.contains(String(name)) || known.contains(String(word))
            || word.contains("_") && text.hasSuffix("</\(word)>")
    }

    private static func isMarkupOfPicture(_ text: String) -> Bool {
        let text = text.trimmed
        return text == "</image>" || text.hasPrefix("<image name=") && text.firstIndex(of: ">") == text.indices.last
    }

    /// Returns the user's request. Editors put the names of open files before it, and pictures and files that the user
    /// mentioned, each under a heading.
    private static func request(in text: String) -> String {
        let start = text.drop(while: \.isWhitespace)
        let mark = "\n## My request for Codex:"
        guard start.first == "#", let place = "\n\(start)".firstRange(of: mark) else { return text }
        return String("\n\(start)"[place.upperBound...]).trimmed
    }
}
