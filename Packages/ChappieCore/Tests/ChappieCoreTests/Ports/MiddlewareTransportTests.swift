@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

@Suite struct MiddlewareTransportTests {
    private final class Journal: Sendable {
        private let lines = Mutex<[String]>([])

        var all: [String] { lines.withLock { $0 } }
        func write(_ line: String) { lines.withLock { $0.append(line) } }
    }

    private struct Echo: HTTPTransport {
        let journal: Journal
        var status: HTTPResponse.Status = .ok

        func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
            journal.write("send \(request.headerFields[.userAgent] ?? "-")")
            return HTTPExchangeResponse(status: status, body: HTTPBody(bytes: request.body?.bytes ?? []))
        }
    }

    private struct Tag: HTTPMiddleware {
        let name: String
        let journal: Journal
        var times = 1

        func intercept(
            _ request: HTTPExchangeRequest, next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
        ) async throws -> HTTPExchangeResponse {
            var request = request
            request.headerFields[.userAgent] = (request.headerFields[.userAgent] ?? "") + name
            journal.write("> \(name)")
            var response = HTTPExchangeResponse(status: .serviceUnavailable)
            for _ in 0..<times { response = try await next(request) }
            journal.write("< \(name)")
            return response
        }
    }

    private struct Refusal: Error {}

    private struct Refuse: HTTPMiddleware {
        func intercept(
            _ request: HTTPExchangeRequest, next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
        ) async throws -> HTTPExchangeResponse {
            throw Refusal()
        }
    }

    private let journal = Journal()

    private func request() throws -> HTTPExchangeRequest {
        HTTPExchangeRequest(
            method: .post, url: try #require(URL(string: "https://example.org/")), body: .init(bytes: [1, 2]))
    }

    @Test func theFirstSeesTheRequestFirstAndTheResponseLast() async throws {
        let transport = MiddlewareTransport(
            Echo(journal: journal), middleware: [Tag(name: "a", journal: journal), Tag(name: "b", journal: journal)])
        let response = try await transport.send(request())
        #expect(response.status == .ok)
        #expect(try await response.body.collect(upTo: 10) == [1, 2])
        #expect(journal.all == ["> a", "> b", "send ab", "< b", "< a"])
    }

    @Test func withoutMiddlewareItIsTheTransport() async throws {
        _ = try await MiddlewareTransport(Echo(journal: journal), middleware: []).send(request())
        #expect(journal.all == ["send -"])
    }

    @Test func nextMayBeCalledAgainOrNotAtAll() async throws {
        let again = MiddlewareTransport(
            Echo(journal: journal),
            middleware: [Tag(name: "a", journal: journal, times: 2), Tag(name: "b", journal: journal)])
        _ = try await again.send(request())
        #expect(journal.all == ["> a", "> b", "send ab", "< b", "> b", "send ab", "< b", "< a"])
        let never = MiddlewareTransport(
            Echo(journal: journal), middleware: [Tag(name: "x", journal: journal, times: 0)])
        #expect(try await never.send(request()).status == .serviceUnavailable)
        #expect(journal.all.suffix(2) == ["> x", "< x"])
    }

    @Test func anErrorPassesOutwards() async throws {
        let transport = MiddlewareTransport(
            Echo(journal: journal),
            middleware: [Tag(name: "a", journal: journal), Refuse(), Tag(name: "b", journal: journal)])
        let request = try request()
        await #expect(throws: Refusal.self) { try await transport.send(request) }
        #expect(journal.all == ["> a"])
    }

    @Test func aStatusOf400AndMoreIsAResponse() async throws {
        let transport = MiddlewareTransport(
            Echo(journal: journal, status: .tooManyRequests), middleware: [Tag(name: "a", journal: journal)])
        #expect(try await transport.send(request()).status == .tooManyRequests)
    }
}
