public import ChappieAuth
public import ChappieCore

/// A store that removes private text from every record before another store keeps it.
///
/// ```swift
/// let store = ChappieRedactingThreadStore(wrapping: ChappieFileThreadStore()) { text in
///     text.replacing(/[\w.]+@[\w.]+/, with: "‹mail address›")
/// }
/// ```
/// Redacted text is lost. A thread that is opened again continues without it.
public struct ChappieRedactingThreadStore: ChappieThreadStore {
    private let store: any ChappieThreadStore
    private let redact: @Sendable (ChappieThreadRecord) -> ChappieThreadRecord

    /// Creates a store that gives every text of a record to `redact`: messages of the user and the model, arguments and
    /// outputs of tools, errors, summaries and titles. Terms of the protocol stay: ids, types, roles, names of tools
    /// and encrypted items.
    public init(wrapping store: any ChappieThreadStore, redact: @escaping @Sendable (String) -> String) {
        self.store = store
        self.redact = { $0.mappingTexts(redact) }
    }

    /// Creates a store that gives every record to `redact`, which may change only its body.
    @_disfavoredOverload
    public init(
        wrapping store: any ChappieThreadStore,
        redact: @escaping @Sendable (ChappieThreadRecord) -> ChappieThreadRecord
    ) {
        self.store = store
        self.redact = { record in
            ChappieThreadRecord(
                position: record.position, kind: record.kind, date: record.date, body: redact(record).body)
        }
    }

    public var kind: ChappieThreadStoreKind { store.kind }

    public func placed(for owner: CredentialSlot) -> any ChappieThreadStore {
        Self(wrapping: store.placed(for: owner), redact: redact)
    }

    public func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        let redacted = records.map(redact)
        // A store searches everywhere for a thread that it doesn't find at once.
        let known = position == 0 ? nil : try await store.summary(of: thread.id)
        var summary = known ?? ChappieThreadSummary(id: thread.id, createdAt: thread.createdAt)
        for record in redacted { summary.add(record) }
        try await store.append(redacted, to: summary, at: position)
    }

    public func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError) {
        let redacted = records.map(redact)
        let summary = ChappieThreadSummary(id: thread.id, records: redacted) ?? thread
        try await store.replace(redacted, of: summary, expecting: count)
    }

    public func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] {
        try await store.summaries()
    }
    public func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        try await store.records(of: thread, from: position)
    }
    public func delete(_ thread: String) async throws(ChappieThreadStoreError) { try await store.delete(thread) }
    public func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await store.summary(of: thread)
    }
    public func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        try await store.search(query)
    }
    public func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage { try await store.usage() }
}

extension ChappieThreadRecord {
    /// The members whose values are terms of the protocol. Changing them would break the thread.
    private static let protocolMembers: Set<String> = [
        "turn", "id", "callID", "call_id", "type", "role", "name", "namespace", "model", "status", "session", "account",
        "accountUser", "encrypted_content", "reasoningModel", "outcome", "answeredBy", "replaces",
    ]

    fileprivate func mappingTexts(_ change: (String) -> String) -> Self {
        func map(_ json: ChappieJSON) -> ChappieJSON {
            switch json {
            case .string(let text): .string(change(text))
            case .array(let elements): .array(elements.map(map))
            case .object(let object):
                .object(
                    ChappieJSONObject(
                        members: object.members.map { member in
                            Self.protocolMembers.contains(member.name)
                                ? member : .init(name: member.name, value: map(member.value))
                        }))
            default: json
            }
        }
        return Self(position: position, kind: kind, date: date, body: map(body))
    }
}
