import ChappieSDKTesting
import Testing

@testable import thread_store

@Test(arguments: ThreadStoreContract.cases)
func theTableKeepsTheContract(_ contractCase: ThreadStoreContract.Case) async throws {
    try await contractCase.run(Table())
}
