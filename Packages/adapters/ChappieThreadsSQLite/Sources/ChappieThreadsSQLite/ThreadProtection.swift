@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
import ChappieRuntime

/// The form of a store's bytes on the disk: sealed with a key, or plain with a checksum.
///
/// Both forms are bound to their place, so that an exchanged, moved or cut record is noticed. Only keys protect against
/// an attacker. A checksum finds damage.
struct ThreadProtection: Sendable {
    /// The sealers, with the current key's at the start. The array is empty for plain text.
    let sealers: [RecordSealer]
    /// Whether the keys were read after the store had named a key that is missing among them. In this case that key
    /// does not exist.
    var isLatest = false

    static let plain = ThreadProtection(sealers: [], isLatest: true)
    /// The value that replaces the id of a key for plain text.
    static let plainKey = 0

    var isSealed: Bool { !sealers.isEmpty }
    var currentKey: Int { sealers.first?.id ?? Self.plainKey }

    /// The ids of all keys, with the current one at the start.
    var keys: [Int] { isSealed ? sealers.map(\.id) : [Self.plainKey] }

    /// Returns whether this value can open bytes that were sealed with `key`.
    func knows(_ key: Int) -> Bool {
        isSealed ? sealers.contains { $0.id == key } : key == Self.plainKey
    }

    /// Checks that `key` is among the keys, or does not exist.
    ///
    /// - Throws: `wrongKey` for a key that may have been added after these keys were read.
    fileprivate func demand(_ key: Int) throws(StoreError) {
        guard knows(key) || isLatest else {
            throw .wrongKey("they were encrypted with another key than the stored one")
        }
    }

    func seal(_ bytes: [UInt8], with key: Int, for context: Context) throws(StoreError) -> [UInt8] {
        let context = context.bytes(key)
        return try cryptographic { () throws(CredentialStoreError) in
            if let sealer = sealers.first(where: { $0.id == key }) { return try sealer.seal(bytes, for: context) }
            return try RecordSealer.checksum(of: context + bytes) + bytes
        }
    }

    /// Opens sealed bytes. Returns `nil` unless exactly these bytes were sealed for this context with this key.
    func open(_ sealed: [UInt8], with key: Int, for context: Context) throws(StoreError) -> [UInt8]? {
        try demand(key)
        guard knows(key) else { return nil }
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
        case words(database: String, record: Int)
        case note(database: String)

        /// Returns the context as bytes. They contain lengths, so that no two contexts have the same bytes.
        fileprivate func bytes(_ key: Int) -> [UInt8] {
            switch self {
            case .store(let database): Self.bytes(["store", database], [key])
            case .summary(let database, let thread, let count):
                Self.bytes(["summary", database, thread], [count, key])
            case .record(let database, let thread, let position, let kind, let date):
                Self.bytes(["record", database, thread, kind], [position, date, key])
            case .note(let database): Self.bytes(["note", database], [key])
            case .words(let database, let record): Self.bytes(["words", database], [record, key])
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

    // MARK: The sum

    /// A maker of the tags of rows, whose sum is in the store's state. Only the owner of the key can make them. Without
    /// a key they are checksums.
    final class RowTags {
        private let protection: ThreadProtection
        private var authenticators: [Int: MessageAuthenticator] = [:]

        init(_ protection: ThreadProtection) { self.protection = protection }

        /// Returns the tag of a row that was sealed with `key`, or zero for a key that does not exist.
        func tag(of row: [UInt8], for context: Context, _ key: Int) throws(StoreError) -> SIMD4<UInt64> {
            try protection.demand(key)
            let bytes = context.bytes(key) + row
            let code = try cryptographic { () throws(CredentialStoreError) -> [UInt8]? in
                if let known = authenticators[key] { return try known.code(of: bytes) }
                guard let sealer = protection.sealers.first(where: { $0.id == key }) else {
                    return protection.knows(key) ? try RecordSealer.checksum(of: bytes) : nil
                }
                let authenticator = try sealer.rowTags()
                authenticators[key] = authenticator
                return try authenticator.code(of: bytes)
            }
            return code.map { SIMD4(littleEndian: $0[...]) } ?? .zero
        }
    }
}

extension SIMD4<UInt64> {
    /// Creates a vector from 32 bytes.
    init(littleEndian bytes: ArraySlice<UInt8>) {
        self.init()
        for (offset, byte) in bytes.prefix(32).enumerated() { self[offset / 8] |= UInt64(byte) << (offset % 8 * 8) }
    }

    var littleEndianBytes: [UInt8] { (0..<32).map { UInt8(truncatingIfNeeded: self[$0 / 8] >> ($0 % 8 * 8)) } }
}

/// Runs `body` and converts its error. The crypto library fails only for lack of memory.
private func cryptographic<Output>(
    _ body: () throws(CredentialStoreError) -> Output
) throws(StoreError) -> Output {
    do throws(CredentialStoreError) {
        return try body()
    } catch {
        throw .unavailable(error.errorDescription ?? "the crypto library failed")
    }
}
