import ChappieCore
import ChappieSimulatorServer
import ChappieURLSession
import Foundation
import HTTPTypes
import Testing

/// What a server can do to a process that uses FoundationNetworking, shown in processes of their own. Apple's Foundation is
/// another program. If such a test fails, the fault is gone, and what leaves its case out may go: the cuts within a head in
/// ChappieHTTP's CutTests, and trailers.
@Suite struct CrashTests {
    @Test func aHeadThatBreaksOffEndsTheProcess() async {
        await #expect(processExitsWith: .failure) { await exchange("HTTP/1.1 200 OK\r\nx: a\r\n") }
    }

    @Test func trailersEndTheProcess() async {
        await #expect(processExitsWith: .failure) {
            await exchange("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n")
        }
    }

    /// The counterpart of the two: this process ends well.
    @Test func aRegularAnswerDoesNotEndTheProcess() async {
        await #expect(processExitsWith: .success) { await exchange("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok") }
    }
}

/// One exchange with a server that answers with `text` and closes.
private func exchange(_ text: String) async {
    do {
        let server = try await ScriptedServer.start { _ in ScriptedAnswer(steps: [.send(Array(text.utf8)), .finish]) }
        guard let url = URL(string: "http://127.0.0.1:\(server.port)/") else { return }
        let transport = URLSessionHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none))
        _ = try await transport.send(HTTPExchangeRequest(url: url)).body.collect(upTo: 100)
    } catch {
        // An error is a good end, too.
    }
}
