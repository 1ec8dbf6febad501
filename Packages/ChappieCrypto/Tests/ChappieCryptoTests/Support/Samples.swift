import ChappieAuth
import Testing

@testable import ChappieCrypto

/// Keys that cost nothing.
extension ScryptParameters {
    static let cheap = sample(1, 1, 1)

    static func sample(_ costExponent: Int, _ blockSize: Int, _ parallelism: Int) -> ScryptParameters {
        guard let it = ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism)
        else { preconditionFailure("The sample is out of bounds.") }
        return it
    }
}

extension EncryptedFileCredentialStore {
    static func cheap(
        _ folder: PrivateFolder, passphrase: String = "correct horse", parameters: ScryptParameters = .cheap
    ) throws -> EncryptedFileCredentialStore {
        try EncryptedFileCredentialStore(
            directory: folder.credentials, passphrase: FixedPassphrase(Secret(passphrase)), parameters: parameters)
    }

    /// What lies in the file of `slot`.
    func file(of slot: CredentialSlot) throws -> CredentialFile {
        let path = try path(of: slot)
        return try CredentialFile(try Files.read(path), path: path)
    }
}

extension CredentialSlot {
    static let mine = CredentialSlot(account: "mine")
    static let yours = CredentialSlot(account: "yours")
    /// Of `FileStoreWriter`.
    static let writer = CredentialSlot(service: "com.chappie.writer", account: "default")
}

extension Secret {
    var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }
}

extension CredentialStoreError {
    var isCorrupt: Bool { if case .corrupt = self { true } else { false } }
    var isUnsafe: Bool { if case .unsafeFile = self { true } else { false } }
    var isFailed: Bool { if case .failed = self { true } else { false } }
    var isNoPassphrase: Bool { if case .noPassphrase = self { true } else { false } }
    var isWrongPassphrase: Bool { if case .wrongPassphrase = self { true } else { false } }
}

/// What `body` throws; an issue when it throws nothing or something else.
func storeError(
    _ what: String = "", sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
) async -> CredentialStoreError? {
    await #expect(throws: CredentialStoreError.self, "\(what)", sourceLocation: sourceLocation) { try await body() }
}

func bytes(hex: String) -> [UInt8] {
    let digits = hex.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue).map(UInt8.init)
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
