@_spi(ChappieInternals) public import ChappieCore

extension ChappieClient {
    /// Asks for an answer of a type's form: the backend holds the model to `schema`, and the answer is checked against it.
    ///
    /// ```swift
    /// struct Town: Decodable { var name: String; var people: Int }
    /// let town = try await client.send("The capital of France?", as: Town.self, schema: .derived(from: Town.self))
    /// ```
    /// - Throws: ``ChappieClientError``: `invalidStructuredOutput` names the place that does not fit; `responseFailed` for an
    ///   answer that ended early, and for one that the model refused; `CancellationError`. `ChappieJSONSchemaError` for a
    ///   schema that can't be used: nothing is sent then.
    public func send<Output: Decodable & Sendable>(
        _ text: String, as type: Output.Type, schema: ChappieJSONSchema
    ) async throws -> Output {
        try schema.check()
        return try await response(ChappieResponseRequest(messages: [.user(text)], outputSchema: schema))
            .value(type, schema: schema)
    }

    /// The same for a type that knows its schema.
    public func send<Output: Decodable & ChappieJSONSchemaProviding & Sendable>(
        _ text: String, as type: Output.Type
    ) async throws -> Output { try await send(text, as: type, schema: Output.jsonSchema) }
}

@_spi(ChappieInternals) extension ChappieResponse {
    /// The answer as a value, checked against the schema that was asked for.
    ///
    /// - Throws: ``ChappieClientError/invalidStructuredOutput(_:_:)``, ``ChappieClientError/responseFailed(_:)``;
    ///   `ChappieJSONSchemaError`.
    public func value<Output: Decodable>(_ type: Output.Type, schema: ChappieJSONSchema) throws -> Output {
        let answer = outputText
        guard status != .incomplete, !answer.isEmpty else { throw ChappieClientError.responseFailed(self) }
        func misfit(_ path: String, _ message: String) -> ChappieClientError {
            .invalidStructuredOutput(ChappieSchemaViolation(path: path, message: message), answer)
        }
        guard let json = try? ChappieJSON(parsing: answer) else { throw misfit("", "It is not JSON.") }
        if let violation = try schema.violations(in: json).first {
            throw ChappieClientError.invalidStructuredOutput(violation, answer)
        }
        do {
            return try ChappieJSONSchema.decoder.decode(type, from: Data(answer.utf8))
        } catch let error as DecodingError {
            throw misfit(error.path, error.sentence)
        } catch {
            // An initialiser of the caller's own threw it.
            throw misfit("", "\(type) can't be made from it: \(error)")
        }
    }
}
