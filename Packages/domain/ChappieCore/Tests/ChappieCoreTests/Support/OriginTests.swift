@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct OriginTests {
    @Test(arguments: [
        ("https://Example.com", "https", "example.com", 443, "https://example.com"),
        ("https://example.com:8443/x?y#z", "https", "example.com", 8443, "https://example.com:8443"),
        ("wss://example.com/x", "https", "example.com", 443, "https://example.com"),
        ("ws://localhost:81", "http", "localhost", 81, "http://localhost:81"),
        ("HTTP://LOCALHOST/", "http", "localhost", 80, "http://localhost"),
        ("http://[::1]:8080/", "http", "[::1]", 8080, "http://[::1]:8080"),
        ("http://example.com", "http", "example.com", 80, "http://example.com"),
    ])
    func isReadFromAURL(address: String, scheme: String, host: String, port: Int, description: String) throws {
        let origin = try #require(URL(string: address).flatMap(Origin.init))
        #expect(origin.scheme.rawValue == scheme)
        #expect(origin.host == host)
        #expect(origin.port == port)
        #expect(origin.description == description)
        #expect(Origin(try #require(URL(string: description))) == origin)
        #expect(origin.isLoopback == (host == "localhost" || host == "[::1]"))
    }

    @Test(arguments: [
        "ftp://localhost/", "https:///path", "/path", "https://example.com:0/", "https://example.com:99999/",
        "https://user:secret@example.com/", "https://user@example.com/", "http://127.0.0.1%2eexample.com/",
        "http://localhost%00.example.com/",
    ])
    func anUnusableAddressHasNone(address: String) throws {
        #expect(Origin(try #require(URL(string: address))) == nil)
    }

    @Test(arguments: ["localhost", "LOCALHOST", "127.0.0.1", "127.255.255.255", "::1", "[::1]"])
    func isLoopback(host: String) { #expect(Origin.isLoopback(host: host)) }

    @Test(arguments: [
        "", "localhost.example", "127.1", "127.0.0.256", "127.0.0.01", "127.0.0.1.", "127.0.0.1.example", "0x7f.0.0.1",
        "2130706433", "128.0.0.1", "0.0.0.0", "::", "::2", "[::ffff:127.0.0.1]", "127.0.0.", "127..0.1", "127.0.0.+1",
    ])
    func isNotLoopback(host: String) { #expect(!Origin.isLoopback(host: host)) }
}
