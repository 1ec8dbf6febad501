@_spi(ChappieInternals) public import ChappieCore

/// A record in a thread. A thread is the list of its records, in the order of their positions. A record is never
/// changed.
///
/// Records are complete. Their bodies contain all items that a turn sent and received, unchanged, including members
/// that this version does not know. A picture that an earlier record of the turn contains is not stored again: its
/// index there replaces it, and ``ChappieTurn/items`` has the picture. A store keeps the bytes of `body` exactly as `ChappieJSON.serialized()` returns
/// them.
public struct ChappieThreadRecord: Sendable, Hashable {
    /// The kinds of records. Unknown values are kept.
    public struct Kind: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A turn began, with these messages.
        public static let turnStarted = Kind(rawValue: "turn.started")
        /// The user sent a message while the turn was running. The items of a later record contain it, or the turn has not
        /// sent it yet.
        public static let turnSteered = Kind(rawValue: "turn.steered")
        /// The model called tools. None of them has run yet. Without calls, the answer was complete, and the turn
        /// continued with messages of the user.
        public static let toolsCalled = Kind(rawValue: "tools.called")
        /// These tools are about to run. A call without a later ``toolFinished`` may have run, or not.
        public static let toolsStarted = Kind(rawValue: "tools.started")
        /// A tool call has ended.
        public static let toolFinished = Kind(rawValue: "tool.finished")
        /// The turn waits for the user's approval of tool calls.
        public static let approvalPending = Kind(rawValue: "approval.pending")
        /// A turn that was interrupted, or waited, continues.
        public static let turnResumed = Kind(rawValue: "turn.resumed")
        /// The turn has its answer, and belongs to the conversation.
        public static let turnFinished = Kind(rawValue: "turn.finished")
        /// The turn ended in an error. `items` contains the model's text and calls until then.
        public static let turnFailed = Kind(rawValue: "turn.failed")
        /// The turn was interrupted, because its program ended or its user did not want to wait. With `isIncluded`, a
        /// turn without a complete answer becomes part of the conversation.
        public static let turnInterrupted = Kind(rawValue: "turn.interrupted")
        /// The turn was taken back, because the user did not want it or another attempt replaced it. The records of the
        /// turn stay, and no longer count.
        public static let turnTakenBack = Kind(rawValue: "turn.taken_back")
        /// The conversation was replaced by a shorter one.
        public static let compacted = Kind(rawValue: "thread.compacted")
        /// The thread has another title.
        public static let renamed = Kind(rawValue: "thread.renamed")
        /// The thread was removed from the list.
        public static let archived = Kind(rawValue: "thread.archived")
        /// The thread was put back into the list.
        public static let unarchived = Kind(rawValue: "thread.unarchived")
        /// The thread began as a copy of another one. This is always its first record.
        public static let forked = Kind(rawValue: "thread.forked")
    }

    /// The record's position in the thread, counted from 0 without gaps.
    public let position: Int
    /// The kind of the record.
    public let kind: Kind
    /// The date, rounded to milliseconds.
    public let date: Date
    /// The other data, whose form depends on the kind.
    public let body: ChappieJSONValue

    /// Creates a record with the given properties. The date is rounded to milliseconds.
    public init(position: Int, kind: Kind, date: Date, body: ChappieJSONValue = [:]) {
        self.position = position
        self.kind = kind
        self.date = Date(timeIntervalSince1970: (date.timeIntervalSince1970 * 1000).rounded() / 1000)
        self.body = body
    }

    /// The model that the conversation keeps after a finished turn, or `nil` if the model was guessed for that turn.
    var keptModel: String? { body["guessed"]?.bool == true ? nil : body["model"]?.string }

    /// The id of the turn that the record is about.
    public var turnID: String? { body["turn"]?.string }

    /// The positions of the earlier records that no longer count because of this record. A store with its own index for
    /// searches removes their words when it adds this record.
    public var positionsTakenBack: [Int] {
        guard kind == .turnTakenBack else { return [] }
        return (body["records"]?.array ?? []).compactMap(\.int).filter { (0..<position).contains($0) }
    }

    /// The text that a search reads: text of the user and of the model, arguments and outputs of tools, summaries of
    /// reasoning and of the conversation, and titles. `nil` for other records.
    public var searchableText: String? {
        let texts: [String] =
            switch kind {
            case .renamed: [body["title"]?.string].compactMap(\.self)
            case .turnStarted: (body["messages"]?.array ?? []).flatMap(Self.texts)
            case .turnSteered: [body["message"]].compactMap(\.self).flatMap(Self.texts)
            // The user's messages have separate records.
            case .toolsCalled, .turnFinished, .turnFailed, .turnInterrupted:
                (body["items"]?.array ?? []).filter { $0["role"]?.string != "user" }.flatMap(Self.texts)
            case .compacted: [body["context"]?["summary"]?.string].compactMap(\.self)
            default: []
            }
        return texts.isEmpty ? nil : texts.joined(separator: "\n")
    }

    /// The user's question. A record names it if the program made a longer message of it. Otherwise it is the last text
    /// of the first message, because documents precede the question.
    fileprivate var question: String {
        if let question = body["question"]?.string { return question }
        let messages = body["messages"]?.array ?? []
        let asked = messages.first { $0["role"]?.string == "user" } ?? messages.first
        let texts = (asked?["content"]?.array ?? []).compactMap { $0["text"]?.string }
        return texts.last { $0.contains { !$0.isWhitespace } } ?? ""
    }

    /// Returns the texts of an item, which is a message, a tool call, its output, or reasoning.
    private static func texts(of item: ChappieJSON) -> [String] {
        let parts = ["content", "summary", "output"].flatMap { item[$0]?.array ?? [] }
        return ["name", "arguments", "input", "output"].compactMap { item[$0]?.string }
            + parts.compactMap { $0["text"]?.string }
    }
}

extension [ChappieThreadRecord] {
    /// The positions of the records of turns that were taken back. A search does not find these records.
    @_spi(ChappieInternals) public var positionsTakenBack: Set<Int> { Set(flatMap(\.positionsTakenBack)) }

    /// The records at positions without gaps, as a thread requires.
    @_spi(ChappieInternals) public var renumbered: [ChappieThreadRecord] {
        let new = Dictionary(zip(map(\.position), 0...)) { first, _ in first }
        return enumerated().map { position, record in
            var body = record.body
            if record.kind == .turnTakenBack, var changed = body.object {
                let positions = record.positionsTakenBack.compactMap { new[$0] }
                changed["records"] = .array(positions.map { .integer($0) })
                body = .object(changed)
            }
            return ChappieThreadRecord(position: position, kind: record.kind, date: record.date, body: body)
        }
    }
}

extension ChappieThreadRecord {
    /// Returns the body as a store keeps it.
    ///
    /// - Throws: `unavailable` for a body that is nested too deeply to be read again, including as a part of an
    ///   exported thread.
    @_spi(ChappieInternals) public func storedBody() throws(ChappieThreadStoreError) -> [UInt8] {
        let bytes = body.serializedBytes()
        var (depth, isText, isEscaped) = (0, false, false)
        for byte in bytes {
            switch Unicode.Scalar(byte) {
            case _ where isEscaped: isEscaped = false
            case "\\": isEscaped = true
            case "\"": isText.toggle()
            case "[" where !isText, "{" where !isText: depth += 1
            case "]" where !isText, "}" where !isText: depth -= 1
            default: continue
            }
            guard depth <= 250 else { throw .unavailable("a record is nested too deep") }
        }
        return bytes
    }
}

extension ChappieThreadRecord: Codable {
    private enum CodingKeys: CodingKey { case position, kind, date, body }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let text = try container.decode(String.self, forKey: .body)
        guard let body = try? ChappieJSON(parsing: text) else {
            throw DecodingError.dataCorruptedError(
                forKey: .body, in: container, debugDescription: "The body is not JSON text.")
        }
        self.init(
            position: try container.decode(Int.self, forKey: .position),
            kind: try container.decode(Kind.self, forKey: .kind),
            date: try container.decode(Date.self, forKey: .date), body: body)
    }

    /// Encodes the body as its JSON text, because encoders don't keep the order of members, and prompts depend on it.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(position, forKey: .position)
        try container.encode(kind, forKey: .kind)
        try container.encode(date, forKey: .date)
        try container.encode(body.serialized(), forKey: .body)
    }
}

/// A thread's summary for a list. It depends only on the records.
public struct ChappieThreadSummary: Sendable, Hashable, Codable, Identifiable {
    /// The thread's id: letters, digits and hyphens.
    public let id: String
    /// The title that the user gave, or `nil` if there is none.
    public var title: String?
    /// The beginning of the first question, as one line of at most 100 characters. Empty before the first turn.
    public var preview: String
    /// The model of the last answer. Before the first answer it is the model that was asked.
    public var model: String
    /// The time when the thread began.
    public var createdAt: Date
    /// The time when its last record was written.
    public var updatedAt: Date
    /// Whether lists leave the thread out.
    public var isArchived: Bool
    /// The number of turns that have begun, without those that were taken back.
    public var turnCount: Int
    /// The number of records, which is the position of the next one.
    public var recordCount: Int

    /// Creates a summary with the given properties.
    public init(
        id: String, title: String? = nil, preview: String = "", model: String = "", createdAt: Date,
        updatedAt: Date? = nil, isArchived: Bool = false, turnCount: Int = 0, recordCount: Int = 0
    ) {
        self.id = id
        self.title = title
        self.preview = preview
        self.model = model
        self.createdAt = createdAt
        self.updatedAt = updatedAt ?? createdAt
        self.isArchived = isArchived
        self.turnCount = turnCount
        self.recordCount = recordCount
    }

    /// Creates the summary of a thread of these records, or returns `nil` if there are none.
    public init?(id: String, records: [ChappieThreadRecord]) {
        guard let first = records.first else { return nil }
        self.init(id: id, createdAt: first.date)
        for record in records { add(record) }
    }

    /// The thread's name, which is its title or otherwise the beginning of its first message.
    public var name: String { title ?? (preview.isEmpty ? "New thread" : preview) }

    /// Updates the summary with a record that was added.
    public mutating func add(_ record: ChappieThreadRecord) {
        if record.position == 0 { createdAt = record.date }
        // The latest record determines the date, even if the clock went back. A clock that was ahead must not date the
        // thread permanently.
        updatedAt = record.date
        recordCount = record.position + 1
        switch record.kind {
        case .turnStarted:
            turnCount += 1
            if self.model.isEmpty, let model = record.body["model"]?.string { self.model = model }
            if preview.isEmpty { preview = Self.line(record.question) }
        // If a turn named no model, or its model was no longer available, its last record names the model that
        // answered.
        case .turnFinished: if let model = record.body["model"]?.string { self.model = model }
        case .turnTakenBack:
            turnCount = max(turnCount - 1, 0)
            if turnCount == 0 { preview = "" }
            if let model = record.body["model"]?.string { self.model = model }
        case .renamed: title = record.body["title"]?.string.flatMap { $0.isEmpty ? nil : $0 }
        case .archived: isArchived = true
        case .unarchived: isArchived = false
        default: break
        }
    }

    private static func line(_ text: String) -> String {
        let words = text.unicodeScalars.prefix(1000).split { $0.properties.isWhitespace }
        let line = words.map { String($0) }.joined(separator: " ")
        return line.count <= 100 ? line : line.prefix(99) + "…"
    }
}
