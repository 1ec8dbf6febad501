import ChappieTesting
import Testing

/// What every credential store does, on the real gnome-keyring.
struct ContractTests {
    @Test(arguments: CredentialStoreContract.cases)
    func keepsTheContract(_ demand: CredentialStoreContract.Case) async throws {
        let keyring = try await PrivateKeyring()
        try await demand.run(keyring.store)
    }
}
