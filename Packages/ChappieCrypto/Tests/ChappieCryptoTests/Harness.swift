@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieCrypto

/// A folder for one test, removed with it.
final class PrivateFolder: Sendable {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    var path: String { directory.path }

    /// Where a store keeps its files.
    var credentials: String { path + "/credentials" }

    func names(in folder: String? = nil) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder ?? credentials).sorted()
    }

    /// Writes a file beside the credentials.
    func write(_ bytes: [UInt8], to name: String, mode: Int = 0o600) throws -> String {
        let file = path + "/" + name
        try Files.write(bytes, to: file)
        try Files.set(mode, of: file)
        return file
    }
}

enum Files {
    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }

    /// In place: its mode and its other names stay.
    static func write(_ bytes: [UInt8], to path: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    static func set(_ mode: Int, of path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    static func mode(of path: String) throws -> Int? {
        (try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber)?.intValue
    }
}

/// The program `FileStoreWriter`, running. Its output is read, and its end awaited, on threads of the tests' own.
enum FileStoreWriter {
    static func start(_ arguments: [String]) throws -> RunningProgram {
        // SwiftPM puts the programs of a package beside its tests.
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(fileURLWithPath: tests).deletingLastPathComponent().path + "/FileStoreWriter"
        return try RunningProgram(program, arguments, input: .held, output: .pipe, errors: .inherited)
    }
}

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

    /// The content of the file of `slot`.
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

/// The error that `body` throws; an issue when it throws nothing or something else.
func storeError(
    _ words: String = "", sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
) async -> CredentialStoreError? {
    await #expect(throws: CredentialStoreError.self, "\(words)", sourceLocation: sourceLocation) { try await body() }
}

func bytes(hex: String) -> [UInt8] {
    let digits = hex.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue).map(UInt8.init)
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
