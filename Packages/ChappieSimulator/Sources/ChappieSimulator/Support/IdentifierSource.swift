/// Makes the values a server makes up: unguessable ones for sign-in, counted ones for responses.
struct IdentifierSource: Sendable {
    private var generator = SystemRandomNumberGenerator()
    private var counters: [String: Int] = [:]

    /// `prefix` and 32 random bytes in base64url (43 characters).
    mutating func secret(_ prefix: String = "") -> String {
        prefix + Base64URL.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// `prefix` and 32 digits, counted from 1 for each prefix: the same requests in the same order always get the
    /// same identifiers, and every answer to the same question has the same length.
    mutating func counted(_ prefix: String) -> String {
        counters[prefix, default: 0] += 1
        let digits = String(counters[prefix, default: 0], radix: 16)
        return prefix + String(repeating: "0", count: max(0, 32 - digits.count)) + digits
    }

    /// A new code for a person to type.
    mutating func userCode() -> UserCode { UserCode(using: &generator) }
}
