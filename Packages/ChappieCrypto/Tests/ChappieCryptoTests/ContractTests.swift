import ChappieAuth
import ChappieTesting
import Testing

@testable import ChappieCrypto

struct ContractTests {
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
}
