import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    /// The items of the Responses API that a transcript consists of.
    ///
    /// The transcript may have been cut or edited since the last request. The service refuses an output without its call, a
    /// call without its output, and reasoning without the item that it led to. Such items are completed or left out.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    struct TranscriptInput {
        /// The text of the instructions at the beginning, or `nil`.
        private(set) var instructions: String?
        private(set) var items: [ChappieJSON] = []

        /// Creates the input of a request.
        ///
        /// - Parameters:
        ///   - model: the slug of the request's model, if it is known. Only it can read its reasoning.
        ///   - round: returns the round that began with an entry, if its items are known.
        /// - Throws: `LanguageModelError.unsupportedTranscriptContent` for an entry that can't be sent.
        init(_ entries: [Transcript.Entry], model: String?, _ round: (String) -> SentRound?) throws {
            var position = 0
            while position < entries.count {
                if let round = round(entries[position].id), round.begins(entries[position...]) {
                    items += round.items
                    position += round.entries.count
                } else {
                    try append(entries[position], isFirst: position == 0, model: model)
                    position += 1
                }
            }
            repair()
        }

        private mutating func append(_ entry: Transcript.Entry, isFirst: Bool, model: String?) throws {
            switch entry {
            case .instructions(let entry):
                let text = entry.segments.text
                if isFirst {
                    instructions = text.isEmpty ? nil : text
                } else if !text.isEmpty {
                    items.append(ChappieInputMessage.developer(text).inputItem)
                }
            case .prompt(let prompt):
                let parts = try Self.parts(of: prompt.segments, in: entry)
                items.append(ChappieInputMessage(role: .user, parts: parts).inputItem)
            case .toolCalls(let calls): items += calls.map(Self.item)
            case .toolOutput(let output): items.append(try Self.item(output, entry))
            case .response(let response): items += Self.messages(response.segments.text, response.metadata)
            default:
                // Later systems have other kinds of entries, which have no form here.
                guard case .reasoning(let reasoning) = entry else { break }
                if reasoning.metadata[EntryMetadata.messages] != nil {
                    items += Self.messages(reasoning.segments.text, reasoning.metadata)
                } else if let item = Self.item(reasoning, model: model) {
                    items.append(item)
                }
            }
        }

        // MARK: Prompts

        private static func parts(
            of segments: [Transcript.Segment], in entry: Transcript.Entry
        ) throws -> [ChappieInputMessage.Part] {
            try segments.flatMap { segment -> [ChappieInputMessage.Part] in
                if let text = segment.text { return [.text(text)] }
                guard case .attachment(let attachment) = segment, case .image(let image) = attachment.content else {
                    throw unsupported(entry, "The transcript has content of a kind that can't be sent.")
                }
                // Models name an image by its label.
                let label = attachment.label.map { [ChappieInputMessage.Part.text("[\($0)]")] } ?? []
                do throws(ChappieAttachmentError) {
                    return label + [.image(try ChappieImage(image))]
                } catch {
                    throw unsupported(entry, error.explanation)
                }
            }
        }

        private static func unsupported(_ entry: Transcript.Entry, _ sentence: String) -> LanguageModelError {
            .unsupportedTranscriptContent(.init(unsupportedContent: [entry], debugDescription: sentence))
        }

        // MARK: Answers

        /// Returns the messages of an entry. Without the note of the messages, or after a change of the text, it is one
        /// message.
        private static func messages(_ text: String, _ metadata: [String: GeneratedContent]) -> [ChappieJSON] {
            let note = metadata[EntryMetadata.messages].flatMap { try? $0.value(String.self) }
            let notes = note.flatMap { try? ChappieJSON(parsing: $0) }?.array ?? []
            // The transcript may come from anywhere.
            let lengths = notes.map { min(max($0["length"]?.int ?? 0, 0), text.utf8.count + 1) }
            guard lengths.reduce(0, +) == text.utf8.count, !notes.isEmpty else {
                return text.isEmpty ? [] : [ChappieInputMessage.assistant(text).inputItem]
            }
            var rest = text.utf8[...]
            return zip(notes, lengths).map { note, length in
                let own = String(decoding: rest.prefix(length), as: UTF8.self)
                rest = rest.dropFirst(length)
                var item = ChappieInputMessage.assistant(own).inputItem.object ?? [:]
                item["id"] = note["id"]
                item["phase"] = note["phase"]
                return .object(item)
            }
        }

        /// Returns the item that the service sent as reasoning, or `nil` if another provider or model wrote it.
        private static func item(_ reasoning: Transcript.Reasoning, model: String?) -> ChappieJSON? {
            let writer = reasoning.metadata[EntryMetadata.model].flatMap { try? $0.value(String.self) }
            if let writer, let model, writer != model { return nil }
            let item = reasoning.signature.flatMap { try? ChappieJSON(parsing: Array($0)) }
            return item?["type"] == "reasoning" ? item : nil
        }

        // MARK: Calls

        private static func item(_ call: Transcript.ToolCall) -> ChappieJSON {
            var item: ChappieJSONObject = [
                "type": "function_call", "call_id": .string(callID(call.id)), "name": .string(call.toolName),
                "arguments": .string(call.arguments.jsonString),
            ]
            let text = call.metadata[EntryMetadata.call].flatMap { try? $0.value(String.self) }
            let note = text.flatMap { try? ChappieJSON(parsing: $0) }
            item["id"] = note?["id"]
            item["namespace"] = note?["namespace"]
            return .object(item)
        }

        private static func item(_ output: Transcript.ToolOutput, _ entry: Transcript.Entry) throws -> ChappieJSON {
            let texts = output.segments.map(\.text)
            let content: ChappieJSON =
                if texts.contains(nil) {
                    ChappieInputMessage(role: .user, parts: try parts(of: output.segments, in: entry)).inputItem[
                        "content"]
                        ?? []
                } else {
                    .string(texts.compactMap(\.self).joined(separator: "\n"))
                }
            return ["type": "function_call_output", "call_id": .string(callID(output.id)), "output": content]
        }

        /// Returns an id that the service takes. Another provider's may be too long.
        private static func callID(_ id: String) -> String {
            ToolName.isValid(id) ? id : "call_" + FNV1a.hexadecimal([id])
        }

        // MARK: Repairs

        private mutating func repair() {
            let outputs = Set(items.filter { $0.isOutput }.compactMap { $0["call_id"]?.string })
            var calls: Set<String> = []
            var repaired: [ChappieJSON] = []
            for (index, item) in items.enumerated() {
                let id = item["call_id"]?.string ?? ""
                if item.isOutput, !calls.contains(id) { continue }
                if item["type"] == "reasoning" {
                    let next = items[index...].first { $0["type"] != "reasoning" }
                    guard let next, !next.isOutput, next["role"] == nil || next["role"] == "assistant" else { continue }
                }
                repaired.append(item)
                guard ChappieOutputItem(item).isToolCall else { continue }
                calls.insert(id)
                if !outputs.contains(id) {
                    repaired.append([
                        "type": "function_call_output", "call_id": .string(id), "output": "The tool was not run.",
                    ])
                }
            }
            items = repaired
        }
    }

    extension ChappieJSON {
        /// Whether the item is the output of a function.
        fileprivate var isOutput: Bool { self["type"] == "function_call_output" }
    }

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension Transcript.Segment {
        /// The text of the segment, which is JSON for a structure, or `nil` for an attachment.
        var text: String? {
            switch self {
            case .text(let segment): segment.content
            case .structure(let segment): segment.content.jsonString
            default: nil
            }
        }
    }

    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    extension [Transcript.Segment] {
        /// The text of the segments.
        var text: String { compactMap(\.text).joined() }
    }

    /// The names of what the metadata of entries contains, so that another process can continue a transcript.
    enum EntryMetadata {
        /// The id, the phase and the length in UTF-8 of each message of an entry, as JSON.
        static let messages = "chappie.items"
        /// The model that has answered.
        static let model = "chappie.model"
        /// The id of the response.
        static let response = "chappie.response"
        /// The options that were not sent.
        static let ignored = "chappie.ignored"
        /// The members of a call that an entry does not have, as JSON.
        static let call = "chappie.call"
    }
#endif
