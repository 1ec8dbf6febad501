/// The code a person copies from one screen to another, such as `BCDF-GHJKL`.
///
/// Consonants only, so that no code is a word and none holds a character that looks like another (RFC 8628, 6.1).
struct UserCode: Sendable, Hashable {
    private static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ")
    private static let length = 9

    /// Upper-case letters and digits only; what codes are compared by.
    let normalized: String

    init(using generator: inout some RandomNumberGenerator) {
        normalized = String((0..<Self.length).compactMap { _ in Self.alphabet.randomElement(using: &generator) })
    }

    /// What a person typed: case, spaces and every kind of dash don't matter.
    ///
    /// - Returns: `nil` when nothing is left, or when there is more than any code has.
    init?(typed: String) {
        var letters = ""
        for scalar in typed.unicodeScalars.prefix(256) {
            guard scalar.isASCII, scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) else { continue }
            letters.unicodeScalars.append(scalar)
        }
        guard !letters.isEmpty, letters.count <= 64 else { return nil }
        normalized = letters.uppercased()
    }

    /// As it is shown: a dash after the fourth letter.
    var display: String { normalized.prefix(4) + "-" + normalized.dropFirst(4) }
}
