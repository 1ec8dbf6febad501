import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct ContractTests {
        @Test(.tags(.measured), arguments: Adapter.allCases, HTTPTransportContract.cases)
        func theAdapterKeepsTheContract(_ adapter: Adapter, _ contractCase: HTTPTransportContract.Case) async throws {
            let server = try await HTTPTransportContract.startServer()
            do {
                try await contractCase.run(adapter.makeTransport(), at: HTTPTransportContract.baseURL(of: server))
            } catch {
                Issue.record(error)
            }
            await server.stop()
        }

        @Test(arguments: HTTPTransportContract.cases)
        func theScriptedTransportKeepsTheContract(_ contractCase: HTTPTransportContract.Case) async throws {
            let url = try #require(URL(string: "http://127.0.0.1:8080"))
            try await contractCase.run(HTTPTransportContract.makeFake(), at: url)
        }
    }
}
