import ChappieAuth
import ChappieFiles
import ChappieTesting
import FoundationEssentials
import TestFixtures
import Testing

/// A plain store with the lock and the notes of its machine.
struct SharedStoreTests {
    private let folder = try? TemporaryDirectory()

    @Test(arguments: SharedCredentialStoreContract.cases)
    func filesBesideTheCredentialKeepTheContract(_ contractCase: SharedCredentialStoreContract.Case) async throws {
        let folder = try #require(folder)
        try await contractCase.run {
            LocalCredentialStore(
                FolderStore(folder: folder.path("plain")), lock: FileCredentialLock(directory: folder.path("locks")))
        }
    }

    /// A store over files, without any care.
    private struct FolderStore: CredentialStore {
        let folder: String

        func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
            (try? Data(contentsOf: URL(filePath: "\(folder)/\(slot.account)"))).map { Secret(Array($0)) }
        }

        func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
            try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            do {
                try secret.withBytes { Data($0) }.write(
                    to: URL(filePath: "\(folder)/\(slot.account)"), options: .atomic)
            } catch {
                throw .failed("it can't be written")
            }
        }

        func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {
            try? FileManager.default.removeItem(atPath: "\(folder)/\(slot.account)")
        }
    }
}
