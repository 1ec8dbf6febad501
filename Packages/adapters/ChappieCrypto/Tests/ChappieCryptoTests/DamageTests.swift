@_spi(ChappieInternals) import ChappieAuth
import TestFixtures
import Testing

@testable import ChappieCrypto

/// The file on the disk is not the written one: a typed error each time, and nothing is touched.
struct DamageTests {
    @Test func `every flipped bit or truncation is corruption and destroys nothing`() async throws {
        let it = try await PrivateStore(saving: #"{"a":"credential"}"#)
        let whole = try Files.read(it.path)
        let masks: [UInt8] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF]
        let flipped = whole.indices.flatMap { offset in
            masks.map { mask in
                var damaged = whole
                damaged[offset] ^= mask
                return damaged
            }
        }
        let cut = whole.indices.map { Array(whole[..<$0]) } + [whole + [0], whole + whole]
        for damaged in flipped + cut {
            try Files.write(damaged, to: it.path)
            await refusal("corrupt", "\(damaged.count) bytes") { _ = try await it.store.load(.mine) }
            #expect(try Files.read(it.path) == damaged)
        }
        try Files.write(whole, to: it.path)
        #expect(try await it.store.load(.mine)?.text == #"{"a":"credential"}"#)
        print("damage: \(flipped.count) flips, \(cut.count) other lengths")
    }

    @Test func `a damaged file is detected without a passphrase and replaced by a save`() async throws {
        let it = try await PrivateStore(saving: "old")
        try Files.write(Array("garbage".utf8), to: it.path)
        let silent = try it.store(FirstPassphrase([]))
        await refusal("corrupt") { _ = try await silent.load(.mine) }
        try await it.store.save(Secret("new"), in: .mine)
        #expect(try await it.store.load(.mine)?.text == "new")
    }

    @Test(arguments: [
        CredentialSlot.yours, CredentialSlot(service: "another", account: "mine"),
        CredentialSlot(account: "mine", accessGroup: "TEAM"), CredentialSlot(account: "mine", accessGroup: ""),
        CredentialSlot(account: "mine", issuer: "http://127.0.0.1:1"),
    ])
    func aFileOfAnotherSlotDoesNotOpen(slot: CredentialSlot) async throws {
        let it = try await PrivateStore(saving: "of mine")
        try await it.store.save(Secret("another"), in: slot)
        try Files.write(Files.read(it.path), to: it.store.path(of: slot))
        await refusal("corrupt", saying: "belongs to another account") { _ = try await it.store.load(slot) }
    }
}
