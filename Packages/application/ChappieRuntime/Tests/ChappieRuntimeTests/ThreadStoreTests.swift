import ChappieCore
import ChappieRuntime
import ChappieTesting
import Testing

struct ThreadStoreTests {
    @Test(arguments: ThreadStoreContract.cases)
    func theStoreInMemoryKeepsTheContract(_ contractCase: ThreadStoreContract.Case) async throws {
        try await contractCase.run(ChappieInMemoryThreadStore())
    }

    @Test(arguments: ThreadStoreContract.cases)
    func `a redacting store that removes nothing keeps the contract`(_ contractCase: ThreadStoreContract.Case)
        async throws
    {
        try await contractCase.run(ChappieRedactingThreadStore(wrapping: ChappieInMemoryThreadStore()) { $0 })
    }
}
