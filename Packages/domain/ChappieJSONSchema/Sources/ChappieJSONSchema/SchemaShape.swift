@_spi(ChappieInternals) import ChappieCore

/// A check for errors in JSON that are independent of a schema.
enum SchemaShape {
    /// The limit for nesting, which is the same as for parsed JSON.
    private static let deepest = ChappieJSON.maximumDepth

    /// Returns a violation if values are nested too deeply, or if an object has two members with the same name.
    /// Decoders differ about which of the two counts.
    static func trouble(in json: ChappieJSON) -> ChappieSchemaViolation? {
        var path: [String] = []
        guard let message = trouble(in: json, at: &path) else { return nil }
        return ChappieSchemaViolation(path: JSONPointer.text(path), message: message)
    }

    private static func trouble(in json: ChappieJSON, at path: inout [String]) -> String? {
        guard path.count <= deepest else { return "is nested over \(deepest) levels deep" }
        switch json {
        case .array(let elements):
            for (index, element) in elements.enumerated() {
                path.append(String(index))
                if let message = trouble(in: element, at: &path) { return message }
                path.removeLast()
            }
        case .object(let object):
            var names: Set<String> = []
            for member in object.members {
                // Swift's equality treats more names as equal than a comparison of code points, and so do decoders in
                // Swift.
                guard names.insert(member.name).inserted else { return "has two members \(Quoted.name(member.name))" }
                path.append(member.name)
                if let message = trouble(in: member.value, at: &path) { return message }
                path.removeLast()
            }
        default: break
        }
        return nil
    }
}

/// Functions for JSON Pointers (RFC 6901).
enum JSONPointer {
    static func text(_ tokens: [String]) -> String {
        var bytes: [UInt8] = []
        for token in tokens {
            bytes.append(UInt8(ascii: "/"))
            for byte in token.utf8 {
                switch Unicode.Scalar(byte) {
                case "~": bytes.append(contentsOf: "~0".utf8)
                case "/": bytes.append(contentsOf: "~1".utf8)
                default: bytes.append(byte)
                }
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the tokens of a pointer that is not empty.
    static func tokens(_ pointer: String) -> [String] {
        pointer.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst().map { token in
            var bytes = token.split(separator: UInt8(ascii: "~"), omittingEmptySubsequences: false).map(Array.init)
            for index in bytes.indices.dropFirst() {
                switch bytes[index].first {
                case UInt8(ascii: "0"): bytes[index][0] = UInt8(ascii: "~")
                case UInt8(ascii: "1"): bytes[index][0] = UInt8(ascii: "/")
                default: bytes[index].insert(UInt8(ascii: "~"), at: 0)
                }
            }
            return String(decoding: bytes.joined(), as: UTF8.self)
        }
    }

    /// Returns the value that a pointer leads to.
    static func value(_ tokens: [String], in json: ChappieJSON) -> ChappieJSON? {
        tokens.reduce(Optional(json)) { json, token in
            json?.array == nil ? json?[token] : Int(token).flatMap { json?[$0] }
        }
    }

    /// Returns the tokens of a reference within its document, which may name itself as `base`. Anchors have none.
    static func tokens(ofReference reference: String, base: String?) -> [String]? {
        let parts = reference.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts[0].isEmpty || base.map({ parts[0] == $0 }) == true,
            let fragment = withoutPercents(parts.count > 1 ? parts[1] : "")
        else { return nil }
        if fragment.isEmpty { return [] }
        return fragment.utf8.first == UInt8(ascii: "/") ? tokens(fragment) : nil
    }

    /// Returns the text of a URI's fragment, or `nil` if it is not UTF-8 or a digit is missing.
    static func withoutPercents(_ fragment: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = fragment.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2).compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
            guard digits.count == 2 else { return nil }
            bytes.append(UInt8(digits[0] << 4 | digits[1]))
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// Functions that create parts of messages with a bounded length.
enum Quoted {
    static func short(_ text: String) -> String {
        text.unicodeScalars.count <= 80 ? text : String(String.UnicodeScalarView(text.unicodeScalars.prefix(79))) + "…"
    }

    /// Returns a name in quotes, with escaped control characters.
    static func name(_ name: String) -> String { ChappieJSON.string(short(name)).serialized() }

    static func value(_ value: ChappieJSON) -> String { short(value.serialized()) }

    /// Returns the message for a value that must be in `values`.
    static func list(_ values: [ChappieJSON]) -> String {
        guard values.count != 1 else { return "must be \(value(values[0]))" }
        let shown = values.prefix(10).map(value).joined(separator: ", ")
        return "must be one of \(shown)\(values.count > 10 ? ", … (\(values.count) in all)" : "")"
    }

    static func count(_ count: Int?, _ noun: String) -> String { count == 1 ? "1 \(noun)" : "\(count ?? 0) \(noun)s" }
}
