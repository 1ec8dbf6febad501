@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieCrypto

struct FormatTests {
    /// Made from the table at `CredentialFile` with other software (Python's hashlib and cryptography).
    private static let foreign = bytes(
        hex: """
            4348415043524544010400080002000102030405060708090a0b0c0d0e0f5fdffed17672194fc00f69a9f5575ac16d20
            1ac27f53a6d6147fa69ff28563df6465666768696a6b6c6d6e6f000000121513a1b3f574f6bdea329f9127457b5fb92c
            a3622a80ed93459213595a9684cd66f81a8b3b79381d0f8cf37fdf8a694efa4944e8f4e130efe03a07a8fcdf0c8bd098
            """)
    private static let foreignSlot = CredentialSlot(
        service: "com.example.app", account: "ünï@example.com", accessGroup: "TEAM.one")

    @Test func theFormIsTheDocumentedOne() async throws {
        let digest = try CredentialPlace(Self.foreignSlot, in: "/d").digest
        #expect(digest == bytes(hex: "76a4c88684e69a232e454a7e8dd6963eeb4ff66d8c6771b2345b752f75fde1a7"))
        let file = try CredentialFile(Self.foreign, path: "/f")
        #expect(file.parameters == .sample(4, 8, 2))
        #expect(try file.bytes() == Self.foreign)
        // Slots without an issuer are as they were before there were issuers.
        let it = try await PrivateStore()
        try await it.store.prepareToSave(in: Self.foreignSlot)
        try Files.write(Self.foreign, to: it.store.path(of: Self.foreignSlot), mode: 0o600)
        #expect(try await it.store.load(Self.foreignSlot)?.text == #"{"hello":"wörld"}"#)
    }

    /// With a checksum that fits: a change on purpose.
    private static func withChecksum(_ content: [UInt8]) throws -> [UInt8] {
        try content + CryptoLibrary.digest(of: content)
    }

    @Test(arguments: [
        (9, [21] as [UInt8], "asks for more work"), (9, [0], "asks for more work"), (9, [255], "asks for more work"),
        (10, [0xFF, 0xFF], "asks for more work"), (10, [0, 0], "asks for more work"),
        (12, [0xFF, 0xFF], "asks for more work"), (12, [0, 0], "asks for more work"),
        (9, [20, 0, 32, 0, 16], "asks for more work"), (8, [0], "the form"),
        (74, [0xFF, 0xFF, 0xFF, 0xFF], "the form"), (74, [0, 0, 0, 0x13], "the form"),
        (74, [0, 0, 0, 0x11], "the form"), (74, [0, 0, 0, 0], "the form"), (0, [0], "not an encrypted credential file"),
    ])
    func aHeaderThatIsNotOursIsCorruptBeforeAnythingIsDerived(offset: Int, bytes: [UInt8], words: String) async throws {
        var content = Array(Self.foreign.dropLast(CryptoLibrary.digestCount))
        content.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
        let forged = try Self.withChecksum(content)
        let error = await refusal("corrupt", saying: words) { _ = try CredentialFile(forged, path: "/some/file") }
        #expect(error?.errorDescription?.contains("/some/file") == true)
    }

    @Test func `a file of a newer version is neither read nor replaced, and can be removed`() async throws {
        let it = try await PrivateStore(saving: "x")
        let path = try it.path
        var content = try Array(Files.read(path).dropLast(CryptoLibrary.digestCount))
        content[CredentialFile.magic.count] = 2
        let newer = try Self.withChecksum(content)
        try Files.write(newer, to: path)
        let words = "\(path) was written by a newer version of this program (format 2, this version knows 1)"
        await it.expectRefusals("tooNew", saying: words, remedy: "Update")
        await refusal("tooNew", saying: words) { try await it.store.prepareToSave(in: .mine) }
        #expect(try Files.read(path) == newer)
        try await it.store.delete(.mine)
        #expect(try await it.store.load(.mine) == nil)
    }

    @Test func tooLongAndTooShortAreCorrupt() async throws {
        let long = CredentialFile.magic + [UInt8](repeating: 1, count: CredentialFile.limit)
        let short = try (0..<64).map {
            try Self.withChecksum(CredentialFile.magic + [UInt8](repeating: 1, count: $0))
        }
        for bytes in [[], CredentialFile.magic, CredentialFile.magic + [1], long] + short {
            await refusal("corrupt") { _ = try CredentialFile(bytes, path: "/f") }
        }
    }

    /// Every bit of every byte, with a checksum made anew: never opened, never a trap.
    @Test func noBitCanBeChangedOnPurpose() throws {
        let sealer = CredentialSealer(parameters: .cheap)
        let place = try CredentialPlace(.mine, in: "/d")
        let whole = try sealer.seal(Secret("a credential"), for: place, replacing: nil, with: .passphrase(Secret("p")))
            .bytes()
        let content = Array(whole.dropLast(CryptoLibrary.digestCount))
        var kinds: [String: Int] = [:]
        for (offset, bit) in content.indices.flatMap({ offset in (0..<8).map { (offset, $0) } }) {
            var forged = content
            forged[offset] ^= 1 << bit
            let error = #expect(throws: CredentialStoreError.self, "byte \(offset), bit \(bit)") {
                let file = try CredentialFile(Self.withChecksum(forged), path: "/f")
                _ = try sealer.open(file, at: place, with: .passphrase(Secret("p")))
            }
            kinds[error.map { "\($0)".prefix { $0 != "(" } }.map(String.init) ?? "", default: 0] += 1
        }
        // Salt, parameters and check value say which passphrase is right, and a byte is the version. Everything else is
        // the tag's.
        #expect(Set(kinds.keys) == ["corrupt", "tooNew", "wrongPassphrase"] && kinds["tooNew"] == 7)
        #expect(kinds["wrongPassphrase", default: 0] >= 8 * (CredentialFile.saltCount + CredentialFile.checkCount))
    }

    @Test func slotsHaveDigestsOfTheirOwn() throws {
        let slots = [
            CredentialSlot(service: "a", account: "bc"), CredentialSlot(service: "ab", account: "c"),
            CredentialSlot(service: "a", account: "b", accessGroup: "c"),
            CredentialSlot(service: "a", account: "b", accessGroup: ""), CredentialSlot(service: "a", account: "b"),
            CredentialSlot(service: "a", account: "b\u{0}c"), CredentialSlot(service: "", account: ""),
            CredentialSlot(service: "../..", account: "/etc/passwd"),
            CredentialSlot(service: "a", account: "b", issuer: "c"),
            CredentialSlot(service: "a", account: "b", issuer: ""),
            CredentialSlot(service: "b", account: "c", issuer: "a"),
        ]
        let names = try slots.map { try CredentialPlace($0, in: "/d").name }
        #expect(Set(names).count == slots.count)
        for name in names { #expect(name.wholeMatch(of: /[0-9a-f]{64}\.credential/) != nil) }
    }
}
