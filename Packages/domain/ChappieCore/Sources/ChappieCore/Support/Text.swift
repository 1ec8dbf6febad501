extension StringProtocol {
    /// The text without white space at its beginning and end.
    @_spi(ChappieInternals) public var trimmed: String { String(drop(while: \.isWhitespace)).trimmedEnd }

    /// The text without white space at its end.
    @_spi(ChappieInternals) public var trimmedEnd: String {
        String(reversed().drop(while: \.isWhitespace).reversed())
    }

    /// Whether bytes that were not UTF-8 became replacement characters in this text. A path with such a character leads
    /// to another place than the original bytes.
    @_spi(ChappieInternals) public var isRepaired: Bool { unicodeScalars.contains("\u{FFFD}") }
}

extension UInt8 {
    /// Whether this is an ASCII letter or digit.
    @_spi(ChappieInternals) public var isASCIIAlphanumeric: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: false
        }
    }
}

/// Rules for the names that the backend accepts for tools and for groups of tools.
@_spi(ChappieInternals) public enum ToolName {
    /// Returns whether `name` consists of 1 to 64 letters, digits, `_` and `-`.
    public static func isValid(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count) && name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_-".utf8.contains($0) }
    }

    /// Returns names that the backend accepts, by their original names. No two originals get the same name. A valid
    /// name stays unchanged. In other names, `_` replaces each character that is not valid, and a digest follows a name
    /// that would be too long or not unique.
    public static func accepted(_ originals: some Collection<String>) -> [String: String] {
        func replaced(_ name: String) -> String {
            let bytes = name.utf8.map { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") ? $0 : UInt8(ascii: "_") }
            return String(decoding: bytes, as: UTF8.self)
        }
        let originals = Set(originals)
        var uses: [String: Int] = [:]
        for name in originals { uses[isValid(name) ? name : replaced(name), default: 0] += 1 }
        var accepted: [String: String] = [:]
        for original in originals {
            if isValid(original) {
                accepted[original] = original
                continue
            }
            let name = replaced(original)
            let isUnique = isValidGroup(name) && uses[name] == 1
            accepted[original] = isUnique ? name : "\(name.prefix(47))_\(FNV1a.hexadecimal([original]))"
        }
        return accepted
    }

    /// The backend's name for the group of the tools without a group.
    public static let noGroup = "functions"

    /// Returns whether tools may have `name` as their group.
    public static func isValidGroup(_ name: String) -> Bool { isValid(name) && name != noGroup }
}
