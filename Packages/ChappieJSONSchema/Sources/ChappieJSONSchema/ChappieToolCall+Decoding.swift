public import ChappieCore

extension ChappieToolCall {
    /// ``arguments`` as a value of `type`, read by ``ChappieJSONSchema/decoder``.
    ///
    /// - Throws: `DecodingError`, with the coding path of what does not fit.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try ChappieJSONSchema.decoder.decode(type, from: Data((arguments.isEmpty ? "{}" : arguments).utf8))
    }
}
