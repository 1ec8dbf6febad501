import ChappieAuth
import ChappieTesting
import Testing

@Suite struct CredentialStoreContractTests {
    @Test(arguments: CredentialStoreContract.cases)
    func theStoreInMemoryKeepsTheContract(_ contractCase: CredentialStoreContract.Case) async throws {
        try await contractCase.run(InMemoryCredentialStore())
    }

    /// Forgets the access group and the issuer, as a store with too few attributes would.
    private struct Bleeding: CredentialStore {
        let inner = InMemoryCredentialStore()
        private func cut(_ slot: CredentialSlot) -> CredentialSlot {
            CredentialSlot(service: slot.service, account: slot.account)
        }
        func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
            try await inner.load(cut(slot))
        }
        func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
            try await inner.save(secret, in: cut(slot))
        }
        func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await inner.delete(cut(slot)) }
    }

    @Test func theContractCatchesAStoreWhoseSlotsBleed() async {
        var broken: [String] = []
        for contractCase in CredentialStoreContract.cases {
            do { try await contractCase.run(Bleeding()) } catch { broken.append(contractCase.name) }
        }
        #expect(
            broken == [
                "slots don't bleed: access groups", "slots don't bleed: an issuer and none",
                "slots don't bleed: an access group and none",
            ])
    }
}
