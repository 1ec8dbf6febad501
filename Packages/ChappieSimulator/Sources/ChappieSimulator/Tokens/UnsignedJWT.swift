import ChappieCore

/// A JSON Web Token that nobody signed: `alg` is `none` (RFC 7519, 6).
///
/// Its third part holds a word where that RFC leaves it empty, because clients of this backend refuse a token with an
/// empty part before they look inside.
enum UnsignedJWT {
    static func encode(_ claims: ChappieJSON) -> String {
        let header: ChappieJSON = ["alg": "none", "typ": "JWT"]
        return [header.serialized(), claims.serialized(), "unsigned"].map(Base64URL.encode).joined(separator: ".")
    }
}
