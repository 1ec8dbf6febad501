import ChappieAuth
import FoundationEssentials
import Glibc
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCrypto

/// The operator's keys, and what they seal.
struct SealingKeysTests {
    private static let first = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
    private static let second = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"
    private let slot = CredentialSlot(service: "com.example.chat", account: "user-17")

    private func file(_ text: String, mode: mode_t = 0o600, in folder: TemporaryDirectory) throws -> String {
        try folder.write(text, to: "keys")
        chmod(folder.path("keys"), mode)
        return folder.path("keys")
    }

    @Test func `the first line of a file is the current key, and the others open what they have sealed`() throws {
        let folder = try TemporaryDirectory()
        let old = try ChappieSealingKeys.file(file(Self.first + "\n", in: folder))
        let sealed = try old.seal(Secret("a credential"), for: slot, as: "credential")
        let new = try ChappieSealingKeys.file(file(Self.second + "\n" + Self.first + "\n", in: folder))
        #expect(new.currentID != old.currentID)
        #expect(try new.open(sealed, sealedBy: old.currentID, for: slot, as: "credential") == Secret("a credential"))
        let last = try ChappieSealingKeys.file(file(Self.second, in: folder))
        let error = #expect(throws: CredentialStoreError.self) {
            try last.open(sealed, sealedBy: old.currentID, for: slot, as: "credential")
        }
        #expect(error?.errorDescription?.contains("does not have") == true)
    }

    @Test func `what was sealed opens only for its slot and its purpose`() throws {
        let keys = try ChappieSealingKeys(current: Secret(Array(repeating: 1, count: 32)))
        let sealed = try keys.seal(Secret("a credential"), for: slot, as: "credential")
        let others = [
            CredentialSlot(service: "com.example.chatuser-17", account: ""),
            CredentialSlot(service: slot.service, account: slot.account, accessGroup: ""),
            CredentialSlot(service: slot.service, account: slot.account, issuer: ""),
        ]
        for other in others {
            #expect(throws: CredentialStoreError.self) {
                try keys.open(sealed, sealedBy: keys.currentID, for: other, as: "credential")
            }
        }
        #expect(throws: CredentialStoreError.self) {
            try keys.open(sealed, sealedBy: keys.currentID, for: slot, as: "note")
        }
        #expect(throws: CredentialStoreError.self) {
            try keys.open([], sealedBy: keys.currentID, for: slot, as: "credential")
        }
    }

    @Test(arguments: ["", "\n", "short", first + "\nnot a key", first + "AA"])
    func `a file without good keys is an error that names it and no key`(_ text: String) throws {
        let folder = try TemporaryDirectory()
        let path = try file(text, in: folder)
        let error = #expect(throws: CredentialStoreError.self) { try ChappieSealingKeys.file(path) }
        let words = error?.errorDescription ?? ""
        #expect(words.contains(path) && !words.contains(Self.first), "\(words)")
    }

    @Test func `a file that others may read is refused`() throws {
        let folder = try TemporaryDirectory()
        // Root decides who reads a file of its own.
        let path = try file(Self.first, mode: getuid() == 0 ? 0o662 : 0o644, in: folder)
        let error = #expect(throws: CredentialStoreError.self) { try ChappieSealingKeys.file(path) }
        #expect(error?.errorDescription?.contains("the keys in \(path)") == true)
    }

    @Test func `a missing file, folder or variable is an error`() throws {
        let folder = try TemporaryDirectory()
        for path in [folder.path("missing"), folder.path, "nul\0"] {
            #expect(throws: CredentialStoreError.self) { try ChappieSealingKeys.file(path) }
        }
        #expect(throws: CredentialStoreError.self) { try ChappieSealingKeys.environment("CHAPPIE_NO_SUCH_KEYS") }
        #expect(throws: CredentialStoreError.self) { try ChappieSealingKeys(current: Secret("short")) }
    }
}
