extension [any CodingKey] {
    /// The place in a document as programmers write it: `tools[1].name`.
    @_spi(ChappieInternals) public var keyPath: String {
        reduce("") { path, key in
            if let index = key.intValue { return "\(path)[\(index)]" }
            return path.isEmpty ? key.stringValue : "\(path).\(key.stringValue)"
        }
    }
}
