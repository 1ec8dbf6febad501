@_spi(ChappieInternals) import ChappieAuth
import Testing

@testable import ChappieCrypto

/// The file on the disk is not the written one: a typed error each time, and nothing is touched.
struct DamageTests {
    @Test func everyFlippedBitIsCorruptionAndDestroysNothing() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret(#"{"a":"credential"}"#), in: .mine)
        let path = try store.path(of: .mine)
        let whole = try Files.read(path)
        var corrupt = 0
        for offset in whole.indices {
            for mask in [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF] as [UInt8] {
                var damaged = whole
                damaged[offset] ^= mask
                try Files.write(damaged, to: path)
                let error = await storeError("byte \(offset), mask \(mask)") { _ = try await store.load(.mine) }
                if error?.isCorrupt == true { corrupt += 1 }
                #expect(try Files.read(path) == damaged)
            }
        }
        #expect(corrupt == whole.count * 9)
        try Files.write(whole, to: path)
        #expect(try await store.load(.mine)?.text == #"{"a":"credential"}"#)
        print("flips: \(whole.count) bytes with 9 masks each, \(corrupt) times corrupt")
    }

    @Test func everyTruncationIsCorruptionAndDestroysNothing() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret(#"{"a":"credential"}"#), in: .mine)
        let path = try store.path(of: .mine)
        let whole = try Files.read(path)
        var corrupt = 0
        for bytes in whole.indices.map({ Array(whole[..<$0]) }) + [whole + [0], whole + whole] {
            try Files.write(bytes, to: path)
            let error = await storeError("\(bytes.count) bytes") { _ = try await store.load(.mine) }
            if error?.isCorrupt == true { corrupt += 1 }
            #expect(try Files.read(path) == bytes)
        }
        #expect(corrupt == whole.count + 2)
        print("truncations: \(whole.count) lengths, \(corrupt - 2) times corrupt")
    }

    @Test func aDamagedFileNeedsNoPassphraseToBeToldAndIsReplacedByTheNextSave() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("old"), in: .mine)
        let path = try store.path(of: .mine)
        try Files.write(Array("garbage".utf8), to: path)
        let silent = try EncryptedFileCredentialStore(directory: folder.credentials, passphrase: FirstPassphrase([]))
        #expect(await storeError { _ = try await silent.load(.mine) }?.isCorrupt == true)
        try await store.save(Secret("new"), in: .mine)
        #expect(try await store.load(.mine)?.text == "new")
    }

    @Test func swappedFilesOfTwoAccountsDoNotOpen() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("of mine"), in: .mine)
        try await store.save(Secret("of yours"), in: .yours)
        let (mine, yours) = (try store.path(of: .mine), try store.path(of: .yours))
        let (first, second) = (try Files.read(mine), try Files.read(yours))
        try Files.write(second, to: mine)
        try Files.write(first, to: yours)
        for slot in [CredentialSlot.mine, .yours] {
            let error = await storeError { _ = try await store.load(slot) }
            #expect(error?.isCorrupt == true)
            #expect(error?.errorDescription?.contains("belongs to another account") == true)
        }
    }

    @Test func aFileOfAnotherServiceOrAccessGroupDoesNotOpen() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("of mine"), in: .mine)
        let stolen = try Files.read(store.path(of: .mine))
        for slot in [
            CredentialSlot(service: "another", account: "mine"), CredentialSlot(account: "mine", accessGroup: "TEAM"),
            CredentialSlot(account: "mine", accessGroup: ""),
        ] {
            try await store.save(Secret("another"), in: slot)
            try Files.write(stolen, to: store.path(of: slot))
            #expect(await storeError { _ = try await store.load(slot) }?.isCorrupt == true)
        }
    }
}
