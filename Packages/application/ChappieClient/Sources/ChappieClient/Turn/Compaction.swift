@_spi(ChappieInternals) import ChappieCore

/// A way to shorten a long conversation: the backend's own compaction, or a summary as text.
struct Compaction: Sendable {
    let turn: Turn
    /// The items of the conversation, or those of the conversation and the turn so far.
    let items: [ChappieJSON]
    /// The model's window, in tokens.
    let window: Int
    /// Whether the next turn's model can read an encrypted compaction of this model.
    var mayBeEncrypted = true

    static let introduction = "This is a summary of the conversation so far:\n\n"
    /// The window of a model that the list does not know, in tokens. The backend's own fallback has the same window.
    static let usualWindow = 272_000
    /// The maximum size of the user's messages that are kept, in tokens. It is also at most a quarter of the window.
    private static let keptWords = 64_000
    /// The number of times that a summary is requested of a smaller part of the conversation, if the complete one is
    /// too long.
    private static let cuts = 4

    private static let question = """
        Summarise the conversation so far for yourself, so that you can go on without it: what the user wants, what was \
        decided and done, what tools said, names and numbers that matter, and what is still to do. Answer with the \
        summary alone.
        """

    /// A complete compaction.
    struct Outcome: Sendable {
        /// The newest messages of the user and the program, without pictures.
        let words: [ChappieJSON]
        /// The item that replaces everything else.
        let made: ChappieJSON
        /// The summary, if it is text.
        var summary: String?
        /// The number of pictures that are left out of the conversation.
        let pictureCount: Int
        /// The number of messages that the summary does not cover, because it would have been too long.
        var missingMessages = 0

        /// A sentence for the user about the parts that were left out, or `nil` if there are none.
        var leftOut: String? {
            let pictures = pictureCount == 0 ? nil : Pictures.count(pictureCount) + " left out."
            let missing =
                missingMessages == 0
                ? nil
                : "The beginning was too long for the summary, which leaves out \(missingMessages) "
                    + (missingMessages == 1 ? "message." : "messages.")
            let sentences = [pictures, missing].compactMap(\.self)
            return sentences.isEmpty ? nil : sentences.joined(separator: " ")
        }
    }

    /// Compacts the items.
    ///
    /// - Throws: ``ChappieClientError``, ``UnreadableCompaction``, `CancellationError`.
    func run() async throws -> Outcome {
        let pictureCount = items.reduce(0) { $0 + Pictures.count(in: $1) }
        if turn.takesCompaction, mayBeEncrypted {
            do {
                return Outcome(words: words, made: try await compacted(), pictureCount: pictureCount)
            } catch {
                guard Self.mayBeSummarised(error) else { throw error }
            }
        }
        let (summary, missing) = try await summarised()
        // The summary has the rank of a user message, because a tool's output may have influenced it.
        return Outcome(
            words: words, made: ChappieInputMessage.user(Self.introduction + summary).inputItem, summary: summary,
            pictureCount: pictureCount, missingMessages: missing)
    }

    /// Returns the single encrypted item of the backend's own compaction. A conversation that is too large with its
    /// pictures is sent without them.
    private func compacted() async throws -> ChappieJSON {
        do {
            return try await compacted(items)
        } catch  where Self.isTooLong(error) && items.contains(where: Pictures.isIn) {
            return try await compacted(items.map(Pictures.leftOut))
        }
    }

    /// Sends a request whose last item requests the compaction (protocol of the Codex CLI 0.163.0, "v2").
    private func compacted(_ items: [ChappieJSON]) async throws -> ChappieJSON {
        let response = try await turn.answer(
            to: ["type": "compaction_trigger"], after: items, toolChoice: .automatic)
        let made = response.items.filter { $0.type == "compaction" && $0.json["encrypted_content"]?.string != nil }
        guard response.status == .completed, made.count == 1 else { throw ChappieClientError.invalidResponse }
        return made[0].json
    }

    /// The newest messages of the user and the program that fit into the budget. Their pictures are left out, because
    /// the backend limits the bytes of a request as well as its tokens.
    private var words: [ChappieJSON] {
        var left = min(Self.keptWords, window / 4)
        let kept = items.filter(Self.isWord).map(Pictures.leftOut).reversed().filter { item in
            left -= ChappieClientContext.estimatedTokens(of: [item])
            return left >= 0
        }
        return kept.reversed()
    }

    /// Returns whether an item is a message of the user or the program.
    static func isWord(_ item: ChappieJSON) -> Bool {
        item["type"]?.string == "message" && item["role"]?.string != "assistant"
    }

    /// Returns a summary as text, and the number of messages that it does not cover. A conversation that is too long
    /// first loses its pictures, then its older half. If it has only one question, it loses the text of its tools.
    private func summarised() async throws -> (String, missing: Int) {
        var left = items
        var missing = 0
        for attempt in 0...Self.cuts {
            do {
                let response = try await turn.answer(
                    to: ChappieInputMessage.user(Self.question).inputItem, after: left, toolChoice: .none)
                guard response.status == .completed, !response.outputText.isEmpty else {
                    throw ChappieClientError.responseFailed(response)
                }
                return (response.outputText, missing)
            } catch  where Self.isTooLong(error) && attempt < Self.cuts {
                if left.contains(where: Pictures.isIn) {
                    left = left.map(Pictures.leftOut)
                    continue
                }
                // A turn is never split, because a tool's result without its call is refused.
                let middle = left.count / 2
                if let start = left.indices.dropFirst(middle).first(where: { left[$0]["role"]?.string == "user" }),
                    start > 0
                {
                    missing += left[..<start].count { $0["type"] == "message" }
                    left.removeFirst(start)
                    continue
                }
                let cut = left.map(Self.withShortOutput)
                guard cut != left else { throw error }
                left = cut
            }
        }
        throw ChappieClientError.contextWindowExceeded
    }

    /// Returns a tool's result with only the beginning of its text.
    private static func withShortOutput(_ item: ChappieJSON) -> ChappieJSON {
        guard var object = item.object, let output = object["output"]?.string, output.utf8.count > 4000 else {
            return item
        }
        object["output"] = .string(output.prefix(2000) + "\n(The rest is left out.)")
        return .object(object)
    }

    /// Returns whether a request was refused for its length, in tokens or in bytes.
    static func isTooLong(_ error: any Error) -> Bool {
        switch ChappieClientError.wrapping(error) as? ChappieClientError {
        case .contextWindowExceeded, .messageTooLarge, .httpError(413, _): true
        default: false
        }
    }

    /// Returns whether a plain request may succeed after the compaction failed. A limit, a missing sign-in and a lost
    /// network prevent both.
    private static func mayBeSummarised(_ error: any Error) -> Bool {
        if error is UnreadableCompaction { return false }
        return switch ChappieClientError.wrapping(error) as? ChappieClientError {
        case .httpError(429, _): false
        case .httpError, .responseFailed, .invalidResponse, .contextWindowExceeded, .messageTooLarge,
            .streamingTransportReplayDiverged:
            true
        default: false
        }
    }
}

/// An error: the conversation has a compaction that the backend can no longer decrypt.
struct UnreadableCompaction: Error {
    /// The backend's refusal.
    let refusal: AttemptFailure
}

/// Pictures and files among the items of a conversation.
enum Pictures {
    /// Returns whether an item has a picture or a file.
    static func isIn(_ item: ChappieJSON) -> Bool { count(in: item) > 0 }

    static func count(in item: ChappieJSON) -> Int { parts(of: item).count + (isGenerated(item) ? 1 : 0) }

    /// Returns the number of bytes of their JSON.
    static func byteCount(in item: ChappieJSON) -> Int {
        isGenerated(item)
            ? item.serializedBytes().count : parts(of: item).reduce(0) { $0 + $1.serializedBytes().count }
    }

    /// Returns `item` with a sentence in place of each picture or file.
    static func leftOut(_ item: ChappieJSON) -> ChappieJSON {
        guard var object = item.object, isIn(item) else { return item }
        if isGenerated(item) {
            return ChappieInputMessage.assistant("(I made a picture here. It was left out to make room.)").inputItem
        }
        for name in members {
            guard let parts = object[name]?.array else { continue }
            object[name] = .array(parts.map { isOne($0) ? replacement : $0 })
        }
        return .object(object)
    }

    /// Returns a number of pictures as text, with its verb.
    static func count(_ count: Int) -> String { count == 1 ? "1 picture was" : "\(count) pictures were" }

    /// The members that contain parts.
    private static let members = ["content", "output"]

    private static let replacement: ChappieJSON = [
        "type": "input_text", "text": "(A picture or file was here. It was left out to make room.)",
    ]

    private static func parts(of item: ChappieJSON) -> [ChappieJSON] {
        members.flatMap { item[$0]?.array ?? [] }.filter(isOne)
    }

    private static func isOne(_ part: ChappieJSON) -> Bool {
        ["input_image", "input_file"].contains(part["type"]?.string)
    }

    private static func isGenerated(_ item: ChappieJSON) -> Bool {
        item["type"] == "image_generation_call" && item["result"]?.string != nil
    }
}
