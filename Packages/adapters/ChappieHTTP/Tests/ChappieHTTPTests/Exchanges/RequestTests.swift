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

        @Test(arguments: [HTTPRequest.Method.get, .head, .post, .put, .patch, .delete, .options])
        func sendsEveryMethodWithAndWithoutABody(method: HTTPRequest.Method) async throws {
            #expect(try await received(method).method == method.rawValue)
            guard method != .head else { return }
            let large = [UInt8](repeating: 9, count: 3 << 20)
            let received = try await received(method, body: .init(bytes: large))
            #expect(received.method == method.rawValue)
            #expect(received.body == large)
            #expect(received.header("expect") == nil)
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

        @Test func anotherOriginNeverSeesTheRequest() async throws {
            let other = try await ScriptedServer.start { _ in .response(status: 200) }
            let location = try other.url("/there").absoluteString
            let server = try await ScriptedServer.start { _ in .response(status: 308, headers: [("location", location)])
            }
            let error = try await transportError {
                _ = try await makeTransport().fetch(
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

        /// The part of a request that a server received.
        private func received(
            _ method: HTTPRequest.Method, _ path: String = "/", _ fields: HTTPFields = [:],
            body: HTTPExchangeRequest.Body? = nil
        ) async throws -> ReceivedRequest {
            let server = try await ScriptedServer.start { _ in .response(status: 200) }
            let request = HTTPExchangeRequest(
                method: method, url: try server.url(path), headerFields: fields, body: body)
            #expect(try await makeTransport().fetch(request).status == 200)
            let received = try #require(server.receivedRequests.first)
            await server.stop()
            return received
        }
    }
}
