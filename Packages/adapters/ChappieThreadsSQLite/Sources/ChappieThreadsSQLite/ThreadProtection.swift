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

    /// Returns whether this value can open bytes that were sealed with `key`.
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

    /// Opens sealed bytes. Returns `nil` unless exactly these bytes were sealed for this context with this key.
    ///
    /// - Throws: `wrongKey` for a key that may have been added after these keys were read.
    func open(_ sealed: [UInt8], with key: Int, for context: Context) throws(StoreError) -> [UInt8]? {
        guard knows(key) else {
            if isLatest { return nil }
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
        case summary(database: String, thread: String, count: Int)
        case record(database: String, thread: String, position: Int, kind: String, date: Int)
        case words(database: String, record: Int)

        /// Returns the context as bytes. They contain lengths, so that no two contexts have the same bytes.
        fileprivate func bytes(_ key: Int) -> [UInt8] {
            switch self {
            case .summary(let database, let thread, let count):
                Self.bytes(["summary", database, thread], [count, key])
            case .record(let database, let thread, let position, let kind, let date):
                Self.bytes(["record", database, thread, kind], [position, date, key])
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
