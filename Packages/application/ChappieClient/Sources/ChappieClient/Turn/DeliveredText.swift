@_spi(ChappieInternals) import ChappieCore

/// Text that is only for reading. When an attempt's text differs from the text that was shown, the rest of it is held
/// back.
struct DeliveredAside: Sendable {
    private var delivered = DeliveredText()
    /// Whether the present attempt differs from the text that was shown.
    private(set) var isMuted = false

    var text: String { delivered.text }
    var isEmpty: Bool { delivered.isEmpty }

    mutating func attemptBegan() {
        delivered.attemptBegan()
        isMuted = false
    }

    /// Takes the attempt's next piece.
    ///
    /// - Returns: the new part of it, which is to be shown. It may be empty.
    mutating func said(_ piece: String) -> String {
        let new = isMuted ? nil : delivered.said(piece)
        isMuted = new == nil
        return new ?? ""
    }

    /// Notes that the attempt's text differs from the text that was shown.
    mutating func differs() { isMuted = true }
}

/// The text that a reader has been shown, and the position up to which the present attempt has repeated it.
struct DeliveredText: Sendable {
    private(set) var bytes: [UInt8] = []
    /// The number of `bytes` that the present attempt has repeated.
    private var position = 0

    var text: String { String(decoding: bytes, as: UTF8.self) }
    var isEmpty: Bool { bytes.isEmpty }
    /// Whether the present attempt has repeated everything that was shown.
    var isCaughtUp: Bool { position == bytes.count }

    mutating func attemptBegan() { position = 0 }

    /// Takes the attempt's next piece.
    ///
    /// - Returns: the new part of it, which may be empty. `nil` if it differs from the text that was shown. Text that
    ///   differs is not added.
    mutating func said(_ piece: String) -> String? {
        let known = min(piece.utf8.count, bytes.count - position)
        // The slice must be released before the append. While a slice is alive, each append copies everything.
        if known > 0, !piece.utf8.starts(with: bytes[position..<(position + known)]) { return nil }
        position += known
        return added(piece, after: known)
    }

    /// Takes the attempt's complete text at its end. It may be longer than its pieces together.
    ///
    /// - Returns: the new part of it, which may be empty. Text that does not begin with the text that was shown adds
    ///   nothing here.
    mutating func concluded(_ whole: String) -> String {
        // Comparing arrays is many times as fast as `starts(with:)`, which matters for the whole text.
        guard Array(whole.utf8.prefix(bytes.count)) == bytes else { return "" }
        position = bytes.count
        return added(whole, after: bytes.count)
    }

    /// Appends the part of `text` after its first `count` bytes. Only complete strings were shown, so that this part
    /// begins at a character of UTF-8.
    private mutating func added(_ text: String, after count: Int) -> String {
        let rest = count == 0 ? text : String(decoding: text.utf8.dropFirst(count), as: UTF8.self)
        guard !rest.isEmpty else { return "" }
        bytes.append(contentsOf: rest.utf8)
        position = bytes.count
        return rest
    }
}

/// The arguments of tool calls that a reader has been shown while the model writes them. They are only for reading.
///
/// The calls of an attempt are numbered in the order in which they begin. A call keeps the id under which it was first
/// shown, even if another attempt writes it again.
struct DeliveredArguments: Sendable {
    private struct Call {
        let callID: String
        let name: String
        let namespace: String?
        var text = DeliveredAside()
    }

    private var calls: [Call] = []
    /// The numbers of the present attempt's calls, by the ids of their items and by the ids of the calls.
    private var numbers: [String: Int] = [:]
    /// The number of calls that the present attempt has begun.
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

    /// Takes the next piece of a call's arguments.
    ///
    /// - Returns: the new part of it, which is to be shown. It may be empty.
    mutating func said(_ piece: String, of call: Int) -> String { calls[call].text.said(piece) }

    /// Returns a piece in the form that the host gets.
    func shown(_ piece: String, of call: Int) -> ChappieToolArgumentsDelta {
        let call = calls[call]
        return ChappieToolArgumentsDelta(
            callID: call.callID, name: call.name, namespace: call.namespace, delta: piece)
    }

    /// Returns a complete call with the id under which its arguments were shown.
    func named(_ item: ChappieOutputItem) -> ChappieOutputItem {
        guard item.isToolCall, let number = call(itemID: item.id, callID: item.callID) else { return item }
        let shown = calls[number]
        guard shown.callID != item.callID, !shown.text.isEmpty, !shown.text.isMuted else { return item }
        return item.withCallID(shown.callID)
    }
}
