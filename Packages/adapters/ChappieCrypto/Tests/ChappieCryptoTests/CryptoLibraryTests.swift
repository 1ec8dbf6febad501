@_spi(ChappieInternals) import ChappieAuth
import Testing

@testable import ChappieCrypto

/// Published test vectors, through our own wrappers.
struct CryptoLibraryTests {
    /// RFC 7914, section 12: the first three; the fourth takes 1 GiB, which no file may.
    @Test(arguments: [
        (
            "", "", ScryptParameters.sample(4, 1, 1),
            """
            77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442
            fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906
            """
        ),
        (
            "password", "NaCl", .sample(10, 8, 16),
            """
            fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162
            2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640
            """
        ),
        (
            "pleaseletmein", "SodiumChloride", .sample(14, 8, 1),
            """
            7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2
            d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887
            """
        ),
    ])
    func scryptIsThatOfRFC7914(passphrase: String, salt: String, parameters: ScryptParameters, key: String) throws {
        let derived = try CryptoLibrary.scrypt(
            64, from: Secret(passphrase), salt: Array(salt.utf8), parameters: parameters)
        #expect(derived == bytes(hex: key))
    }

    private struct GCM: Sendable {
        let key, nonce, header, plaintext, ciphertext, tag: String
    }

    /// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B: the test cases of AES-256 that are in use
    /// here (13, 14, 16).
    private static let cases = [
        GCM(
            key: String(repeating: "00", count: 32), nonce: String(repeating: "00", count: 12), header: "",
            plaintext: "", ciphertext: "", tag: "530f8afbc74536b9a963b4f1c4cb738b"),
        GCM(
            key: String(repeating: "00", count: 32), nonce: String(repeating: "00", count: 12), header: "",
            plaintext: String(repeating: "00", count: 16), ciphertext: "cea7403d4d606b6e074ec5d3baf39d18",
            tag: "d0d1c8a799996bf0265b98b5d48ab919"),
        GCM(
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            nonce: "cafebabefacedbaddecaf888", header: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            plaintext: """
                d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39
                """,
            ciphertext: """
                522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
                8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
                """,
            tag: "76fc6ece0f4e1768cddf8853bb2d551b"),
    ]

    @Test(arguments: cases.indices)
    func encryptionIsThatOfThePublishedCases(index: Int) throws {
        let it = Self.cases[index]
        let (key, nonce, header) = (Secret(bytes(hex: it.key)), bytes(hex: it.nonce), bytes(hex: it.header))
        let sealed = try CryptoLibrary.encrypt(
            Secret(bytes(hex: it.plaintext)), key: key, nonce: nonce, authenticating: header)
        #expect(sealed.ciphertext == bytes(hex: it.ciphertext))
        #expect(sealed.tag == bytes(hex: it.tag))
        let opened = try CryptoLibrary.decrypt(
            sealed.ciphertext, tag: sealed.tag, key: key, nonce: nonce, authenticating: header)
        #expect(opened == Secret(bytes(hex: it.plaintext)))
        let forged = try CryptoLibrary.decrypt(
            sealed.ciphertext, tag: sealed.tag, key: key, nonce: nonce, authenticating: header + [0])
        #expect(forged == nil)
    }

    /// FIPS 180-4's example.
    @Test func theDigestIsSHA256() throws {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(try CryptoLibrary.digest(of: "abc".utf8) == bytes(hex: expected))
    }

    // MARK: scrypt's parameters, and keys

    @Test(arguments: [
        (0, 8, 1), (21, 8, 1), (255, 8, 1), (-1, 8, 1), (15, 0, 1), (15, 33, 1), (15, 65535, 1), (15, 8, 0),
        (15, 8, 17), (15, 8, 65535), (15, -8, 1), (15, 8, -1),
        // N must be below 2 to the power of 16 r.
        (16, 1, 1), (20, 1, 1),
        // 256 MiB of memory, 2²³ of work.
        (19, 8, 1), (18, 32, 1), (18, 8, 5), (20, 2, 5),
    ])
    func parametersBeyondTheBoundsAreRefused(costExponent: Int, blockSize: Int, parallelism: Int) {
        #expect(ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism) == nil)
    }

    @Test(arguments: [(1, 1, 1), (15, 1, 1), (18, 8, 4), (16, 32, 4), (20, 2, 4), (15, 8, 16)])
    func parametersAtTheBoundsAreTaken(costExponent: Int, blockSize: Int, parallelism: Int) {
        #expect(ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism) != nil)
    }

    @Test func theDefaultParametersWorkAndTake32MiB() throws {
        #expect(ScryptParameters.default == .sample(15, 8, 3))
        #expect(ScryptParameters.default.memory == 32 << 20)
        let keys = try (0..<2).map { _ in
            try CredentialSealer.Key(
                Secret("correct horse"), salt: [UInt8](repeating: 7, count: 16), parameters: .default)
        }
        #expect(keys[0].encryption == keys[1].encryption)
        #expect(keys[0].check == keys[1].check)
        #expect(Secret(keys[0].check) != keys[0].encryption)
    }

    @Test func weakerMeansLessWorkOrLessMemory() {
        let today = ScryptParameters.sample(10, 8, 2)
        #expect(!today.isWeaker(than: today))
        #expect(ScryptParameters.sample(10, 8, 1).isWeaker(than: today))
        #expect(ScryptParameters.sample(9, 8, 16).isWeaker(than: today))
        #expect(!ScryptParameters.sample(11, 8, 1).isWeaker(than: today))
    }

    /// One key at a time: another slot's or another passphrase's takes its place.
    @Test func `the key is kept for one file and never for another passphrase`() throws {
        let sealer = CredentialSealer(parameters: .cheap)
        let places = try [CredentialSlot.mine, .yours].map { try CredentialPlace($0, in: "/d") }
        let files = try places.map {
            try sealer.seal(Secret("x"), for: $0, replacing: nil, with: .passphrase(Secret("a")))
        }
        for _ in 0..<2 {
            for (place, file) in zip(places, files) {
                #expect(try sealer.open(file, at: place, with: .passphrase(Secret("a"))).text == "x")
                #expect(throws: CredentialStoreError.wrongPassphrase(place.path)) {
                    try sealer.open(file, at: place, with: .passphrase(Secret("b")))
                }
            }
        }
    }
}
