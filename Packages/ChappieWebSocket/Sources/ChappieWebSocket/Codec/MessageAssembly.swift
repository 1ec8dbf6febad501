import ChappieCore

/// A message of which not everything has come.
struct MessageAssembly: ~Copyable {
    let isText: Bool
    let isCompressed: Bool
    private(set) var bytes: [UInt8] = []
    private var validator = UTF8Validator()

    init(isText: Bool, isCompressed: Bool) {
        self.isText = isText
        self.isCompressed = isCompressed
    }

    /// Adds the next bytes, decompressed ones.
    mutating func append(_ piece: UnsafeRawBufferPointer, limit: Int) throws(WebSocketCodecError) {
        // In this order, so that the same message fails in the same way however it was cut.
        let allowed = UnsafeRawBufferPointer(rebasing: piece.prefix(limit - bytes.count))
        if isText, !validator.receivedBytes(allowed) { throw .invalidUTF8 }
        guard allowed.count == piece.count else { throw .messageTooLarge(limitBytes: limit) }
        bytes.append(contentsOf: piece)
    }

    /// The message, when `last` is its last piece.
    consuming func finish(
        with last: UnsafeRawBufferPointer, limit: Int
    ) throws(WebSocketCodecError) -> WebSocketMessage {
        if bytes.isEmpty, validator.isComplete, last.count <= limit {
            // Everything in one piece: straight into the message.
            guard isText else { return .binary(Array(last)) }
            // The standard library's own check goes through unspecialised code, which costs more than a small message.
            guard validator.receivedBytes(last), validator.isComplete else { throw .invalidUTF8 }
            return .text(String(decoding: last, as: UTF8.self))
        }
        try append(last, limit: limit)
        guard isText else { return .binary(bytes) }
        guard validator.isComplete else { throw .invalidUTF8 }
        return .text(String(decoding: bytes, as: UTF8.self))
    }
}
