import ChappieCore
import ChappieRuntime
import FoundationEssentials

/// A reader of `conversations.json` from the export that ChatGPT sends its users. The file is an array of
/// conversations, each a tree of messages. An edited question and an answer that was requested again are branches. Only
/// the current branch is read.
enum ChatGPTExport {
    static func read(_ bytes: [UInt8]) throws(ThreadFault) -> ChappieThreadImport {
        var all = ChappieThreadImport(source: .chatGPT, threads: [])
        var ids: Set<String> = []
        for (index, element) in elements(of: bytes).enumerated() {
            // Only one conversation is parsed at a time, because the tree of all would take many times the file's size.
            guard let json = try? ChappieJSON(parsing: Array(element)), let mapping = json["mapping"]?.object else {
                throw index == 0 ? .unknown : .conversation(index + 1, "it is not one")
            }
            guard let id = json["conversation_id"]?.string ?? json["id"]?.string, var thread = ImportedThread(id: id)
            else { throw .conversation(index + 1, "it has no id") }
            try add(json, mapping, to: &thread, number: index + 1)
            for (what, count) in thread.skipped { all.leftOut[what, default: 0] += count }
            guard !thread.isEmpty, ids.insert(id).inserted else { continue }
            all.threads.append(try thread.thread())
        }
        guard !ids.isEmpty || bytes.contains(UInt8(ascii: "{")) else { throw .unknown }
        return all
    }

    /// Returns the objects of an array, as bytes.
    private static func elements(of bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        var elements: [ArraySlice<UInt8>] = []
        var start = 0
        var depth = 0
        var isText = false
        var isEscaped = false
        for (index, byte) in bytes.enumerated() {
            switch Unicode.Scalar(byte) {
            case _ where isEscaped: isEscaped = false
            case "\\" where isText: isEscaped = true
            case "\"": isText.toggle()
            case "{" where !isText, "[" where !isText:
                depth += 1
                if depth == 2 { start = index }
            case "}" where !isText, "]" where !isText:
                depth -= 1
                if depth == 1 { elements.append(bytes[start...index]) }
            default: continue
            }
        }
        // An array that is cut has half a conversation at its end.
        if depth > 1 { elements.append(bytes[start...]) }
        return elements
    }

    private static func add(
        _ json: ChappieJSON, _ mapping: ChappieJSONObject, to thread: inout ImportedThread, number: Int
    ) throws(ThreadFault) {
        // An object's own look-up is linear, and a long conversation has thousands of nodes.
        let nodes = Dictionary(mapping.members.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
        var chain: [ChappieJSON] = []
        var seen: Set<String> = []
        var next = json["current_node"]?.string
        while let id = next {
            guard let node = nodes[id], seen.insert(id).inserted else {
                throw .conversation(number, "its current branch can't be followed")
            }
            chain.append(node["message"] ?? .null)
            next = node["parent"]?.string
        }
        let others = mapping.members.filter { !seen.contains($0.name) && isSaid($0.value["message"]) }
        for _ in others { thread.skip("message of another branch") }
        let begun = date(json["create_time"]) ?? date(json["update_time"]) ?? Date(timeIntervalSince1970: 0)
        if let title = json["title"]?.string, !title.isEmpty, chain.contains(where: isSaid) {
            thread.add(.renamed, at: begun, ["title": .string(title)])
        }
        var reader = Reader(latest: begun)
        for message in chain.reversed() { reader.add(message, to: &thread) }
        reader.endTurn(in: &thread)
    }

    /// Returns whether the user or the model wrote the message, and not the program.
    private static func isSaid(_ message: ChappieJSON?) -> Bool {
        ["user", "assistant"].contains(message?["author"]?["role"]?.string)
    }

    /// Returns the date from the seconds since 1970.
    private static func date(_ json: ChappieJSON?) -> Date? {
        guard let seconds = json?.double, (0...1e11).contains(seconds) else { return nil }
        return Date(timeIntervalSince1970: seconds)
    }

    /// A reader that makes turns from a branch.
    private struct Reader {
        private var turn: ImportedThread.Turn?
        private var latest: Date

        init(latest: Date) { self.latest = latest }

        mutating func endTurn(in thread: inout ImportedThread) {
            if let turn { thread.add(turn) }
            turn = nil
        }

        mutating func add(_ message: ChappieJSON, to thread: inout ImportedThread) {
            guard message != .null else { return }
            latest = ChatGPTExport.date(message["create_time"]) ?? latest
            let role = message["author"]?["role"]?.string
            let kind = message["content"]?["content_type"]?.string ?? "message"
            let isHidden = message["metadata"]?["is_visually_hidden_from_conversation"]?.bool == true
            let isForAll = ["all", nil].contains(message["recipient"]?.string)
            switch role {
            case "user" where !isHidden && isForAll:
                let text = text(of: message, kind, &thread)
                if turn?.items.isEmpty == false { endTurn(in: &thread) }
                if turn == nil {
                    turn = ImportedThread.Turn(id: message["id"]?.string, model: "", at: latest)
                }
                turn?.messages.append(ImportedThread.message("user", text))
                turn?.endedAt = latest
            case "assistant" where !isForAll: thread.skip("tool call")
            case "assistant" where !isHidden:
                guard ["text", "multimodal_text"].contains(kind) else { return thread.skip(kind) }
                let text = text(of: message, kind, &thread)
                guard !text.isEmpty else { return }
                guard turn != nil else { return thread.skip("answer without a question") }
                turn?.items.append(ImportedThread.message("assistant", text))
                turn?.endedAt = latest
                if let model = message["metadata"]?["model_slug"]?.string { turn?.model = model }
            case "tool": thread.skip("tool result")
            // These messages describe the program and the user's settings, not the conversation.
            default: thread.skip("instruction of the program")
            }
        }

        private func text(of message: ChappieJSON, _ kind: String, _ thread: inout ImportedThread) -> String {
            var texts: [String] = []
            for part in message["content"]?["parts"]?.array ?? [] {
                if let text = part.string {
                    texts.append(text)
                } else {
                    thread.skip(part["content_type"]?.string ?? "attachment")
                }
            }
            return texts.joined(separator: "\n")
        }
    }
}
