import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import Foundation
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    /// The bytes that go over the wire.
    @Suite struct RequestTests {
        @Test func addsNothingButHostAndLength() async throws {
            let get = try await received(.get)
            #expect(get.method == "GET")
            #expect(get.headerFields.map { $0.name.lowercased() } == ["host"])
            let post = try await received(.post, body: .init(bytes: [1, 2, 3]))
            #expect(Set(post.headerFields.map { $0.name.lowercased() }) == ["host", "content-length"])
            #expect(post.body == [1, 2, 3])
        }

        @Test func sendsFieldsAsGiven() async throws {
            let empty = try #require(HTTPField.Name("x-empty"))
            let twice = try #require(HTTPField.Name("x-twice"))
            let received = try await received(
                .put, "/a%2Fb/../c?d=e%20f#part",
                [
                    .userAgent: "chappie/1.0", .accept: "text/event-stream", .contentLength: "12345",
                    .transferEncoding: "chunked", empty: "", twice: "one", twice: "two",
                ])
            #expect(received.target == "/a%2Fb/../c?d=e%20f")
            #expect(received.method == "PUT")
            #expect(received.header("user-agent") == "chappie/1.0")
            #expect(received.header("accept") == "text/event-stream")
            #expect(received.header("content-length") == "0")
            #expect(received.header("transfer-encoding") == nil)
            #expect(received.header("x-empty") == "")
            #expect(received.headerFields.filter { $0.name == "x-twice" }.map(\.value) == ["one", "two"])
        }

        @Test(arguments: Adapter.allCases, [HTTPRequest.Method.get, .head, .post, .put, .patch, .delete, .options])
        func sendsEveryMethodWithAndWithoutABody(_ adapter: Adapter, method: HTTPRequest.Method) async throws {
            #expect(try await received(method, by: adapter).method == method.rawValue)
            guard method != .head, adapter == .curl || method != .get else { return }
            let large = [UInt8](repeating: 9, count: 3 << 20)
            let received = try await received(method, body: .init(bytes: large), by: adapter)
            #expect(received.method == method.rawValue)
            #expect(received.body == large)
            #expect(received.header("expect") == nil)
        }

        /// URLSession adds fields of its own, and its SDK has no zstd.
        @Test func urlSessionAsksForNoCodingAndUsesNone() async throws {
            let empty = try #require(HTTPField.Name("x-empty"))
            let twice = try #require(HTTPField.Name("x-twice"))
            let received = try await received(
                .put, "/a%2Fb?d=e%20f#part",
                [
                    .userAgent: "chappie/1.0", .contentLength: "12345", .transferEncoding: "chunked",
                    .contentType: "text/plain", empty: "", twice: "one", twice: "two",
                ], body: .init(bytes: Array("plain".utf8), coding: .zstd), by: .urlSession)
            #expect(received.target == "/a%2Fb?d=e%20f")
            #expect(received.header("user-agent") == "chappie/1.0")
            #expect(received.header("accept-encoding") == "identity")
            #expect(received.header("content-encoding") == nil)
            #expect(received.header("content-length") == "5")
            #expect(received.header("transfer-encoding") == nil)
            #expect(received.header("content-type") == "text/plain")
            #expect(received.header("x-empty") == "")
            #expect(received.header("x-twice") == "one, two")
            #expect(received.header("cookie") == nil)
            #expect(received.body == Array("plain".utf8))
        }

        /// Read back by the zstd program.
        @Test func compressesABodyThatAsksForIt() async throws {
            let text = String(repeating: "{\"role\":\"user\",\"content\":\"hello\"}\n", count: 2000)
            let received = try await received(.post, body: .init(bytes: Array(text.utf8), coding: .zstd))
            #expect(received.header("content-encoding") == "zstd")
            #expect(received.header("content-length") == String(received.body.count))
            #expect(received.body.count < text.utf8.count / 10)
            let directory = try TemporaryDirectory()
            let file = directory.path("body.zst")
            try Data(received.body).write(to: URL(filePath: file))
            #expect(try await SystemProgram.zstd.run(["-d", "-c"], input: .file(file)) == text)
        }

        @Test(arguments: Adapter.allCases) func anotherOriginNeverSeesTheRequest(_ adapter: Adapter) async throws {
            let other = try await ScriptedServer.start { _ in .response(status: 200) }
            let location = try other.url("/there").absoluteString
            let server = try await ScriptedServer.start { _ in .response(status: 308, headers: [("location", location)])
            }
            let error = try await transportError {
                _ = try await adapter.makeTransport().fetch(
                    HTTPExchangeRequest(
                        method: .post, url: server.url("/a?secret=1"), headerFields: [.authorization: "Bearer secret"]))
            }
            #expect(error.code == .redirectRefused)
            #expect(!error.localizedDescription.contains("secret"))
            #expect(!error.localizedDescription.contains("there"))
            #expect(other.connectionCount == 0)
            await server.stop()
            await other.stop()
        }

        /// No cookie, no cache, no credential.
        @Test(arguments: Adapter.allCases) func nothingOfAnExchangeIsKept(_ adapter: Adapter) async throws {
            let server = try await ScriptedServer.start { _ in
                .response(
                    status: 200,
                    headers: [("set-cookie", "a=b; Path=/"), ("cache-control", "max-age=1000"), ("etag", "\"1\"")],
                    body: Array("again".utf8))
            }
            let transport = adapter.makeTransport()
            for _ in 0..<2 { #expect(try await transport.fetch(server.url()).body == Array("again".utf8)) }
            #expect(server.receivedRequests.count == 2)
            for request in server.receivedRequests {
                for name in ["cookie", "if-none-match", "authorization"] { #expect(request.header(name) == nil) }
            }
            await server.stop()
        }

        @Test(arguments: Adapter.allCases) func aChallengeIsAResponse(_ adapter: Adapter) async throws {
            let server = try await ScriptedServer.start { _ in
                .response(status: 401, headers: [("www-authenticate", "Bearer realm=\"here\"")], body: Array("no".utf8))
            }
            let (status, body) = try await adapter.makeTransport().fetch(server.url())
            #expect(status == 401 && body == Array("no".utf8))
            #expect(server.receivedRequests.count == 1)
            await server.stop()
        }

        /// The part of a request that a server received.
        private func received(
            _ method: HTTPRequest.Method, _ path: String = "/", _ fields: HTTPFields = [:],
            body: HTTPExchangeRequest.Body? = nil, by adapter: Adapter = .curl
        ) async throws -> ReceivedRequest {
            let server = try await ScriptedServer.start { _ in .response(status: 200) }
            let request = HTTPExchangeRequest(
                method: method, url: try server.url(path), headerFields: fields, body: body)
            #expect(try await adapter.makeTransport().fetch(request).status == 200)
            let received = try #require(server.receivedRequests.first)
            await server.stop()
            return received
        }
    }
}
