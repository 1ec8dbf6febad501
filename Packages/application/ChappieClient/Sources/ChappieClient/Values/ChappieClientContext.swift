@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore

/// A conversation as a value. Store it, and continue it later with ``ChappieClient/resumeContext(_:)``.
///
/// Items of the backend are kept unchanged, including unknown ones, and their bytes survive encoding, so that the
/// prompt cache of a resumed conversation is still hit. Reasoning and compactions are encrypted for one account. In
/// another account they are left out.
public struct ChappieClientContext: Sendable, Hashable, Codable {
    /// The id of the session and of the prompt cache at the backend.
    public var sessionID: String
    /// The id of the thread at the backend. It equals ``sessionID`` here.
    public var threadID: String
    /// The model of the next turn. It is empty in a conversation that has none yet, which uses the account's best
    /// model.
    public var model: String
    /// The summary of the earlier conversation after a compaction as text. A compaction by the backend is encrypted.
    public var compactedSummary: String?
    /// The time at which the conversation began.
    public var createdAt: Date
    /// The time at which its last turn ended.
    public var updatedAt: Date
    /// The size that the backend counted after the last turn, if it did.
    public var measuredTokens: Int?
    /// The account that the conversation belongs to, or `nil` before its first turn.
    public var accountID: String?
    /// The user that the conversation belongs to, or `nil` before its first turn, or if the user is not known.
    public var userID: String?
    /// The model whose reasoning is among the items.
    @_spi(ChappieInternals) public internal(set) var reasoningModel: String?
    /// The family of models that can read the compaction among the items, if it is known.
    @_spi(ChappieInternals) public internal(set) var compactionHash: String?
    /// The number of compactions of the conversation.
    @_spi(ChappieInternals) public var window: Int?
    private var itemText: ItemText

    /// Creates a conversation with these messages, to show or to continue.
    public init(
        sessionID: String, threadID: String? = nil, model: String = "",
        messages: [ChappieInputMessage] = [], compactedSummary: String? = nil, createdAt: Date, updatedAt: Date? = nil
    ) {
        self.init(
            sessionID: sessionID, model: model, items: messages.map(\.inputItem), compactedSummary: compactedSummary,
            createdAt: createdAt, updatedAt: updatedAt ?? createdAt)
        self.threadID = threadID ?? sessionID
    }

    /// Creates a conversation with items in the backend's form.
    @_spi(ChappieInternals) public init(
        sessionID: String, model: String, items: [ChappieJSON], compactedSummary: String?, createdAt: Date,
        updatedAt: Date, measuredTokens: Int? = nil, accountID: String? = nil, userID: String? = nil,
        reasoningModel: String? = nil, compactionHash: String? = nil
    ) {
        self.sessionID = sessionID
        threadID = sessionID
        self.model = model
        self.compactedSummary = compactedSummary
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.measuredTokens = measuredTokens
        self.accountID = accountID
        self.userID = userID
        self.reasoningModel = reasoningModel
        self.compactionHash = compactionHash
        itemText = ItemText(items)
    }

    /// All items so far in the backend's form: messages, reasoning, tool calls and their results.
    public var items: [ChappieJSONValue] { itemText.items }

    /// The messages among ``items``.
    public var messages: [ChappieInputMessage] { items.compactMap(ChappieInputMessage.init(item:)) }

    /// The number of messages.
    public var messageCount: Int { items.count { $0["type"]?.string == "message" } }

    /// The size in tokens, as counted by the backend, or else estimated at four bytes of text per token.
    public var estimatedTokens: Int { measuredTokens ?? Self.estimatedTokens(of: items) }

    /// Returns whether the conversation belongs to this account, or to none yet.
    @_spi(ChappieInternals) public func belongs(to account: ChappieAccountInfo) -> Bool {
        guard let accountID else { return true }
        guard let userID else { return accountID == account.ownerID }
        // A conversation of an account without an id has the user's id in its place.
        return ChappieAccountInfo(userID: userID, accountID: accountID == userID ? nil : accountID)
            .isSameAccount(as: account)
    }

    /// Returns whether an item is encrypted for one account and model.
    @_spi(ChappieInternals) public static func isEncrypted(_ item: ChappieJSON) -> Bool {
        ["reasoning", "compaction", "context_compaction"].contains(item["type"]?.string)
    }

    /// Returns the items without the encrypted ones, and without ids, so that the service finds no reference to its own
    /// data in them.
    @_spi(ChappieInternals) public static func withoutReasoning(
        _ items: [ChappieJSON], keepsCompactions: Bool = false
    ) -> [ChappieJSON] {
        items.filter { !isEncrypted($0) || keepsCompactions && isCompaction($0) }.map { item in
            guard var object = item.object, object["id"] != nil, !isCompaction(item) else { return item }
            object["id"] = nil
            return .object(object)
        }
    }

    /// Returns whether an item is an encrypted compaction of the conversation before it.
    static func isCompaction(_ item: ChappieJSON) -> Bool {
        ["compaction", "context_compaction"].contains(item["type"]?.string)
    }

    /// Returns an estimate of four bytes of text per token. An image counts as a thousand tokens, and encrypted text as
    /// a quarter of its length.
    static func estimatedTokens(of items: [ChappieJSON]) -> Int {
        func size(_ json: ChappieJSON) -> Int {
            switch json {
            case .string(let text): text.hasPrefix("data:") ? 4000 : text.utf8.count
            case .array(let elements): elements.reduce(0) { $0 + size($1) }
            case .object(let object): object.members.reduce(0) { $0 + size($1.value) }
            default: 2
            }
        }
        return items.reduce(0) { $0 + size($1) / 4 + 4 }
    }
}

/// The items of a conversation. They are encoded as one JSON text, because the order of members is part of a cached
/// prompt.
struct ItemText: Sendable, Hashable, Codable {
    let items: [ChappieJSON]

    init(_ items: [ChappieJSON]) { self.items = items }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let items = try? ChappieJSON(parsing: container.decode(String.self)).array else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "The items are no JSON array.")
        }
        self.items = items
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(ChappieJSON.array(items).serialized())
    }
}

/// The share of a model's context window that a conversation takes.
public struct ChappieContextSize: Sendable, Hashable, Codable {
    /// The conversation's size.
    public var estimatedTokens: Int
    /// The window's size, in tokens.
    public var contextWindow: Int

    /// Creates a size with the given properties. Negative values become 0.
    public init(estimatedTokens: Int, contextWindow: Int) {
        self.estimatedTokens = max(estimatedTokens, 0)
        self.contextWindow = max(contextWindow, 0)
    }

    /// The free part of the window, never below 0.
    public var remainingTokens: Int { max(contextWindow - estimatedTokens, 0) }
    /// The used part of the window in percent, from 0 to 100. It is 100 for a window of 0 tokens.
    public var usedPercent: Double {
        contextWindow == 0 ? 100 : min(Double(estimatedTokens) / Double(contextWindow) * 100, 100)
    }
}

extension ChappieInputMessage {
    /// Creates a message from an item of the conversation, or returns `nil` for other items.
    @_spi(ChappieInternals) public init?(item: ChappieJSON) {
        guard item["type"]?.string == "message", let role = item["role"]?.string else { return nil }
        let parts = (item["content"]?.array ?? []).map { part -> Part in
            // Annotations and similar values are in the item. A reader of messages needs only the text.
            if part["type"]?.string == "output_text", let text = part["text"]?.string { return .text(text) }
            return Part(part)
        }
        self.init(role: Role(rawValue: role), parts: parts)
    }
}
