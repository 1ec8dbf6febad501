import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct ScriptedServerTests {
    @Test func answersSeveralRequestsOnOneConnectionInOrder() async throws {
        let server = try await ScriptedServer.start { request in
            .response(status: 200, headers: [("x-target", request.target)], body: request.body)
        }
        let client = try TestSocket(port: server.port)
        client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        #expect(client.receive(until: "hello").hasSuffix("x-target: /a\r\ncontent-length: 5\r\n\r\nhello"))
        client.send(
            "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                + "GET /c HTTP/1.1\r\nHost: x\r\n\r\n")
        let both = client.receive(until: "x-target: /c\r\ncontent-length: 0\r\n\r\n")
        #expect(both.contains("x-target: /b\r\ncontent-length: 5\r\n\r\nabcde"))
        #expect(server.receivedRequests.map(\.target) == ["/a", "/b", "/c"])
        #expect(server.receivedRequests.map(\.connection) == [0, 0, 0])
        #expect(server.receivedRequests[0].header("HOST") == "x")
        #expect(server.connectionCount == 1)
        await server.stop()
    }

    @Test func playsTwentyThousandTinyWritesWithoutGrowingTheStack() async throws {
        let server = try await ScriptedServer.start { _ in
            ScriptedAnswer(steps: Array(repeating: .send([0x78]), count: 20_000) + [.finish])
        }
        let client = try TestSocket(port: server.port)
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(client.receiveToEnd() == .endOfStream(String(repeating: "x", count: 20_000)))
        #expect(server.bytesWritten == 20_000)
        await server.stop()
    }

    @Test func bytesWrittenStandsStillWhileTheClientDoesNotRead() async throws {
        let size = 64 * 1024 * 1024
        let server = try await ScriptedServer.start { _ in
            ScriptedAnswer(steps: [.send(Array(repeating: 0x78, count: size)), .finish])
        }
        let client = try TestSocket(port: server.port)
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = client.receive(until: "x")
        #expect(server.bytesWritten < size)
        guard case .endOfStream = client.receiveToEnd() else {
            Issue.record("the connection did not end")
            return
        }
        #expect(server.bytesWritten == size)
        await server.stop()
    }

    @Test func refusesWhatIsNotHTTPAndGivesLeaveToContinue() async throws {
        let server = try await ScriptedServer.start { .response(status: 200, body: $0.body) }
        let noise = try TestSocket(port: server.port)
        noise.send("\u{16}\u{3}\u{1}\u{2} this is not HTTP\r\n\r\n")
        #expect(noise.receive(until: "\r\n\r\n").hasPrefix("HTTP/1.1 400 Bad Request"))
        let polite = try TestSocket(port: server.port)
        polite.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        #expect(polite.receive(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
        polite.send("ok")
        #expect(polite.receive(until: "ok").hasPrefix("HTTP/1.1 200 OK"))
        await server.stop()
    }
}
