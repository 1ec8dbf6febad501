import ChappieAuth
import Glibc
import Testing

@testable import ChappieCrypto

struct LeftoverTests {
    private static let leftover = TemporaryName.make(from: [UInt8](repeating: 0xAB, count: TemporaryName.randomCount))

    @Test func whatAKilledWriterLeftGoesWithTheNextSaveOrSignOut() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("x"), in: .mine)
        let file = try store.path(of: .mine).split(separator: "/").last.map(String.init)
        for act in ["save", "delete"] {
            try Files.write([1, 2, 3], to: folder.credentials + "/" + Self.leftover)
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
