extension ChappieJSON {
    /// Parses a whole JSON text.
    ///
    /// Linear in time, at most 256 objects and arrays deep. Strict: RFC 8259's grammar, valid UTF-8, no trailing text; the last of
    /// two equal names counts.
    ///
    /// - Throws: ``ChappieJSONError`` with the offset of the trouble.
    public init(parsing bytes: [UInt8]) throws(ChappieJSONError) {
        self = try bytes.withUnsafeBufferPointer(ChappieJSON.parse)
    }

    /// Parses a whole JSON text. See ``init(parsing:)-([UInt8])``.
    public init(parsing text: String) throws(ChappieJSONError) { try self.init(parsing: Array(text.utf8)) }

    init(parsing bytes: UnsafeBufferPointer<UInt8>) throws(ChappieJSONError) {
        self = try ChappieJSON.parse(bytes)
    }

    private static func parse(_ bytes: UnsafeBufferPointer<UInt8>) throws(ChappieJSONError) -> ChappieJSON {
        var parser = JSONParser(bytes)
        return try parser.parseDocument()
    }
}
