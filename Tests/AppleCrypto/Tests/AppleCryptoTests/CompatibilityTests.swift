@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCrypto
@_spi(ChappieInternals) @testable import OpenSSLCrypto

/// What CryptoKit's code sealed opens with OpenSSL's, and the reverse.
struct CompatibilityTests {
    private static let key = Secret([UInt8](0..<32))
    private static let context = Array("a record".utf8)

    private static func records() throws -> [any Sealing] {
        [try ChappieCrypto.RecordSealer(key), try OpenSSLCrypto.RecordSealer(key)]
    }

    /// Each with each other.
    private static func pairs<Element>(_ both: [Element]) -> [(Element, Element)] {
        [(both[0], both[1]), (both[1], both[0])]
    }

    @Test(arguments: [0, 1, 64 << 10, 16 << 20])
    func recordsOfAnySizeOpen(count: Int) throws {
        let record = [UInt8](repeating: 7, count: count)
        for (one, other) in try Self.pairs(Self.records()) {
            let sealed = try one.seal(record, for: Self.context)
            #expect(sealed.count == count + 28)
            #expect(try other.open(sealed, for: Self.context) == record)
        }
    }

    @Test func keysHaveTheSameName() throws {
        let (one, other) = (try ChappieCrypto.RecordSealer(Self.key), try OpenSSLCrypto.RecordSealer(Self.key))
        #expect(one.id == other.id)
        for count in [0, 1, 63, 64, 65, 1000] {
            let row = [UInt8](repeating: 7, count: count)
            #expect(try ChappieCrypto.RecordSealer.checksum(of: row) == OpenSSLCrypto.RecordSealer.checksum(of: row))
        }
    }

    @Test func neitherOpensWhatWasChanged() throws {
        for (one, other) in try Self.pairs(Self.records()) {
            let sealed = try one.seal(Array("words".utf8), for: Self.context)
            for (offset, bit) in sealed.indices.flatMap({ offset in (0..<8).map { (offset, $0) } }) {
                var forged = sealed
                forged[offset] ^= 1 << bit
                #expect(try other.open(forged, for: Self.context) == nil)
            }
            for count in 0..<sealed.count {
                #expect(try other.open(Array(sealed.prefix(count)), for: Self.context) == nil)
            }
            #expect(try other.open(sealed, for: Self.context + [0]) == nil)
            #expect(try other.open(sealed, for: []) == nil)
        }
    }

    @Test(arguments: [(1, 1, 1), (1, 1, 16), (3, 32, 2), (4, 7, 3), (10, 8, 1), (12, 2, 5)])
    func scryptDerivesTheSameBytes(costExponent: Int, blockSize: Int, parallelism: Int) throws {
        let (one, other) = cost(costExponent, blockSize, parallelism)
        for (passphrase, count) in [("", 1), ("pässword", 33), (String(repeating: "long", count: 40), 200)] {
            let (passphrase, salt) = (Secret(passphrase), [UInt8](repeating: 3, count: count % 40))
            #expect(
                try ChappieCrypto.CryptoLibrary.scrypt(count, from: passphrase, salt: salt, parameters: one)
                    == OpenSSLCrypto.CryptoLibrary.scrypt(count, from: passphrase, salt: salt, parameters: other))
        }
    }

    // MARK: Files under a passphrase

    /// The store of either, in one folder.
    private static func stores(
        in directory: String, passphrase: String = "correct horse"
    ) throws -> [any CredentialStore] {
        let secret = Secret(passphrase)
        let (one, other) = cost(4, 8, 1)
        return [
            try ChappieCrypto.EncryptedFileCredentialStore(
                directory: directory, passphrase: ChappieCrypto.FixedPassphrase(secret), parameters: one),
            try OpenSSLCrypto.EncryptedFileCredentialStore(
                directory: directory, passphrase: OpenSSLCrypto.FixedPassphrase(secret), parameters: other),
        ]
    }

    @Test func `either library opens a credential file and replaces it under its name`() async throws {
        let folder = try TemporaryDirectory()
        for (one, other) in try Self.pairs(Self.stores(in: folder.path("credentials"))) {
            for text in ["", "a credential", String(repeating: "x", count: 1 << 20)] {
                try await one.save(Secret(text), in: .mine)
                #expect(try await other.load(.mine) == Secret(text))
            }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("credentials")).count == 1)
    }

    @Test func `a damaged file and a wrong passphrase are the same errors to both`() async throws {
        let folder = try TemporaryDirectory()
        let directory = folder.path("credentials")
        let both = try Self.stores(in: directory)
        try await both[0].save(Secret("a credential"), in: .mine)
        let path = try PrivateStore.store(in: directory).path(of: .mine)
        let whole = try Files.read(path)
        var errors: Set<String> = []
        func compare(_ stores: [any CredentialStore]) async {
            var found: [CredentialStoreError?] = []
            for store in stores {
                found.append(await #expect(throws: CredentialStoreError.self) { _ = try await store.load(.mine) })
            }
            #expect(found[0] == found[1])
            if let error = found[0] { errors.insert("\(error)") }
        }
        for offset in whole.indices {
            var damaged = whole
            damaged[offset] ^= 0x10
            // Damage, and a change on purpose that the checksum fits.
            let content = Array(damaged.dropLast(32))
            for bytes in [damaged, content + (try ChappieCrypto.CryptoLibrary.digest(of: content))] where bytes != whole
            {
                try Files.write(bytes, to: path)
                await compare(both)
            }
        }
        try Files.write(whole, to: path)
        await compare(try Self.stores(in: directory, passphrase: "another"))
        for words in ["its checksum is wrong", "changed on purpose", "wrongPassphrase", "tooNew"] {
            #expect(errors.contains { $0.contains(words) }, "\(words)")
        }
    }

    /// As a backup of threads holds it, with the parameters that programs use.
    @Test func aBackupsKeyUnderAPassphraseOpens() throws {
        let slot = CredentialSlot(service: "com.chappie.sdk", account: "backup")
        let both: [any PassphraseSealing] = [
            try ChappieCrypto.PassphraseSeal(for: slot, in: "the backup"),
            try OpenSSLCrypto.PassphraseSeal(for: slot, in: "the backup"),
        ]
        for (one, other) in Self.pairs(both) {
            let sealed = try one.seal(Self.key, under: Secret("correct horse"))
            #expect(try other.open(sealed, under: Secret("correct horse")) == Self.key)
            #expect(throws: CredentialStoreError.wrongPassphrase("the backup")) {
                try other.open(sealed, under: Secret("another"))
            }
        }
    }

    /// In the time of this thread's own processor, which other work hardly changes. A large array costs the system new
    /// pages each time, which makes its bytes up to ten times as dear; the square would be 16,384 times as much.
    @Test func aRecordCostsInProportionToItsSize() throws {
        let sealer = try ChappieCrypto.RecordSealer(Self.key)
        func cost(of count: Int) throws -> Double {
            let record = [UInt8](repeating: 7, count: count)
            let start = processorSeconds
            #expect(try sealer.open(sealer.seal(record, for: Self.context), for: Self.context)?.count == count)
            return processorSeconds - start
        }
        let short = try (0..<3).map { _ in try cost(of: 128 << 10) }.max() ?? 0
        let long = try (0..<3).map { _ in try cost(of: 16 << 20) }.min() ?? 0
        print("measured: a record of 16 MiB costs \(long / short) times one of 128 KiB")
        #expect(long < 4000 * short)
    }

    private var processorSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// The same parameters for each.
private func cost(
    _ costExponent: Int, _ blockSize: Int, _ parallelism: Int
) -> (ChappieCrypto.ScryptParameters, OpenSSLCrypto.ScryptParameters) {
    let one = ChappieCrypto.ScryptParameters(
        costExponent: costExponent, blockSize: blockSize, parallelism: parallelism)
    let other = OpenSSLCrypto.ScryptParameters(
        costExponent: costExponent, blockSize: blockSize, parallelism: parallelism)
    guard let one, let other else { preconditionFailure("The sample is out of bounds.") }
    return (one, other)
}

private protocol Sealing {
    func seal(_ bytes: [UInt8], for context: [UInt8]) throws -> [UInt8]
    func open(_ sealed: [UInt8], for context: [UInt8]) throws -> [UInt8]?
}

extension ChappieCrypto.RecordSealer: Sealing {}
extension OpenSSLCrypto.RecordSealer: Sealing {}

private protocol PassphraseSealing {
    func seal(_ secret: Secret, under passphrase: Secret) throws -> [UInt8]
    func open(_ bytes: [UInt8], under passphrase: Secret) throws -> Secret
}

extension ChappieCrypto.PassphraseSeal: PassphraseSealing {}
extension OpenSSLCrypto.PassphraseSeal: PassphraseSealing {}
