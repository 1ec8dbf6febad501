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
    /// The conversations that were read, as hash values by their ids.
    private var read: [String: Int] = [:]
    /// The date for conversations without any time.
    private let fileDate: Date
    private let assets: ChatGPTAssets

    init(_ lines: ImportLines, fileDate: Date, _ assets: ChatGPTAssets) {
        elements = JSONElements(lines)
        self.fileDate = fileDate
        self.assets = assets
    }

    /// Returns a reader of a document that is one conversation, or an object with a list of them. It returns `nil` for
    /// another document.
    init?(document: ChappieJSON, fileDate: Date, _ assets: ChatGPTAssets) throws(ThreadFault) {
        let list = document["conversations"]?.array ?? (document["mapping"]?.object == nil ? nil : [document])
        guard let list else { return nil }
        self.init(try ImportLines(ChappieJSON.array(list).serializedBytes()), fileDate: fileDate, assets)
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
                leftOut.add(damage: "damaged conversation \(name), because \(error.reason)")
            }
        }
        guard isRecognized || count == 0 else {
            leftOut = LeftOut()
            throw .unknown
        }
        return nil
    }

    /// Returns a conversation as a thread, or `nil` if nobody has written anything.
    private mutating func thread(of json: ChappieJSON) throws(ThreadFault) -> ChappieThread? {
        if json["current_node"] != nil || json["mapping"] != nil { isRecognized = true }
        guard let mapping = json["mapping"]?.object else { throw ThreadFault("it has no messages") }
        let tree = MessageTree(mapping)
        let current = json["current_node"]?.string ?? ""
        guard current.isEmpty || tree.has(current) else { throw ThreadFault("its current message is missing") }
        let branch = tree.branch(to: current.isEmpty ? tree.newest : current, &leftOut)
        guard let first = branch.first(where: MessageTree.isSaid) else {
            leftOut.add("conversation without messages")
            return nil
        }
        let facts = (json["create_time"]?.serialized() ?? "") + (first["content"]?.serialized() ?? "")
        guard let id = id(of: json, facts, branch) else {
            leftOut.add("repeated conversation")
            return nil
        }
        let times = [json["create_time"], json["update_time"]] + branch.map { $0["create_time"] }
        let begun = times.lazy.compactMap(ImportedThread.time).first ?? fileDate
        var thread = ImportedThread(id: id, facts: facts)
        thread.name(json["title"]?.string, at: begun)
        var turns = ChatGPTTurns(thread, model: json["default_model_slug"]?.string ?? "", begun: begun, assets)
        for message in branch { turns.add(message) }
        thread = turns.finished()
        if json["is_archived"]?.bool == true { thread.add(.archived, at: turns.latest) }
        if json["is_starred"]?.bool == true { thread.leaveOut("star") }
        thread.changedAt = ([json["update_time"]] + tree.messages.map { $0["create_time"] })
            .compactMap(ImportedThread.time).max()
        leftOut.add(thread.leftOut)
        return try thread.thread()
    }

    /// Returns the conversation's id, or another one if a different conversation of the file has that id. It returns
    /// `nil` for a conversation that was already read.
    private mutating func id(of json: ChappieJSON, _ facts: String, _ branch: [ChappieJSON]) -> String? {
        var id = ImportedThread(id: json["conversation_id"]?.string ?? json["id"]?.string, facts: facts).id
        while let known = read[id] {
            if known == branch.hashValue { return nil }
            id = ImportedThread.derivedID(id, facts)
        }
        read[id] = branch.hashValue
        return id
    }
}

/// The messages of a conversation. Each one is in a node, which names its parent or its children.
private struct MessageTree {
    // An object's own look-up is linear, and a long conversation has thousands of nodes.
    private let nodes: [String: ChappieJSON]
    private var parents: [String: String] = [:]
    /// The last of the newest messages that have no answer.
    private(set) var newest: String?

    init(_ mapping: ChappieJSONObject) {
        let members = mapping.members.filter { $0.value.object != nil }
        nodes = Dictionary(members.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
        for (name, node) in nodes {
            for child in node["children"]?.array ?? [] { if let child = child.string { parents[child] = name } }
        }
        for (name, node) in nodes {
            guard let parent = node["parent"]?.string else { continue }
            // A parent that is missing may have been given another name.
            if nodes[parent] != nil || parents[name] == nil { parents[name] = parent }
        }
        let inner = Set(parents.values)
        let leaves = members.filter { !inner.contains($0.name) }
        var time = Date.distantPast
        for (name, node) in (leaves.isEmpty ? members : leaves).map({ ($0.name, $0.value) }) {
            let own = ImportedThread.time(node["message"]?["create_time"]) ?? .distantPast
            if own >= time { (newest, time) = (name, own) }
        }
    }

    var messages: [ChappieJSON] { nodes.values.compactMap { $0["message"] } }

    func has(_ name: String) -> Bool { nodes[name] != nil }

    /// Returns the messages from the beginning of the conversation to the given one. The others are counted.
    func branch(to end: String?, _ leftOut: inout LeftOut) -> [ChappieJSON] {
        var messages: [ChappieJSON] = []
        var seen: Set<String> = []
        var next = end
        while let name = next {
            guard let node = nodes[name], seen.insert(name).inserted else {
                leftOut.add(damage: "earlier messages of a conversation, which can't be found")
                break
            }
            messages.append(node["message"] ?? .null)
            next = parents[name]
        }
        let others = nodes.filter { !seen.contains($0.key) && Self.isSaid($0.value["message"]) }
        leftOut.add("message of another branch", others.count)
        return messages.reversed()
    }

    /// Returns whether the user or the model wrote the message, and not the program.
    static func isSaid(_ message: ChappieJSON?) -> Bool {
        ["user", "assistant"].contains(message?["author"]?["role"]?.string)
    }
}
