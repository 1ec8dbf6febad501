@testable import ChappieCore
@testable import ChappieJSONSchema

/// Never traps, and never hangs: the text before the first NUL is a schema, the one behind it a value. What is wrong is said
/// of a place that is there, and the same schema, written and read again, says the same.
func holdAgainstSchema(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let parts = Array(input).split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
    guard let json = try? ChappieJSON(parsing: Array(parts[0])) else { return 0 }
    let schema = ChappieJSONSchema(json)
    do throws(ChappieJSONSchemaError) { try schema.check() } catch {
        precondition(!error.reason.isEmpty && isPlace(error.path, in: json), "the error is of no place: \(error.path)")
        return 0
    }
    guard parts.count == 2, let value = try? ChappieJSON(parsing: Array(parts[1])) else { return 0 }
    guard let violations = try? schema.violations(in: value) else { preconditionFailure("it was a schema before") }
    precondition(violations.count <= 20, "more is said than promised")
    for violation in violations {
        precondition(
            !violation.message.isEmpty && isPlace(violation.path, in: value), "nothing is at \(violation.path)")
    }
    let again = (try? ChappieJSON(parsing: json.serializedBytes())).flatMap {
        try? ChappieJSONSchema($0).violations(in: value)
    }
    precondition(again == violations, "the verdict is another one")
    do throws(ChappieJSONSchemaError) { _ = try ChappieStrictSchema(schema).answer(value) } catch {
        precondition(isPlace(error.path, in: json), "the error is of no place: \(error.path)")
    }
    return 0
}

/// Whether the pointer leads to a value.
private func isPlace(_ pointer: String, in json: ChappieJSON) -> Bool {
    var place: ChappieJSON? = json
    for token in pointer.isEmpty ? [] : JSONPointer.tokens(pointer) {
        switch place {
        case .array?: place = Int(token).flatMap { place?[$0] }
        default: place = place?[token]
        }
    }
    return place != nil
}
