import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    /// The events of an answer as the framework's events, and the round that they make.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    struct EventOutput {
        typealias Event = LanguageModelExecutorGenerationChannel.Event

        /// The entries so far, and after the end the items.
        private(set) var round = SentRound()
        private let strict: ChappieStrictSchema?
        private let ignored: [String]
        private var wrapped: WrappedValue?
        /// The text as the service sent it.
        private var raw = ""
        private let response = UUID().uuidString
        private let calls = UUID().uuidString
        private var reasoning = UUID().uuidString
        private var commentary = UUID().uuidString
        /// The entries with reasoning that the service has encrypted.
        private var signed: [String] = []

        /// Creates the output of one request.
        ///
        /// - Parameters:
        ///   - strict: the form of the answer, or `nil` for text.
        ///   - ignored: the names of the options that were not sent.
        init(strict: ChappieStrictSchema?, ignored: [String]) {
            self.strict = strict
            self.ignored = ignored
            wrapped = strict?.isWrapped == true ? WrappedValue() : nil
        }

        /// Returns the framework's events for an event of the answer.
        ///
        /// - Throws: `LanguageModelError` for a refusal, or `ChappieClientError.responseFailed` for an answer that ended
        ///   early.
        mutating func events(for event: ChappieStreamEvent) throws -> [Event] {
            switch event {
            case .textDelta(let piece): text(piece)
            case .reasoningSummaryDelta(let piece): reasoningText(piece, in: reasoning)
            case .commentaryDelta(let piece): reasoningText(piece, in: commentary)
            case .toolArgumentsDelta(let delta):
                call(delta.callID, delta.name, delta.delta, ["namespace": delta.namespace.map { .string($0) } ?? .null])
            case .item(let item): events(for: item)
            case .completed(let response): try end(response)
            default: []
            }
        }

        // MARK: Pieces

        private mutating func text(_ piece: String) -> [Event] {
            raw += piece
            let shown = wrapped?.take(piece) ?? piece
            guard !shown.isEmpty else { return [] }
            append(shown, to: response)
            return [.response(entryID: response, action: .appendText(shown, tokenCount: 1))]
        }

        private mutating func reasoningText(_ piece: String, in entry: String) -> [Event] {
            append(piece, to: entry)
            return [.reasoning(entryID: entry, action: .appendText(piece, tokenCount: 1))]
        }

        private mutating func append(_ piece: String, to entry: String) {
            let index = index(of: entry, .text(""))
            round.entries[index].content.append(piece)
        }

        private mutating func index(of entry: String, _ content: SentRound.Content) -> Int {
            if let index = round.entries.firstIndex(where: { $0.id == entry }) { return index }
            round.entries.append(SentRound.Entry(id: entry, content: content))
            return round.entries.count - 1
        }

        /// Appends a piece of a call's arguments. The call's note comes before the first one.
        private mutating func call(_ id: String, _ name: String, _ piece: String, _ note: ChappieJSONObject) -> [Event]
        {
            let index = index(of: calls, .calls([]))
            let isNew = round.entries[index].content.append(piece, toCall: id, name)
            let events = isNew ? [self.note(id, name, note)] : []
            return events + [
                .toolCalls(
                    entryID: calls,
                    action: .toolCall(id: id, name: name, action: .appendArguments(piece, tokenCount: 1)))
            ]
        }

        private func note(_ id: String, _ name: String, _ note: ChappieJSONObject) -> Event {
            let members = ChappieJSONObject(members: note.members.filter { !$0.value.isNull })
            let note = [EntryMetadata.call: ChappieJSON.object(members).serialized()]
            return .toolCalls(
                entryID: calls, action: .toolCall(id: id, name: name, action: .updateMetadata(note)))
        }

        // MARK: Items

        private mutating func events(for item: ChappieOutputItem) -> [Event] {
            if item.type == "reasoning" {
                let entry = reasoning
                reasoning = UUID().uuidString
                signed.append(entry)
                _ = index(of: entry, .text(""))
                let signature = Data(item.json.serializedBytes())
                return [.reasoning(entryID: entry, action: .updateSignature(signature, tokenCount: 0))]
            }
            if item.phase == .commentary {
                let entry = commentary
                commentary = UUID().uuidString
                guard round.entries.contains(where: { $0.id == entry }) else { return [] }
                let note = Self.note(of: [item])
                return [.reasoning(entryID: entry, action: .updateMetadata([EntryMetadata.messages: note]))]
            }
            guard let call = ChappieToolCall(item) else { return [] }
            let note: ChappieJSONObject = [
                "id": item.json["id"] ?? .null, "namespace": item.json["namespace"] ?? .null,
            ]
            let isKnown = round.entries.contains { entry in
                if case .calls(let calls) = entry.content { calls.contains { $0.callID == call.callID } } else { false }
            }
            return isKnown
                ? [self.note(call.callID, call.name, note)] : self.call(call.callID, call.name, call.arguments, note)
        }

        /// Returns the note about messages that another process needs to send them back.
        private static func note(of messages: [ChappieOutputItem]) -> String {
            let notes = messages.map { item -> ChappieJSON in
                var note: ChappieJSONObject = ["length": .integer(item.text.utf8.count)]
                note["id"] = item.json["id"]
                note["phase"] = item.json["phase"]
                return .object(note)
            }
            return ChappieJSON.array(notes).serialized()
        }

        // MARK: End

        private mutating func end(_ response: ChappieResponse) throws -> [Event] {
            let hasCalls = response.items.contains(where: \.isToolCall)
            if !response.refusals.isEmpty, response.outputText.isEmpty {
                let sentence = response.refusals.joined(separator: "\n")
                throw LanguageModelError.refusal(
                    .init(explanation: sentence, debugDescription: "The model refused: \(sentence)"))
            }
            if response.incompleteReason == "content_filter" {
                throw LanguageModelError.guardrailViolation(
                    .init(debugDescription: "The service's content filter ended the answer."))
            }
            guard response.status == .completed else { throw ChappieClientError.responseFailed(response) }
            var events: [Event] = []
            if raw.isEmpty, !hasCalls, !response.outputText.isEmpty { events += text(response.outputText) }
            events += plainAnswer()
            if let model = response.model {
                events += signed.map { entry in
                    .reasoning(entryID: entry, action: .updateMetadata([EntryMetadata.model: model]))
                }
            }
            let hasText = round.entries.contains { $0.id == self.response }
            if hasText {
                let messages = response.items.filter { $0.type == "message" && $0.phase != .commentary }
                var metadata = [
                    EntryMetadata.messages: Self.note(of: messages), EntryMetadata.response: response.id,
                ]
                metadata[EntryMetadata.model] = response.model
                if !ignored.isEmpty { metadata[EntryMetadata.ignored] = ignored.joined(separator: ", ") }
                events.append(.response(entryID: self.response, action: .updateMetadata(metadata)))
            }
            if let usage = response.usage { events.append(self.usage(usage, isOfCalls: hasCalls && !hasText)) }
            var kept = ChappieExchange(input: [])
            kept.append(response)
            round.items = kept.input
            round.byteCount = kept.input.reduce(0) { $0 + $1.serializedBytes().count }
            return events
        }

        /// Returns the event that replaces an answer in the strict form, which has a null for each missing member.
        private mutating func plainAnswer() -> [Event] {
            guard let strict, strict.changesAnswers, let given = try? ChappieJSON(parsing: raw) else { return [] }
            let answer = strict.answer(given)
            let index = index(of: response, .text(""))
            if case .text(let text) = round.entries[index].content, (try? ChappieJSON(parsing: text)) == answer {
                return []
            }
            let text = answer.serialized()
            round.entries[index].content = .text(text)
            return [.response(entryID: response, action: .replaceTextSegment(text, tokenCount: 1))]
        }

        private func usage(_ usage: ChappieTokenUsage, isOfCalls: Bool) -> Event {
            let input = LanguageModelExecutorGenerationChannel.Usage.Input(
                totalTokenCount: usage.inputTokens, cachedTokenCount: usage.cachedInputTokens)
            let output = LanguageModelExecutorGenerationChannel.Usage.Output(
                totalTokenCount: usage.outputTokens, reasoningTokenCount: usage.reasoningTokens)
            return isOfCalls
                ? .toolCalls(entryID: calls, action: .updateUsage(input: input, output: output))
                : .response(entryID: response, action: .updateUsage(input: input, output: output))
        }
    }
#endif
