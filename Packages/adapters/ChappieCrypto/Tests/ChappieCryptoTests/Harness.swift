@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieCrypto

/// A folder for one test, removed with it, and a store in it whose keys cost nothing.
struct PrivateStore: Sendable {
    static let passphrase = Secret("correct horse")

    let folder: TemporaryDirectory
    let store: EncryptedFileCredentialStore

    /// - Parameter saved: is in the slot `mine` already.
    init(saving saved: String? = nil) async throws {
        folder = try TemporaryDirectory()
        store = try Self.store(in: folder.path("credentials"))
        if let saved { try await store.save(Secret(saved), in: .mine) }
    }

    var credentials: String { store.directory }
    /// The path of the slot `mine`.
    var path: String { get throws { try store.path(of: .mine) } }
    /// The names of all files beside each other.
    var names: [String] { get throws { try FileManager.default.contentsOfDirectory(atPath: credentials) } }

    /// Another store in the same folder.
    func store(
        _ source: any PassphraseSource = FixedPassphrase(passphrase), parameters: ScryptParameters = .cheap
    ) throws -> EncryptedFileCredentialStore {
        try Self.store(in: credentials, source, parameters: parameters)
    }

    static func store(
        in directory: String, _ source: any PassphraseSource = FixedPassphrase(passphrase),
        parameters: ScryptParameters = .cheap
    ) throws -> EncryptedFileCredentialStore {
        try EncryptedFileCredentialStore(directory: directory, passphrase: source, parameters: parameters)
    }

    /// The content of the file of `slot`.
    func file(of slot: CredentialSlot = .mine) throws -> CredentialFile {
        try CredentialFile(try Files.read(store.path(of: slot)), path: store.path(of: slot))
    }

    /// That a load and a save of `mine` both end in this refusal, with these words.
    func expectRefusals(
        _ kind: String, saying words: String, remedy: String = "", of store: EncryptedFileCredentialStore? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let store = store ?? self.store
        let load = await refusal(kind, saying: words, sourceLocation: sourceLocation) {
            _ = try await store.load(.mine)
        }
        let save = await refusal(kind, saying: words, sourceLocation: sourceLocation) {
            try await store.save(Secret("y"), in: .mine)
        }
        for error in [load, save] {
            let hasRemedy = remedy.isEmpty || error?.recoverySuggestion?.contains(remedy) == true
            #expect(hasRemedy, sourceLocation: sourceLocation)
        }
    }
}

enum Files {
    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path))) }

    /// In place: its mode and its other names stay, unless a mode is given.
    @discardableResult
    static func write(_ bytes: [UInt8], to path: String, mode: Int? = nil) throws -> String {
        try Data(bytes).write(to: URL(filePath: path))
        if let mode { try set(mode, of: path) }
        return path
    }

    static func set(_ mode: Int, of path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    static func mode(of path: String) throws -> Int? {
        (try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber)?.intValue
    }
}

/// The program `FileStoreWriter`, running. Its output is read, and its end awaited, on threads of the tests' own.
func startWriter(_ arguments: [String]) throws -> RunningProgram {
    // SwiftPM puts the programs of a package beside its tests.
    let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let program = URL(filePath: tests).deletingLastPathComponent().path + "/FileStoreWriter"
    return try RunningProgram(program, arguments, input: .held, output: .pipe, errors: .inherited)
}

extension ScryptParameters {
    /// Keys that cost nothing.
    static let cheap = sample(1, 1, 1)

    static func sample(_ costExponent: Int, _ blockSize: Int, _ parallelism: Int) -> ScryptParameters {
        guard let it = ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism)
        else { preconditionFailure("The sample is out of bounds.") }
        return it
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

func bytes(hex: String) -> [UInt8] {
    let digits = hex.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue).map(UInt8.init)
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
