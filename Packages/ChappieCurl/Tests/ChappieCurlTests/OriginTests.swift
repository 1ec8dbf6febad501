import ChappieCore
import ChappieCurl
import FoundationEssentials
import Testing

@Suite struct OriginTests {
    @Test(arguments: [
        ("https://Example.com", "example.com", "https://example.com:443"),
        ("https://example.com:8443/x?y#z", "example.com:8443", "https://example.com:8443"),
        ("HTTP://LOCALHOST/", "localhost", "http://localhost:80"),
        ("http://[::1]:8080/", "[::1]:8080", "http://[::1]:8080"),
    ])
    func anOriginHasALabelAndAPrefix(address: String, label: String, prefix: String) throws {
        let origin = try Origin(#require(URL(string: address)))
        #expect(origin.label == label)
        #expect(origin.prefix == prefix)
    }

    @Test(arguments: [
        ("http://example.com/", ChappieTransportError.Code.insecureURL),
        ("http://127.0.0.1.example.com/", .insecureURL),
        ("ftp://localhost/", .invalidURL),
        ("https:///path", .invalidURL),
        ("/path", .invalidURL),
        ("https://example.com:0/", .invalidURL),
        ("https://example.com:99999/", .invalidURL),
        ("https://user:secret@example.com/", .invalidURL),
        ("http://127.0.0.1%2eexample.com/", .invalidURL),
        ("http://localhost%00.example.com/", .invalidURL),
    ])
    func anUnusableAddressIsRefused(address: String, code: ChappieTransportError.Code) throws {
        let url = try #require(URL(string: address))
        let error = try #require(throws: ChappieTransportError.self) { _ = try Origin(url) }
        #expect(error.code == code)
        #expect(error.stage == .configuration)
        #expect(!(error.errorDescription ?? "").contains("secret"))
    }

    @Test(arguments: [
        ("wss://Example.com/x", "example.com", "https://example.com:443"),
        ("ws://localhost:81", "localhost:81", "http://localhost:81"),
        ("https://example.com", "example.com", "https://example.com:443"),
    ])
    func aWebSocketsSchemeStandsForThatOfHTTP(address: String, label: String, prefix: String) throws {
        let origin = try Origin(#require(URL(string: address)), for: .webSocket)
        #expect(origin.label == label)
        #expect(origin.prefix == prefix)
    }

    @Test func aPlainWebSocketStaysOnThisMachine() throws {
        let url = try #require(URL(string: "ws://example.com/"))
        let error = try #require(throws: ChappieTransportError.self) { _ = try Origin(url, for: .webSocket) }
        #expect(error.code == .insecureURL)
        #expect(error.reason == "plain ws is only for this machine; use wss")
    }

    @Test(arguments: ["ws://localhost/", "wss://example.com/"])
    func aWebSocketsSchemeIsNoneOfHTTP(address: String) throws {
        let url = try #require(URL(string: address))
        let error = try #require(throws: ChappieTransportError.self) { _ = try Origin(url) }
        #expect(error.code == .invalidURL)
    }
}
