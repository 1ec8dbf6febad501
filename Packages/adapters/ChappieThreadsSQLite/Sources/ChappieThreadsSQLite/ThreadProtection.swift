@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
import ChappieRuntime

/// The form of a store's bytes on the disk: sealed with a key, or plain with a checksum.
///
/// Both are bound to their place, so that an exchanged, moved or cut record is noticed. Only keys protect against an
/// attacker; a checksum finds damage.
struct ThreadProtection: Sendable {
    /// The current key first. Empty for plain text.
    let sealers: [RecordSealer]
    /// Whether the keys were read after the store had named a key that is missing among them: then that key does not
    /// exist.
    var isLatest = false

    static let plain = ThreadProtection(sealers: [], isLatest: true)
    /// Replaces the id of a key for plain text.
    static let plainKey = 0

    var isSealed: Bool { !sealers.isEmpty }
    var currentKey: Int { sealers.first?.id ?? Self.plainKey }

    /// Whether this can open bytes that were sealed with `key`.
    func knows(_ key: Int) -> Bool {
        isSealed ? sealers.contains { $0.id == key } : key == Self.plainKey
    }

    func seal(_ bytes: [UInt8], with key: Int, for context: Context) throws(StoreError) -> [UInt8] {
        let context = context.bytes(key)
        return try cryptographic { () throws(CredentialStoreError) in
            if let sealer = sealers.first(where: { $0.id == key }) { return try sealer.seal(bytes, for: context) }
            return try RecordSealer.checksum(of: context + bytes) + bytes
        }
    }

    /// `nil` unless exactly these bytes were sealed for this context with this key.
    func open(_ sealed: [UInt8], with key: Int, for context: Context) throws(StoreError) -> [UInt8]? {
        guard knows(key) else {
            guard !isLatest else { return nil }
            throw .wrongKey("they were encrypted with another key than the stored one")
        }
        let context = context.bytes(key)
        return try cryptographic { () throws(CredentialStoreError) in
            if let sealer = sealers.first(where: { $0.id == key }) { return try sealer.open(sealed, for: context) }
            let bytes = Array(sealed.dropFirst(32))
            return try RecordSealer.checksum(of: context + bytes).elementsEqual(sealed.prefix(32)) ? bytes : nil
        }
    }

    /// The owner of a sealed blob.
    enum Context {
        case store(database: String)
        case summary(database: String, thread: String, count: Int)
        case record(database: String, thread: String, position: Int, kind: String, date: Int)

        /// With lengths, so that no two contexts give the same bytes.
        fileprivate func bytes(_ key: Int) -> [UInt8] {
            switch self {
            case .store(let database): Self.bytes(["store", database], [key])
            case .summary(let database, let thread, let count):
                Self.bytes(["summary", database, thread], [count, key])
            case .record(let database, let thread, let position, let kind, let date):
                Self.bytes(["record", database, thread, kind], [position, date, key])
            }
        }

        private static func bytes(_ texts: [String], _ numbers: [Int]) -> [UInt8] {
            var bytes: [UInt8] = []
            func add(_ number: Int) { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }
            for text in texts {
                add(text.utf8.count)
                bytes += text.utf8
            }
            for number in numbers { add(number) }
            return bytes
        }
    }

    // MARK: Words

    /// The longest beginning of a word that the index has, in characters.
    private static let longestBeginning = 12

    /// A text's words as the index has them. With encryption: their digests, and in the second column the digests of
    /// all beginnings of words; each once and sorted, so that nothing of the text's order and repetitions is left.
    func terms(of text: String, with key: Int) throws(StoreError) -> (words: String, beginnings: String) {
        let words = Set(ChappieThreadWords(text).words)
        guard isSealed else { return (words.sorted().joined(separator: " "), "") }
        let digests = try Digests(self, key)
        var beginnings: Set<Substring> = []
        for word in words {
            for end in word.indices.dropFirst().prefix(Self.longestBeginning) { beginnings.insert(word[..<end]) }
        }
        return (
            try digests.all(words, as: "word"), try digests.all(beginnings, as: "beginning")
        )
    }

    /// The words as a query of FTS5, which finds every record that has them, and maybe other records.
    func query(_ words: [String]) throws(StoreError) -> String? {
        guard let last = words.last else { return nil }
        guard isSealed else {
            return words.dropLast().map { "\"\($0)\" " }.joined() + "\"\(last)\" *"
        }
        var alternatives: [String] = []
        for sealer in sealers {
            let digests = try Digests(self, sealer.id)
            var terms: [String] = []
            for word in words.dropLast() {
                let digest = try digests.one(word, as: "word")
                terms.append("words : \(digest)")
            }
            let word = try digests.one(last, as: "word")
            let beginning = try digests.one(last.prefix(Self.longestBeginning), as: "beginning")
            terms.append("(words : \(word) OR beginnings : \(beginning))")
            alternatives.append("(" + terms.joined(separator: " AND ") + ")")
        }
        return alternatives.joined(separator: " OR ")
    }

    /// Forty bits of an HMAC in eight characters: enough to find a record by, since a hit is looked at before it is given.
    private struct Digests {
        private let authenticator: MessageAuthenticator

        init(_ protection: ThreadProtection, _ key: Int) throws(StoreError) {
            guard let sealer = protection.sealers.first(where: { $0.id == key }) else {
                throw .wrongKey("the index was made with another key")
            }
            authenticator = try cryptographic { () throws(CredentialStoreError) in try sealer.wordDigests() }
        }

        func one(_ word: some StringProtocol, as role: String) throws(StoreError) -> String {
            let code = try cryptographic { () throws(CredentialStoreError) in
                try authenticator.code(of: "\(role) \(word)")
            }
            // Letters and digits that no case folding changes; a query's operators are written in capitals.
            var bits = code.prefix(5).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
            var text = ""
            for _ in 0..<8 {
                text.unicodeScalars.append(Unicode.Scalar(Self.alphabet[Int(bits & 31)]))
                bits >>= 5
            }
            return text
        }

        func all(_ words: some Sequence<some StringProtocol>, as role: String) throws(StoreError) -> String {
            var digests: [String] = []
            for word in words { digests.append(try one(word, as: role)) }
            return digests.sorted().joined(separator: " ")
        }

        private static let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    }
}

/// libcrypto fails for lack of memory alone.
private func cryptographic<Output>(
    _ body: () throws(CredentialStoreError) -> Output
) throws(StoreError) -> Output {
    do throws(CredentialStoreError) {
        return try body()
    } catch {
        throw .unavailable(error.errorDescription ?? "libcrypto failed")
    }
}
