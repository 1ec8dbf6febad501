import ChappieCore

/// Never traps; what was read is written as a text that reads the same.
func readJSON(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    guard let value = try? ChappieJSON(parsing: Array(input)) else { return 0 }
    let written = value.serializedBytes()
    guard let again = try? ChappieJSON(parsing: written) else {
        preconditionFailure("what was written can't be read")
    }
    precondition(again == value, "what was written reads otherwise")
    precondition(again.serializedBytes() == written, "the same value gives other bytes")
    return 0
}
