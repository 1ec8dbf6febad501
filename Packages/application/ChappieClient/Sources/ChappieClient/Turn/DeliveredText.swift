@_spi(ChappieInternals) import ChappieCore

/// Text only for reading: once an attempt's text differs from the text that was shown, the rest of it is held back.
struct DeliveredAside: Sendable {
    private var delivered = DeliveredText()
    /// Whether the present attempt differs from what was shown.
    private(set) var isMuted = false

    var text: String { delivered.text }
    var isEmpty: Bool { delivered.isEmpty }

    mutating func attemptBegan() {
        delivered.attemptBegan()
        isMuted = false
    }

    /// - Returns: the new part of the attempt's next piece, which is to be shown; maybe empty.
    mutating func said(_ piece: String) -> String {
        let new = isMuted ? nil : delivered.said(piece)
        isMuted = new == nil
        return new ?? ""
    }

    /// The attempt says something else.
    mutating func differs() { isMuted = true }
}

/// Text that a reader has been shown, and how far the present attempt has come in saying it again.
struct DeliveredText: Sendable {
    private(set) var bytes: [UInt8] = []
    /// How much of `bytes` the present attempt has said.
    private var position = 0

    var text: String { String(decoding: bytes, as: UTF8.self) }
    var isEmpty: Bool { bytes.isEmpty }
    /// Whether the present attempt has said everything that had been shown.
    var isCaughtUp: Bool { position == bytes.count }

    mutating func attemptBegan() { position = 0 }

    /// Returns the next piece that the attempt says.
    ///
    /// - Returns: the new part of it, maybe empty; `nil` if it differs from the text that was shown. Text that differs
    ///   is not taken in.
    mutating func said(_ piece: String) -> String? {
        let known = min(piece.utf8.count, bytes.count - position)
        // The slice must be gone before the append: while a slice is alive, each append copies everything.
        if known > 0, !piece.utf8.starts(with: bytes[position..<(position + known)]) { return nil }
        position += known
        return added(piece, after: known)
    }

    /// Returns the attempt's text as a whole, at its end: it may go beyond what was said piece by piece.
    ///
    /// - Returns: the new part of it, maybe empty. Text that does not begin with the text that was shown adds nothing
    ///   here.
    mutating func concluded(_ whole: String) -> String {
        guard whole.utf8.starts(with: bytes) else { return "" }
        position = bytes.count
        return added(whole, after: bytes.count)
    }

    /// Appends the part of `text` after its first `count` bytes. Whole strings were shown, so that this part begins at
    /// a character of UTF-8.
    private mutating func added(_ text: String, after count: Int) -> String {
        let rest = count == 0 ? text : String(decoding: text.utf8.dropFirst(count), as: UTF8.self)
        guard !rest.isEmpty else { return "" }
        bytes.append(contentsOf: rest.utf8)
        position = bytes.count
        return rest
    }
}

/// The arguments of tool calls, as a reader has been shown them while the model writes them; only for reading.
///
/// The calls of an attempt count in the order in which they begin. A call keeps the id that it was first shown under,
/// also if another attempt writes it again.
struct DeliveredArguments: Sendable {
    private struct Call {
        let callID: String
        let name: String
        let namespace: String?
        var text = DeliveredAside()
    }

    private var calls: [Call] = []
    /// The numbers of the present attempt's calls, by the ids of their items and by their own.
    private var numbers: [String: Int] = [:]
    /// How many calls the present attempt has begun.
    private var begun = 0

    var isEmpty: Bool { calls.allSatisfy(\.text.isEmpty) }

    mutating func attemptBegan() {
        for index in calls.indices { calls[index].text.attemptBegan() }
        numbers = [:]
        begun = 0
    }

    mutating func began(_ item: ChappieOutputItem) {
        guard let callID = item.callID, !callID.isEmpty, let name = item.name else { return }
        let namespace = item.json["namespace"]?.string
        if begun == calls.count {
            calls.append(
                Call(callID: callID, name: name, namespace: namespace == ToolName.noGroup ? nil : namespace))
        }
        numbers[callID] = begun
        if let id = item.id { numbers[id] = begun }
        if calls[begun].name != name { calls[begun].text.differs() }
        begun += 1
    }

    /// Returns the number of a call of the present attempt, or `nil` if its beginning was not announced.
    func call(itemID: String?, callID: String?) -> Int? {
        itemID.flatMap { numbers[$0] } ?? callID.flatMap { numbers[$0] }
    }

    /// - Returns: the new part of the next piece, which is to be shown; maybe empty.
    mutating func said(_ piece: String, of call: Int) -> String { calls[call].text.said(piece) }

    /// Returns a piece as the host gets it.
    func shown(_ piece: String, of call: Int) -> ChappieToolArgumentsDelta {
        let call = calls[call]
        return ChappieToolArgumentsDelta(
            callID: call.callID, name: call.name, namespace: call.namespace, delta: piece)
    }

    /// Returns a call that is complete, under the id that its arguments were shown under.
    func named(_ item: ChappieOutputItem) -> ChappieOutputItem {
        guard item.isToolCall, let number = call(itemID: item.id, callID: item.callID) else { return item }
        let shown = calls[number]
        guard shown.callID != item.callID, !shown.text.isEmpty, !shown.text.isMuted else { return item }
        return item.withCallID(shown.callID)
    }
}
