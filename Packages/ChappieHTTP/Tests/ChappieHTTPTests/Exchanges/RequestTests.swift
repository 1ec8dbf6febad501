import ChappieCore
import ChappieHTTP
import ChappieSimulator
import Foundation
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    /// What goes over the wire.
    @Suite struct RequestTests {
        @Test func addsNothingButHostAndLength() async throws {
            let received = try await received(HTTPExchangeRequest(url: makeURL("http://localhost/")))
            #expect(received.method == "GET")
            #expect(received.headerFields.map { $0.name.lowercased() } == ["host"])

            let post = try await self.received(
                HTTPExchangeRequest(method: .post, url: makeURL("http://localhost/"), body: .init(bytes: [1, 2, 3])))
            #expect(Set(post.headerFields.map { $0.name.lowercased() }) == ["host", "content-length"])
            #expect(post.body == [1, 2, 3])
        }

        @Test func sendsFieldsAsGiven() async throws {
            var request = HTTPExchangeRequest(
                method: .put, url: try makeURL("http://localhost/a%2Fb/../c?d=e%20f#part"))
            request.headerFields[.userAgent] = "chappie/1.0"
            request.headerFields[.accept] = "text/event-stream"
            request.headerFields[.contentLength] = "12345"
            request.headerFields[.transferEncoding] = "chunked"
            request.headerFields[HTTPField.Name("x-empty")!] = ""
            request.headerFields.append(HTTPField(name: HTTPField.Name("x-twice")!, value: "one"))
            request.headerFields.append(HTTPField(name: HTTPField.Name("x-twice")!, value: "two"))
            let received = try await received(request)
            #expect(received.target == "/a%2Fb/../c?d=e%20f")
            #expect(received.method == "PUT")
            #expect(received.header("user-agent") == "chappie/1.0")
            #expect(received.header("accept") == "text/event-stream")
            #expect(received.header("content-length") == "0")
            #expect(received.header("transfer-encoding") == nil)
            #expect(received.header("x-empty") == "")
            #expect(received.headerFields.filter { $0.name == "x-twice" }.map(\.value) == ["one", "two"])
        }

        @Test(arguments: [HTTPRequest.Method.get, .head, .post, .put, .patch, .delete, .options])
        func sendsEveryMethodWithAndWithoutABody(method: HTTPRequest.Method) async throws {
            let url = try makeURL("http://localhost/")
            #expect(try await received(HTTPExchangeRequest(method: method, url: url)).method == method.rawValue)
            guard method != .head else { return }
            let large = [UInt8](repeating: 9, count: 3 << 20)
            let received = try await received(HTTPExchangeRequest(method: method, url: url, body: .init(bytes: large)))
            #expect(received.method == method.rawValue)
            #expect(received.body == large)
            #expect(received.header("expect") == nil)
        }

        /// Read back by the zstd program.
        @Test func compressesABodyThatAsksForIt() async throws {
            let text = Array(String(repeating: "{\"role\":\"user\",\"content\":\"hello\"}\n", count: 2000).utf8)
            let received = try await received(
                HTTPExchangeRequest(
                    method: .post, url: makeURL("http://localhost/"), body: .init(bytes: text, coding: .zstd)))
            #expect(received.header("content-encoding") == "zstd")
            #expect(received.header("content-length") == String(received.body.count))
            #expect(received.body.count < text.count / 10)
            let directory = try TemporaryDirectory()
            let file = directory.path("body.zst")
            try Data(received.body).write(to: URL(filePath: file))
            let read = try await SystemProgram.zstd.run(["-d", "-c"], input: .file(file))
            #expect(read == String(decoding: text, as: UTF8.self))
        }

        @Test func keepsNoCookies() async throws {
            let server = try await ScriptedServer.start { _ in
                .response(status: 200, headers: [("set-cookie", "a=b; Path=/")])
            }
            let transport = makeTransport()
            for _ in 0..<2 { _ = try await transport.fetch(server.url()) }
            #expect(server.receivedRequests.count == 2)
            #expect(server.receivedRequests.allSatisfy { $0.header("cookie") == nil })
            await server.stop()
        }

        @Test func anotherOriginNeverSeesTheRequest() async throws {
            let other = try await ScriptedServer.start { _ in .response(status: 200) }
            let location = try other.url("/there").absoluteString
            let server = try await ScriptedServer.start { _ in
                .response(status: 308, headers: [("location", location)])
            }
            let error = try await transportError {
                _ = try await makeTransport().fetch(
                    HTTPExchangeRequest(
                        method: .post, url: server.url("/a?secret=1"), headerFields: [.authorization: "Bearer secret"],
                        body: .init(bytes: [1])))
            }
            #expect(error.code == .redirectRefused)
            #expect(!error.localizedDescription.contains("secret"))
            #expect(!error.localizedDescription.contains("there"))
            #expect(other.connectionCount == 0)
            await server.stop()
            await other.stop()
        }

        /// What a server received of `request`, sent to it in place of `localhost`.
        private func received(_ request: HTTPExchangeRequest) async throws -> ReceivedRequest {
            let server = try await ScriptedServer.start { _ in .response(status: 200) }
            var request = request
            request.url = try makeURL(
                request.url.absoluteString.replacingOccurrences(of: "//localhost", with: "//127.0.0.1:\(server.port)"))
            #expect(try await makeTransport().fetch(request).status == 200)
            let received = try #require(server.receivedRequests.first)
            await server.stop()
            return received
        }
    }
}
