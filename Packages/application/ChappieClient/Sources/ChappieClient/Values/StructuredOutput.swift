@_spi(ChappieInternals) public import ChappieCore
public import ChappieJSONSchema

@_spi(ChappieInternals) extension ChappieResponse {
    /// Returns the answer as a value, checked against the requested schema.
    ///
    /// - Throws: ``ChappieClientError/invalidStructuredOutput(_:_:)``, ``ChappieClientError/responseFailed(_:)``;
    ///   `ChappieJSONSchemaError`.
    public func value<Output: Decodable>(_ type: Output.Type, schema: ChappieJSONSchema) throws -> Output {
        let answer = outputText
        guard status != .incomplete, !answer.isEmpty else { throw ChappieClientError.responseFailed(self) }
        func failure(_ path: String, _ message: String) -> ChappieClientError {
            .invalidStructuredOutput(ChappieSchemaViolation(path: path, message: message), answer)
        }
        guard let given = try? ChappieJSON(parsing: answer) else { throw failure("", "It is not JSON.") }
        let json = try ChappieStrictSchema(schema).answer(given)
        if let violation = try schema.violations(in: json).first {
            throw ChappieClientError.invalidStructuredOutput(violation, answer)
        }
        do {
            return try ChappieJSONSchema.decoder.decode(type, from: Data(json.serializedBytes()))
        } catch let error as DecodingError {
            throw failure(error.path, error.sentence)
        } catch {
            // An initialiser of the caller's type threw the error.
            throw failure("", "\(type) can't be made from it: \(error)")
        }
    }
}

extension [any CodingKey] {
    /// The place in a document in a programmer's notation, such as `tools[1].name`.
    @_spi(ChappieInternals) public var keyPath: String {
        reduce("") { path, key in
            if let index = key.intValue { return "\(path)[\(index)]" }
            return path.isEmpty ? key.stringValue : "\(path).\(key.stringValue)"
        }
    }
}
