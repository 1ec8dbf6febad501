/// Header fields that are lists (RFC 9110, 5.6.1), read strictly.
enum HeaderList {
    /// One member with its parameters (RFC 6455, 9.1): `name; key=value; flag`.
    struct Member: Sendable, Hashable {
        let name: String
        let parameters: [Parameter]
    }

    struct Parameter: Sendable, Hashable {
        let name: String
        /// Without quotes; `nil` where there was no `=`.
        let value: String?
    }

    /// The tokens of a list, in lower case; what is no token is left out.
    static func tokens(_ values: [String]) -> [String] {
        values.flatMap { $0.split(separator: ",") }
            .map { $0.drop { $0 == " " || $0 == "\t" } }
            .map { String($0.reversed().drop { $0 == " " || $0 == "\t" }.reversed()).lowercased() }
            .filter { !$0.isEmpty && $0.utf8.allSatisfy(isTokenByte) }
    }

    /// The members of a list of extensions, all fields of that name together; `nil` when the grammar is broken.
    static func members(_ values: [String]) -> [Member]? {
        var members: [Member] = []
        for value in values {
            var scanner = Scanner(rest: Array(value.utf8)[...])
            while true {
                scanner.skipSpaces()
                // Empty members are allowed.
                if scanner.take(",") { continue }
                guard !scanner.isAtEnd else { break }
                guard let member = scanner.member() else { return nil }
                members.append(member)
                guard scanner.isAtEnd || scanner.take(",") else { return nil }
            }
        }
        return members
    }

    /// RFC 9110, 5.6.2.
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    private struct Scanner {
        var rest: ArraySlice<UInt8>

        var isAtEnd: Bool { rest.isEmpty }

        mutating func skipSpaces() { rest = rest.drop { $0 == 0x20 || $0 == 0x09 } }

        mutating func take(_ character: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: character) else { return false }
            rest = rest.dropFirst()
            return true
        }

        mutating func token() -> String? {
            let token = rest.prefix(while: HeaderList.isTokenByte)
            rest = rest.dropFirst(token.count)
            return token.isEmpty ? nil : String(decoding: token, as: UTF8.self)
        }

        mutating func member() -> Member? {
            guard let name = token() else { return nil }
            var parameters: [Parameter] = []
            skipSpaces()
            while take(";") {
                skipSpaces()
                guard let key = token() else { return nil }
                skipSpaces()
                var value: String?
                if take("=") {
                    skipSpaces()
                    guard let found = take("\"") ? quoted() : token() else { return nil }
                    value = found
                    skipSpaces()
                }
                parameters.append(Parameter(name: key, value: value))
            }
            return Member(name: name, parameters: parameters)
        }

        /// After the opening quote. What it holds must be a token once unquoted (RFC 6455, 9.1).
        mutating func quoted() -> String? {
            var value: [UInt8] = []
            while let byte = rest.popFirst() {
                switch byte {
                case UInt8(ascii: "\""):
                    return !value.isEmpty && value.allSatisfy(HeaderList.isTokenByte)
                        ? String(decoding: value, as: UTF8.self) : nil
                case UInt8(ascii: "\\"):
                    guard let escaped = rest.popFirst() else { return nil }
                    value.append(escaped)
                default: value.append(byte)
                }
            }
            return nil
        }
    }
}
