import ChappieCore
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import Testing

extension OverTheWire {
    @Suite struct ContractTests {
        @Test(arguments: WebSocketTransportContract.cases)
        func theCurlTransportKeepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
            let server = try WebSocketTransportContract.startServer()
            let transport = CurlWebSocketTransport(policy: ChappieNetworkPolicy(proxy: .none))
            do {
                try await contractCase.run(transport, at: WebSocketTransportContract.baseURL(of: server))
            } catch {
                Issue.record(error)
            }
            transport.shutdown()
            server.stop()
        }

        @Test(arguments: WebSocketTransportContract.cases)
        func theScriptedTransportKeepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
            try await contractCase.run(WebSocketTransportContract.makeFake(), at: makeURL("ws://127.0.0.1:8080"))
        }
    }
}
