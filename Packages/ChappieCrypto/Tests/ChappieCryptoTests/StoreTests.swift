@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Glibc
import Testing

@testable import ChappieCrypto

struct StoreTests {
    @Test(arguments: CredentialStoreContract.cases)
    func keepsTheContract(_ demand: CredentialStoreContract.Case) async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("beside"), in: .mine)
        try await demand.run(store)
        #expect(try await store.load(.mine)?.text == "beside")
        try await store.delete(.mine)
        #expect(try folder.names().isEmpty)
    }

    @Test func aWrongPassphraseIsNotCorruptionAndDestroysNothing() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("kept"), in: .mine)
        let path = try store.path(of: .mine)
        let before = try Files.read(path)
        let wrong = try EncryptedFileCredentialStore.cheap(folder, passphrase: "battery staple")
        await #expect(throws: CredentialStoreError.wrongPassphrase(path)) { try await wrong.load(.mine) }
        await #expect(throws: CredentialStoreError.wrongPassphrase(path)) {
            try await wrong.save(Secret("x"), in: .mine)
        }
        #expect(try Files.read(path) == before)
        #expect(try folder.names().count == 1)
        #expect(try await store.load(.mine)?.text == "kept")
    }

    @Test func aForgottenPassphraseStillLetsAPersonSignOut() async throws {
        let folder = try PrivateFolder()
        try await EncryptedFileCredentialStore.cheap(folder).save(Secret("x"), in: .mine)
        let silent = try EncryptedFileCredentialStore(directory: folder.credentials, passphrase: FirstPassphrase([]))
        try await silent.delete(.mine)
        #expect(try folder.names().isEmpty)
        #expect(try await silent.load(.mine) == nil)
    }

    @Test func everySaveHasANonceOfItsOwnAndKeepsTheSalt() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        var nonces: Set<[UInt8]> = []
        var salts: Set<[UInt8]> = []
        for _ in 0..<20 {
            try await store.save(Secret("the same"), in: .mine)
            let file = try store.file(of: .mine)
            nonces.insert(file.nonce)
            salts.insert(file.salt)
        }
        #expect(nonces.count == 20)
        #expect(salts.count == 1)
    }

    @Test func twoSlotsHaveTwoSalts() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("a"), in: .mine)
        try await store.save(Secret("a"), in: .yours)
        #expect(try store.file(of: .mine).salt != store.file(of: .yours).salt)
    }

    @Test func weakerParametersAreReadAndLeftBehindAtTheNextSave() async throws {
        let folder = try PrivateFolder()
        let weak = try EncryptedFileCredentialStore.cheap(folder)
        try await weak.save(Secret("old"), in: .mine)
        let before = try weak.file(of: .mine)
        let strong = try EncryptedFileCredentialStore.cheap(folder, parameters: .sample(4, 2, 2))
        #expect(try await strong.load(.mine)?.text == "old")
        #expect(try strong.file(of: .mine) == before)
        try await strong.save(Secret("new"), in: .mine)
        let after = try strong.file(of: .mine)
        #expect(after.parameters == .sample(4, 2, 2))
        #expect(after.salt != before.salt)
        #expect(try await strong.load(.mine)?.text == "new")
        // Never back: a store with weaker parameters keeps what it finds.
        try await weak.save(Secret("newer"), in: .mine)
        #expect(try weak.file(of: .mine).parameters == .sample(4, 2, 2))
        #expect(try await weak.load(.mine)?.text == "newer")
    }

    @Test func nothingThatIsNeitherCredentialNorPassphraseStandsOpenInTheFile() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        let slot = CredentialSlot(service: "com.visible.service", account: "visible@example.com")
        try await store.save(Secret("a visible credential"), in: slot)
        let path = try store.path(of: slot)
        let text = String(decoding: try Files.read(path), as: UTF8.self) + path
        for word in ["visible", "credential\"", "correct", "horse", "example.com"] { #expect(!text.contains(word)) }
    }

    @Test func anEmptySecretAndTheLongestComeBackAndALongerOneIsRefused() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        for count in [0, CredentialFile.secretLimit] {
            let secret = Secret([UInt8](repeating: 42, count: count))
            try await store.save(secret, in: .mine)
            #expect(try await store.load(.mine) == secret)
        }
        let longer = Secret([UInt8](repeating: 42, count: CredentialFile.secretLimit + 1))
        #expect(await storeError { try await store.save(longer, in: .mine) }?.isFailed == true)
        #expect(try await store.load(.mine)?.count == CredentialFile.secretLimit)
    }

    @Test func twoStoresOfOneFolderSeeEachOther() async throws {
        let folder = try PrivateFolder()
        let (one, other) = (
            try EncryptedFileCredentialStore.cheap(folder), try EncryptedFileCredentialStore.cheap(folder)
        )
        try await one.save(Secret("1"), in: .mine)
        #expect(try await other.load(.mine)?.text == "1")
        try await other.save(Secret("2"), in: .mine)
        #expect(try await one.load(.mine)?.text == "2")
        try await one.delete(.mine)
        #expect(try await other.load(.mine) == nil)
    }

    @Test func theFolderIsThatOfTheDataAndNeverARelativeOne() throws {
        let directory = EncryptedFileCredentialStore.directory(in:)
        #expect(directory(["XDG_DATA_HOME": "/d", "HOME": "/h"]) == "/d/chappie/credentials")
        #expect(directory(["XDG_DATA_HOME": "d", "HOME": "/h"]) == "/h/.local/share/chappie/credentials")
        #expect(directory(["HOME": "/h"]) == "/h/.local/share/chappie/credentials")
        #expect(directory(["HOME": ""]) == nil)
        #expect(directory([:]) == nil)
        for path in ["relative", "", "/with\u{0}nul"] {
            let error = #expect(throws: CredentialStoreError.self) {
                try EncryptedFileCredentialStore(directory: path, passphrase: FirstPassphrase([]))
            }
            #expect(error?.isFailed == true)
        }
    }

    /// One sentence and one remedy for each, with the file's name and without a secret.
    @Test func everyErrorHasAWordForAPerson() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder, passphrase: "s3cret-passphrase")
        try await store.save(Secret("s3cret-token"), in: .mine)
        let path = try store.path(of: .mine)
        let wrong = try EncryptedFileCredentialStore.cheap(folder, passphrase: "s3cret-other")
        var errors = [await storeError { _ = try await wrong.load(.mine) }]
        try Files.set(0o644, of: path)
        errors.append(await storeError { _ = try await store.load(.mine) })
        try Files.set(0o600, of: path)
        try Files.write(Array("s3cret".utf8), to: path)
        errors.append(await storeError { _ = try await store.load(.mine) })
        for error in errors {
            let text = "\(error?.errorDescription ?? "") \(error?.recoverySuggestion ?? "")"
            #expect(text.contains(path))
            #expect(!text.contains("s3cret"))
            #expect(error?.recoverySuggestion?.isEmpty == false)
        }
    }

    @Test func aSaveThatIsCancelledReplacesNothing() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("old"), in: .mine)
        let before = try Files.read(store.path(of: .mine))
        let place = try CredentialPlace(.mine, in: folder.credentials)
        let file = try CredentialFile(before, path: place.path)
        #expect(throws: CredentialStoreError.cancelled) {
            try place.write(file, isWanted: { false }) { _ throws(CredentialStoreError) in true }
        }
        #expect(throws: CredentialStoreError.notVerified) {
            try place.write(file, isWanted: { true }) { _ throws(CredentialStoreError) in false }
        }
        #expect(throws: CredentialStoreError.notVerified) {
            try place.write(file, isWanted: { true }) { _ throws(CredentialStoreError) in throw .corrupt("disk") }
        }
        #expect(try Files.read(store.path(of: .mine)) == before)
        #expect(try folder.names() == [place.name])
    }

    // MARK: Files that killed writers left

    private static let leftover = "." + String(repeating: "ab", count: 16) + ".writing"

    @Test func whatAKilledWriterLeftGoesWithTheNextSaveOrSignOut() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        let file = try store.path(of: .mine).split(separator: "/").last.map(String.init)
        for act in ["save", "delete"] {
            try Files.write([1, 2, 3], to: folder.credentials + "/" + Self.leftover)
            try Files.set(0o600, of: folder.credentials + "/" + Self.leftover)
            if act == "save" { try await store.save(Secret("y"), in: .mine) } else { try await store.delete(.yours) }
            #expect(try folder.names() == [file])
        }
    }

    @Test func aWriterThatLivesKeepsItsFile() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        let path = folder.credentials + "/" + Self.leftover
        try Files.write([1, 2, 3], to: path)
        try Files.set(0o600, of: path)
        let writer = open(path, O_WRONLY | O_CLOEXEC)
        #expect(flock(writer, LOCK_EX | LOCK_NB) == 0)
        try await store.save(Secret("y"), in: .mine)
        #expect(try Files.read(path) == [1, 2, 3])
        // In so many words: a program that is just being started may have a copy of the descriptor.
        flock(writer, LOCK_UN)
        close(writer)
        try await store.save(Secret("z"), in: .mine)
        #expect(try folder.names().count == 1)
    }

    @Test func whatIsNotALeftoverStays() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        let strangers = [
            "notes.txt", ".hidden", ".writing", Self.leftover + "x",
            "." + String(repeating: "g", count: 32) + ".writing",
        ]
        for name in strangers { try Files.write([7], to: folder.credentials + "/" + name) }
        // Of the right name and the wrong kind.
        #expect(symlink(folder.path, folder.credentials + "/" + Self.leftover) == 0)
        try await store.save(Secret("y"), in: .mine)
        #expect(try folder.names().count == strangers.count + 2)
    }
}
