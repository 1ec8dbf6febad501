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

        func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
            journal.write("send \(request.headerFields[.userAgent] ?? "-")")
            return HTTPExchangeResponse(status: .tooManyRequests, body: HTTPBody(bytes: request.body?.bytes ?? []))
        }
    }

    /// Calls on so many times; not at all is a refusal.
    private struct Tag: HTTPMiddleware {
        let name: String
        let journal: Journal
        var times = 1

        func intercept(
            _ request: HTTPExchangeRequest,
            next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
        ) async throws -> HTTPExchangeResponse {
            var request = request
            request.headerFields[.userAgent] = (request.headerFields[.userAgent] ?? "") + name
            journal.write("> \(name)")
            var response: HTTPExchangeResponse?
            for _ in 0..<times { response = try await next(request) }
            journal.write("< \(name)")
            guard let response else { throw CancellationError() }
            return response
        }
    }

    private let journal = Journal()

    private func send(through middleware: (name: String, times: Int)...) async throws -> HTTPExchangeResponse {
        let transport = MiddlewareTransport(
            Echo(journal: journal), middleware: middleware.map { Tag(name: $0.name, journal: journal, times: $0.times) }
        )
        let url = try #require(URL(string: "https://example.org/"))
        return try await transport.send(HTTPExchangeRequest(method: .post, url: url, body: .init(bytes: [1, 2])))
    }

    @Test func `the first middleware sees the request first and the response last`() async throws {
        let response = try await send(through: ("a", 1), ("b", 1))
        #expect(response.status == .tooManyRequests, "a status of 400 and more is a response")
        #expect(try await response.body.collect(upTo: 10) == [1, 2])
        #expect(journal.all == ["> a", "> b", "send ab", "< b", "< a"])
    }

    @Test func withoutMiddlewareItIsTheTransport() async throws {
        _ = try await send()
        #expect(journal.all == ["send -"])
    }

    @Test func nextMayBeCalledAgain() async throws {
        _ = try await send(through: ("a", 2), ("b", 1))
        #expect(journal.all == ["> a", "> b", "send ab", "< b", "> b", "send ab", "< b", "< a"])
    }

    @Test func anErrorPassesOutwards() async throws {
        await #expect(throws: CancellationError.self) { try await send(through: ("a", 1), ("no", 0), ("b", 1)) }
        #expect(journal.all == ["> a", "> no", "< no"])
    }
}
