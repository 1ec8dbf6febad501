@_spi(ChappieInternals) import ChappieCore

/// An attempt says something else than what an earlier one of the same turn has already shown.
struct ReplayDivergence: Error, Equatable {
    /// The answer's text as it had been shown.
    var deliveredText: String
}

/// Keeps what one turn has shown, over all its attempts, so that nothing is shown twice; sans-IO.
///
/// When a connection breaks, the request is sent again in full, and the model may answer anew. The answer's text must then
/// begin with what was shown: that prefix is held back. A tool call that was handed out has perhaps been carried out, so
/// the same call must come again: it is held back, too. Summaries of reasoning are for reading only: what had been shown is
/// held back, and a new one that differs is held back altogether.
struct ReplayFilter: Sendable {
    private(set) var text = DeliveredText()
    private var reasoning = DeliveredText()
    private var isReasoningMuted = false
    /// The items handed out, by type, in order.
    private var delivered: [String: [ChappieOutputItem]] = [:]
    /// How many items of each type the present attempt has completed.
    private var seen: [String: Int] = [:]

    /// Whether the host has been shown anything that another attempt would show again.
    var hasDelivered: Bool { !text.isEmpty || !reasoning.isEmpty || !delivered.isEmpty }

    mutating func attemptBegan() {
        text.attemptBegan()
        reasoning.attemptBegan()
        isReasoningMuted = false
        seen = [:]
    }

    /// - Returns: the part of `delta` that is new; may be empty.
    mutating func said(_ delta: String) throws(ReplayDivergence) -> String {
        guard let new = text.said(delta) else { throw divergence }
        return new
    }

    /// - Returns: the part of the whole answer's text that no delta has brought; may be empty.
    mutating func concluded(_ whole: String) -> String { text.concluded(whole) }

    /// - Returns: the part of `delta` that is new; may be empty.
    mutating func reasoned(_ delta: String) -> String {
        guard !isReasoningMuted, let new = reasoning.said(delta) else {
            isReasoningMuted = true
            return ""
        }
        return new
    }

    /// An item is complete.
    ///
    /// - Returns: the item as the host knows it, and whether it is new to the host.
    mutating func completed(_ item: ChappieOutputItem) throws(ReplayDivergence) -> (ChappieOutputItem, isNew: Bool) {
        let index = seen[item.type, default: 0]
        seen[item.type] = index + 1
        let known = delivered[item.type] ?? []
        guard index < known.count else {
            delivered[item.type, default: []].append(item)
            return (item, true)
        }
        let earlier = known[index]
        if item.isToolCall {
            guard item.asksTheSame(as: earlier) else { throw divergence }
            return (item.withCallID(of: earlier), false)
        }
        guard item.text == earlier.text else { throw divergence }
        return (item, false)
    }

    /// The attempt's answer is whole: it must have said everything again.
    func attemptCompleted() throws(ReplayDivergence) {
        guard text.isCaughtUp else { throw divergence }
        for (type, items) in delivered where items.contains(where: \.isToolCall) {
            guard seen[type, default: 0] >= items.count else { throw divergence }
        }
    }

    private var divergence: ReplayDivergence { ReplayDivergence(deliveredText: text.text) }
}

extension ChappieOutputItem {
    /// Whether two tool calls are for the same tool with the same arguments; ids differ from answer to answer.
    fileprivate func asksTheSame(as other: ChappieOutputItem) -> Bool {
        guard name == other.name, json["namespace"] == other.json["namespace"] else { return false }
        return ["arguments", "input"].allSatisfy { Self.means(json[$0], other.json[$0]) }
    }

    /// Arguments are JSON in a string: spacing means nothing there.
    private static func means(_ one: ChappieJSON?, _ other: ChappieJSON?) -> Bool {
        if one == other { return true }
        guard let one = one?.string, let other = other?.string,
            let one = try? ChappieJSON(parsing: Array(one.utf8)),
            let other = try? ChappieJSON(parsing: Array(other.utf8))
        else { return false }
        return one == other
    }

    /// The call under the id that the host knows it by, so that its output finds it.
    fileprivate func withCallID(of other: ChappieOutputItem) -> ChappieOutputItem {
        guard callID != other.callID, var object = json.object else { return self }
        object["call_id"] = other.json["call_id"]
        return ChappieOutputItem(.object(object))
    }
}

/// Text that a reader has been shown, and how far the present attempt has come in saying it again.
struct DeliveredText: Sendable {
    private var bytes: [UInt8] = []
    /// How much of `bytes` the present attempt has said.
    private var position = 0

    var text: String { String(decoding: bytes, as: UTF8.self) }
    var isEmpty: Bool { bytes.isEmpty }
    /// Whether the present attempt has said everything that had been shown.
    var isCaughtUp: Bool { position == bytes.count }

    mutating func attemptBegan() { position = 0 }

    /// The next piece that the attempt says.
    ///
    /// - Returns: what of it is new, maybe nothing; `nil` when it differs from what had been shown. Text that differs is
    ///   not taken in.
    mutating func said(_ piece: String) -> String? {
        guard !isCaughtUp else {
            bytes.append(contentsOf: piece.utf8)
            position = bytes.count
            return piece
        }
        let known = bytes[position...].prefix(piece.utf8.count)
        guard piece.utf8.starts(with: known) else { return nil }
        position += known.count
        guard known.count < piece.utf8.count else { return "" }
        // Whole strings were shown, so that the rest begins where a character of UTF-8 does.
        let rest = String(decoding: piece.utf8.dropFirst(known.count), as: UTF8.self)
        bytes.append(contentsOf: rest.utf8)
        position = bytes.count
        return rest
    }

    /// The attempt's text as a whole, at its end: it may go beyond what was said piece by piece.
    ///
    /// - Returns: what of it is new, maybe nothing. Text that does not begin with what had been shown says nothing here.
    mutating func concluded(_ whole: String) -> String {
        guard whole.utf8.starts(with: bytes) else { return "" }
        let rest = String(decoding: whole.utf8.dropFirst(bytes.count), as: UTF8.self)
        bytes.append(contentsOf: rest.utf8)
        position = bytes.count
        return rest
    }
}
