import ChappieCore

/// One server-sent event of an answer, its data already JSON text.
struct StreamedEvent: Sendable, Hashable {
    let name: String
    var data: [UInt8]
    /// Whether a settable rate holds this event back: true for the pieces of text.
    var isPaced = false

    init(name: String, data: [UInt8], isPaced: Bool = false) {
        self.name = name
        self.data = data
        self.isPaced = isPaced
    }

    init(_ name: String, _ value: ChappieJSON) { self.init(name: name, data: value.serializedBytes()) }
}
