@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Foundation
import Glibc
import TestFixtures
import Testing

@testable import ChappieCrypto

struct StoreTests {
    @Test(arguments: CredentialStoreContract.cases)
    func keepsTheContract(_ demand: CredentialStoreContract.Case) async throws {
        let it = try await PrivateStore(saving: "beside")
        try await demand.run(it.store)
        #expect(try await it.store.load(.mine)?.text == "beside")
        try await it.store.delete(.mine)
        #expect(try it.names.isEmpty)
    }

    @Test func `a wrong passphrase is not corruption and destroys nothing`() async throws {
        let it = try await PrivateStore(saving: "kept")
        let before = try Files.read(it.path)
        let wrong = try it.store(FixedPassphrase(Secret("battery staple")))
        await it.expectRefusals("wrongPassphrase", saying: try it.path, of: wrong)
        #expect(try Files.read(it.path) == before)
        #expect(try it.names.count == 1)
        #expect(try await it.store.load(.mine)?.text == "kept")
    }

    @Test func `a person who forgot the passphrase can still sign out`() async throws {
        let it = try await PrivateStore(saving: "x")
        let silent = try it.store(FirstPassphrase([]))
        try await silent.delete(.mine)
        #expect(try it.names.isEmpty)
        #expect(try await silent.load(.mine) == nil)
    }

    @Test func `every save has its own nonce, and the slots of a passphrase share a salt`() async throws {
        let it = try await PrivateStore()
        var files: [CredentialFile] = []
        for slot in Array(repeating: CredentialSlot.mine, count: 20) + [.yours] {
            try await it.store.save(Secret("the same"), in: slot)
            files.append(try it.file(of: slot))
        }
        #expect(Set(files.map(\.nonce)).count == 21)
        #expect(Set(files.map(\.salt)).count == 1)
        // The next process has not opened a file yet. Another passphrase has its own salt.
        for (slot, passphrase, isShared) in [("third", "correct horse", true), ("fourth", "another one", false)] {
            let slot = CredentialSlot(account: slot)
            try await it.store(FixedPassphrase(Secret(passphrase))).save(Secret("the same"), in: slot)
            #expect(try (it.file(of: slot).salt == files[0].salt) == isShared)
            #expect(try await it.store(FixedPassphrase(Secret(passphrase))).load(slot)?.text == "the same")
        }
    }

    @Test func `weaker parameters are read, and the next save replaces them`() async throws {
        let weak = try await PrivateStore(saving: "old")
        let before = try weak.file()
        let strong = try weak.store(parameters: .sample(4, 2, 2))
        #expect(try await strong.load(.mine)?.text == "old")
        #expect(try weak.file() == before)
        try await strong.save(Secret("new"), in: .mine)
        let after = try weak.file()
        #expect(after.parameters == .sample(4, 2, 2))
        #expect(after.salt != before.salt)
        #expect(try await strong.load(.mine)?.text == "new")
        // Never back: a store with weaker parameters keeps what it finds.
        try await weak.store.save(Secret("newer"), in: .mine)
        #expect(try weak.file().parameters == .sample(4, 2, 2))
        #expect(try await weak.store.load(.mine)?.text == "newer")
    }

    @Test func `the file shows no text of the credential, the passphrase or the slot`() async throws {
        let it = try await PrivateStore()
        let slot = CredentialSlot(service: "com.visible.service", account: "visible@example.com")
        try await it.store.save(Secret("a visible credential"), in: slot)
        let path = try it.store.path(of: slot)
        let text = String(decoding: try Files.read(path), as: UTF8.self) + path
        for word in ["visible", "credential\"", "correct", "horse", "example.com"] { #expect(!text.contains(word)) }
    }

    @Test func `an empty and a longest secret are returned, and a longer one is refused`() async throws {
        let it = try await PrivateStore()
        for count in [0, CredentialFile.secretLimit] {
            let secret = Secret([UInt8](repeating: 42, count: count))
            try await it.store.save(secret, in: .mine)
            #expect(try await it.store.load(.mine) == secret)
        }
        let longer = Secret([UInt8](repeating: 42, count: CredentialFile.secretLimit + 1))
        await refusal("failed") { try await it.store.save(longer, in: .mine) }
        #expect(try await it.store.load(.mine)?.count == CredentialFile.secretLimit)
    }

    @Test func twoStoresOfOneFolderSeeEachOther() async throws {
        let one = try await PrivateStore(saving: "1")
        let other = try one.store()
        #expect(try await other.load(.mine)?.text == "1")
        try await other.save(Secret("2"), in: .mine)
        #expect(try await one.store.load(.mine)?.text == "2")
        try await one.store.delete(.mine)
        #expect(try await other.load(.mine) == nil)
    }

    @Test(arguments: ["relative", "", "/with\u{0}nul"])
    func theFolderIsNeverARelativeOne(path: String) async {
        await refusal("failed") { _ = try PrivateStore.store(in: path) }
    }

    /// One sentence and one remedy for each, with the file's name and without a secret.
    @Test func everyErrorHasAWordForAPerson() async throws {
        let it = try await PrivateStore(saving: "s3cret-token")
        let wrong = try it.store(FixedPassphrase(Secret("s3cret-other")))
        var errors = [await refusal("wrongPassphrase") { _ = try await wrong.load(.mine) }]
        try Files.set(0o644, of: it.path)
        errors.append(await refusal("unsafeFile") { _ = try await it.store.load(.mine) })
        try Files.write(Array("s3cret".utf8), to: it.path, mode: 0o600)
        errors.append(await refusal("corrupt") { _ = try await it.store.load(.mine) })
        for error in errors {
            let text = "\(error?.errorDescription ?? "") \(error?.recoverySuggestion ?? "")"
            #expect(text.contains(try it.path))
            #expect(!text.contains("s3cret"))
            #expect(error?.recoverySuggestion?.isEmpty == false)
        }
    }

    @Test(
        arguments: [
            (.success(true), false, .cancelled), (.success(false), true, .notVerified),
            (.failure(.corrupt("disk")), true, .notVerified),
        ] as [(Result<Bool, CredentialStoreError>, Bool, CredentialStoreError)])
    func aSaveThatIsCancelledOrReadBackWrongReplacesNothing(
        isSound: Result<Bool, CredentialStoreError>, isWanted: Bool, error: CredentialStoreError
    ) async throws {
        let it = try await PrivateStore(saving: "old")
        let before = try it.file()
        let place = try CredentialPlace(.mine, in: it.credentials)
        #expect(throws: error) {
            try place.write(before, isWanted: { isWanted }) { _ throws(CredentialStoreError) in try isSound.get() }
        }
        #expect(try it.file() == before)
        #expect(try it.names == [place.name])
    }

    // MARK: Files that killed writers left

    private static let leftover = "." + String(repeating: "ab", count: 16) + ".writing"

    @Test func `the next save or sign-out removes what a killed writer left`() async throws {
        let it = try await PrivateStore(saving: "x")
        for act in ["save", "delete"] {
            try Files.write([1, 2, 3], to: "\(it.credentials)/\(Self.leftover)", mode: 0o600)
            if act == "save" {
                try await it.store.save(Secret("y"), in: .mine)
            } else {
                try await it.store.delete(.yours)
            }
            #expect(try it.names.map { "\(it.credentials)/\($0)" } == [it.path])
        }
    }

    @Test func aWriterThatLivesKeepsItsFile() async throws {
        let it = try await PrivateStore(saving: "x")
        let path = try Files.write([1, 2, 3], to: "\(it.credentials)/\(Self.leftover)", mode: 0o600)
        let writer = open(path, O_WRONLY | O_CLOEXEC)
        #expect(flock(writer, LOCK_EX | LOCK_NB) == 0)
        try await it.store.save(Secret("y"), in: .mine)
        #expect(try Files.read(path) == [1, 2, 3])
        // In so many words: a program that is just being started may have a copy of the descriptor.
        flock(writer, LOCK_UN)
        close(writer)
        try await it.store.save(Secret("z"), in: .mine)
        #expect(try it.names.count == 1)
    }

    @Test func whatIsNotALeftoverStays() async throws {
        let it = try await PrivateStore(saving: "x")
        let strangers = ["notes.txt", ".hidden", ".writing", Self.leftover + "x"]
        for name in strangers { try Files.write([7], to: "\(it.credentials)/\(name)") }
        // Of the right name and the wrong kind.
        #expect(symlink("/", "\(it.credentials)/\(Self.leftover)") == 0)
        try await it.store.save(Secret("y"), in: .mine)
        #expect(try it.names.count == strangers.count + 2)
    }
}
