import ChappieCore
import ChappieHTTP
import ChappieSimulator
import FoundationEssentials
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct ExchangeTests {
        @Test func bringsBackStatusFieldsAndBody() async throws {
            let server = try await ScriptedServer.start { _ in
                .response(status: 404, headers: [("x-answer", "42")], body: Array("nothing here".utf8))
            }
            let transport = CurlHTTPTransport()
            let url = try #require(URL(string: "http://127.0.0.1:\(server.port)/a?b=c"))
            let response = try await transport.send(HTTPExchangeRequest(url: url))
            #expect(response.status.code == 404)
            #expect(response.headerFields[HTTPField.Name("x-answer")!] == "42")
            #expect(try await response.body.collect(upTo: 100) == Array("nothing here".utf8))
            #expect(server.receivedRequests.first?.target == "/a?b=c")
            await server.stop()
        }
    }
}
