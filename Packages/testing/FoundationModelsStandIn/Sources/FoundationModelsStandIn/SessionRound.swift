import ChappieCore
import Synchronization

/// The executors, one for each configuration, as there.
enum Executors {
    /// A configuration. `AnyHashable` hides that its protocol requires Sendable, and both properties are constants.
    private struct Key: Hashable, @unchecked Sendable {
        let type: ObjectIdentifier
        let configuration: AnyHashable
    }
    private static let cache = Mutex<[Key: any LanguageModelExecutor]>([:])

    static func executor<Model: LanguageModel>(of model: Model) throws -> Model.Executor {
        let configuration = model.executorConfiguration
        let key = Key(
            type: ObjectIdentifier(Model.Executor.self), configuration: AnyHashable(configuration))
        return try cache.withLock { cache in
            if let known = cache[key] as? Model.Executor { return known }
            let new = try Model.Executor(configuration: configuration)
            cache[key] = new
            return new
        }
    }
}

/// The entries of one call of the executor, in the order of their first events.
struct Round {
    private struct Open {
        var kind: LanguageModelExecutorGenerationChannel.Kind
        var id: String
        var segments: [(id: String?, text: String)] = []
        var attachments: [Transcript.AttachmentSegment] = []
        var metadata: [String: GeneratedContent] = [:]
        var signature: Data?
        var usage: LanguageModelExecutorGenerationChannel.Usage?
        var calls: [(id: String, name: String, arguments: String, metadata: [String: GeneratedContent])] = []
        var text: String { segments.map(\.text).joined() }
    }
    let schemaName: String?
    private var open: [Open] = []
    init(schemaName: String?) { self.schemaName = schemaName }

    /// The text of the last response entry.
    var text: String { open.last { $0.kind == .response }?.text ?? "" }
    var usages: [LanguageModelExecutorGenerationChannel.Usage] { open.compactMap(\.usage) }
    private(set) var calls: Transcript.ToolCalls?

    mutating func take(_ event: LanguageModelExecutorGenerationChannel.Event) {
        let index: Int
        if let known = open.lastIndex(where: { $0.kind == event.kind && $0.id == event.entryID }) {
            index = known
        } else if event.entryID == nil, let last = open.indices.last, open[last].kind == event.kind {
            index = last
        } else {
            open.append(Open(kind: event.kind, id: event.entryID ?? UUID().uuidString))
            index = open.count - 1
        }
        apply(event.edit, to: &open[index])
    }

    private func apply(_ edit: LanguageModelExecutorGenerationChannel.Edit, to entry: inout Open) {
        switch edit {
        case .append(let text, let id, _):
            let place =
                id.flatMap { id in entry.segments.firstIndex { $0.id == id } }
                ?? (id == nil ? entry.segments.indices.last : nil)
            if let place { entry.segments[place].text += text } else { entry.segments.append((id, text)) }
        case .replace(let text, let id, _):
            let place = id.flatMap { id in entry.segments.firstIndex { $0.id == id } } ?? entry.segments.indices.last
            if let place { entry.segments[place].text = text } else { entry.segments.append((id, text)) }
        case .signature(let signature): entry.signature = signature
        case .attach(let segment): entry.attachments.append(segment)
        case .detach(let id): entry.attachments.removeAll { $0.id == id }
        case .metadata(let values): entry.metadata = values
        case .usage(let usage): entry.usage = usage
        case .removeCall(let id): entry.calls.removeAll { $0.id == id }
        case .call(let id, let name, let edit):
            let place = entry.calls.firstIndex { $0.id == id } ?? entry.calls.count
            if place == entry.calls.count { entry.calls.append((id, name, "", [:])) }
            switch edit {
            case .append(let text, _, _): entry.calls[place].arguments += text
            case .metadata(let values): entry.calls[place].metadata = values
            default: break
            }
        }
    }

    mutating func entries() throws -> [Transcript.Entry] {
        var entries: [Transcript.Entry] = []
        for entry in open {
            let texts = entry.segments.filter { !$0.text.isEmpty }
                .map { Transcript.Segment.text(.init(id: $0.id ?? UUID().uuidString, content: $0.text)) }
            switch entry.kind {
            case .reasoning:
                entries.append(
                    .reasoning(
                        .init(id: entry.id, metadata: entry.metadata, segments: texts, signature: entry.signature)))
            case .response:
                let own: [Transcript.Segment] =
                    if let schemaName, let content = try? GeneratedContent(json: entry.text) {
                        [.structure(.init(schemaName: schemaName, content: content))]
                    } else { texts }
                guard !own.isEmpty || !entry.attachments.isEmpty else { continue }
                let segments = own + entry.attachments.map(Transcript.Segment.attachment)
                entries.append(.response(.init(id: entry.id, metadata: entry.metadata, segments: segments)))
            case .toolCalls:
                guard !entry.calls.isEmpty else { continue }
                let made = Transcript.ToolCalls(
                    id: entry.id,
                    try entry.calls.map {
                        Transcript.ToolCall(
                            id: $0.id, metadata: $0.metadata, toolName: $0.name,
                            arguments: try GeneratedContent(json: $0.arguments.isEmpty ? "{}" : $0.arguments))
                    })
                calls = made
                entries.append(.toolCalls(made))
            }
        }
        return entries
    }
}
