@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A server's demand for a token (RFC 6750, 3; RFC 9728, 5.1): the `Bearer` challenge of a `WWW-Authenticate` field.
struct OAuthChallenge: Sendable, Hashable {
    /// The address of the server's description.
    var resourceMetadata: String?
    /// The permissions that the request needs.
    var scopes: [String]?
    var error: String?

    /// The longest field that is read, in bytes.
    private static let limit = 16 << 10

    /// Reads the first `Bearer` challenge. The value is empty if there is none.
    init(_ fields: HTTPFields) {
        for value in fields[values: .wwwAuthenticate] where value.utf8.count <= Self.limit {
            var reader = ChallengeReader(rest: value.utf8[...])
            guard let parameters = reader.parameters(of: "bearer") else { continue }
            resourceMetadata = parameters["resource_metadata"]
            scopes = parameters["scope"].map(OAuthScopes.read)
            error = parameters["error"]
            return
        }
    }
}

/// Lists of permissions (RFC 6749, 3.3).
enum OAuthScopes {
    private static let limits = (count: 64, bytes: 200)

    /// Returns the permissions in `text`, each once. Text that cannot be the name of a permission is left out.
    static func read(_ text: String) -> [String] { usable(text.split(separator: " ").map(String.init)) }

    /// Returns the usable names among `names`, each once and in their order.
    static func usable(_ names: [String]) -> [String] {
        var found: [String] = []
        for name in names where found.count < limits.count && !found.contains(name) && isName(name) {
            found.append(name)
        }
        return found
    }

    private static func isName(_ text: String) -> Bool {
        UntrustedText.token(text, limit: limits.bytes) != nil && !text.utf8.contains { $0 == 0x22 || $0 == 0x5C }
    }
}

/// A reader of the challenges in a field (RFC 9110, 11.6.1). A parameter has a name, `=` and a value. Any other word is
/// the name of a scheme, with which the next challenge begins.
private struct ChallengeReader {
    var rest: Substring.UTF8View

    /// Returns the parameters of the first challenge of this scheme by their lowercase names, or `nil` if there is
    /// none.
    mutating func parameters(of scheme: String) -> [String: String]? {
        var found: [String: String]?
        while true {
            skip { $0 == UInt8(ascii: ",") || Self.isBlank($0) }
            guard !rest.isEmpty else { return found }
            let word = take { Self.isWord($0) }.lowercased()
            guard !word.isEmpty else {
                rest = rest.dropFirst()
                continue
            }
            skip(Self.isBlank)
            if rest.first == UInt8(ascii: "=") {
                rest = rest.dropFirst()
                skip(Self.isBlank)
                let value = value()
                if found != nil, found?[word] == nil { found?[word] = value }
            } else if found != nil {
                return found
            } else if word == scheme {
                found = [:]
            }
        }
    }

    private mutating func value() -> String {
        guard rest.first == UInt8(ascii: "\"") else { return take { Self.isWord($0) } }
        rest = rest.dropFirst()
        var bytes: [UInt8] = []
        while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
            if byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() {
                bytes.append(escaped)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private mutating func take(_ isPart: (UInt8) -> Bool) -> String {
        let part = rest.prefix(while: isPart)
        rest = rest[part.endIndex...]
        return String(Substring(part))
    }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) { rest = rest.drop(while: isSkipped) }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Returns whether the byte belongs to a token (RFC 9110, 5.6.2), or to the text of a challenge without parameters.
    private static func isWord(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || "!#$%&'*+-.^_`|~/:".utf8.contains(byte)
    }
}
