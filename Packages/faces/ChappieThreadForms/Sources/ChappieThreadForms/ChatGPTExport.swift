import ChappieCore
import ChappieRuntime
import FoundationEssentials

/// A reader of `conversations.json` from the export that ChatGPT sends its users. The file is an array of
/// conversations, each a tree of messages. An edited question and an answer that was requested again are branches. Only
/// the current branch is read.
struct ChatGPTExport: ThreadForm {
    let source = ChappieThreadImport.Source.chatGPT
    private(set) var leftOut = LeftOut()
    private var elements: JSONElements
    private var count = 0
    private var isRecognized = false
    /// The facts about the conversations that were read, by their ids.
    private var read: [String: String] = [:]
    /// The date for conversations without any time.
    private let fileDate: Date

    init(_ lines: ImportLines, fileDate: Date) {
        elements = JSONElements(lines)
        self.fileDate = fileDate
    }

    /// Returns a reader of a document that is one conversation, or an object with a list of them. It returns `nil` for
    /// another document.
    init?(document: ChappieJSON, fileDate: Date) throws(ThreadFault) {
        let list = document["conversations"]?.array ?? (document["mapping"]?.object == nil ? nil : [document])
        guard let list else { return nil }
        self.init(try ImportLines(ChappieJSON.array(list).serializedBytes()), fileDate: fileDate)
    }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        while let element = try elements.next() {
            count += 1
            let json = try? ChappieJSON(parsing: element)
            do throws(ThreadFault) {
                guard let json else { throw ThreadFault("it is not complete") }
                if let thread = try thread(of: json) { return thread }
            } catch {
                let id = json?["conversation_id"]?.string ?? json?["id"]?.string ?? json?["title"]?.string
                let name = id.map { String($0.prefix(60)) } ?? "\(count)"
                leftOut.add("damaged conversation \(name), because \(error.sentence)")
            }
        }
        guard isRecognized || count == 0 else { throw .unknown }
        return nil
    }

    /// Returns a conversation as a thread, or `nil` if nobody has written anything.
    private mutating func thread(of json: ChappieJSON) throws(ThreadFault) -> ChappieThread? {
        guard let mapping = json["mapping"]?.object else { throw ThreadFault("it has no messages") }
        isRecognized = true
        let current = json["current_node"]?.string ?? ""
        let branch = try branch(current.isEmpty ? nil : current, in: mapping)
        guard branch.contains(where: Self.isSaid) else {
            leftOut.add("conversation without messages")
            return nil
        }
        guard let id = id(of: json, branch) else {
            leftOut.add("repeated conversation")
            return nil
        }
        var times = [json["create_time"], json["update_time"]] + branch.map { $0["create_time"] }
        times.removeAll { ImportedThread.time($0) == nil }
        let begun = ImportedThread.time(times.first ?? nil) ?? fileDate
        var thread = ImportedThread(id: id, facts: "")
        thread.name(json["title"]?.string, at: begun)
        var turns = ChatGPTTurns(thread, model: json["default_model_slug"]?.string ?? "", begun: begun)
        for message in branch { turns.add(message) }
        thread = turns.finished()
        if json["is_archived"]?.bool == true { thread.add(.archived, at: turns.latest) }
        if json["is_starred"]?.bool == true { thread.leaveOut("star") }
        leftOut.add(thread.leftOut)
        return try thread.thread()
    }

    /// Returns the conversation's id, or another one if a different conversation of the file has that id. It returns
    /// `nil` for a conversation that was already read.
    private mutating func id(of json: ChappieJSON, _ branch: [ChappieJSON]) -> String? {
        let first = branch.first(where: Self.isSaid)?["content"]?.serialized() ?? ""
        let facts = (json["create_time"]?.serialized() ?? "") + first
        let thread = ImportedThread(id: json["conversation_id"]?.string ?? json["id"]?.string, facts: facts)
        guard let known = read[thread.id] else {
            read[thread.id] = facts
            return thread.id
        }
        let other = ImportedThread.derivedID(thread.id, facts)
        guard known != facts, read[other] == nil else { return nil }
        read[other] = facts
        return other
    }

    /// Returns the messages from the beginning of the conversation to the current one. Without a current message, the
    /// branch with the newest message is the current one.
    private mutating func branch(_ current: String?, in mapping: ChappieJSONObject) throws(ThreadFault) -> [ChappieJSON]
    {
        // An object's own look-up is linear, and a long conversation has thousands of nodes.
        let nodes = Dictionary(mapping.members.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
        if let current, nodes[current] == nil { throw ThreadFault("its current message is missing") }
        var messages: [ChappieJSON] = []
        var seen: Set<String> = []
        var next = current ?? Self.newest(in: mapping)
        while let id = next {
            guard let node = nodes[id], seen.insert(id).inserted else {
                leftOut.add("earlier messages of a conversation, which can't be found")
                break
            }
            messages.append(node["message"] ?? .null)
            next = node["parent"]?.string
        }
        let others = mapping.members.filter { !seen.contains($0.name) && Self.isSaid($0.value["message"]) }
        leftOut.add("message of another branch", others.count)
        return messages.reversed()
    }

    /// Returns the last of the newest messages that have no answer.
    private static func newest(in mapping: ChappieJSONObject) -> String? {
        let parents = Set(mapping.members.compactMap { $0.value["parent"]?.string })
        var newest: (name: String, time: Date)?
        for (name, node) in mapping.members.map({ ($0.name, $0.value) }) where !parents.contains(name) {
            let time = ImportedThread.time(node["message"]?["create_time"]) ?? .distantPast
            if newest.map({ time >= $0.time }) ?? true { newest = (name, time) }
        }
        return newest?.name
    }

    /// Returns whether the user or the model wrote the message, and not the program.
    private static func isSaid(_ message: ChappieJSON?) -> Bool {
        ["user", "assistant"].contains(message?["author"]?["role"]?.string)
    }
}
