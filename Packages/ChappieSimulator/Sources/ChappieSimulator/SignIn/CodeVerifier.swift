/// A PKCE pair (RFC 7636, 4) as this device grant has it: the server makes both halves and hands them out.
struct CodeVerifier: Sendable, Hashable {
    let verifier: String

    /// S256 (RFC 7636, 4.2).
    var challenge: String { Base64URL.encode(SHA256.digest(Array(verifier.utf8))) }
}
