@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct RouteTests {
    @Test(arguments: [
        ("https://Example.com", "example.com", "https://example.com:443"),
        ("https://example.com:8443/x?y#z", "example.com:8443", "https://example.com:8443"),
        ("HTTP://LOCALHOST/", "localhost", "http://localhost:80"),
        ("http://[::1]:8080/", "[::1]:8080", "http://[::1]:8080"),
    ])
    func anOriginHasALabelAndAPrefix(address: String, label: String, prefix: String) throws {
        let origin = try CurlRoute.origin(of: #require(URL(string: address)), for: .http)
        #expect(origin.label == label)
        #expect(CurlRoute(origin: origin).target(of: nil) == prefix + "/")
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
        let error = try #require(throws: ChappieTransportError.self) { _ = try CurlRoute.origin(of: url, for: .http) }
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
        let origin = try CurlRoute.origin(of: #require(URL(string: address)), for: .webSocket)
        #expect(origin.label == label)
        #expect(CurlRoute(origin: origin).target(of: nil) == prefix + "/")
    }

    @Test func aPlainWebSocketStaysOnThisMachine() throws {
        let url = try #require(URL(string: "ws://example.com/"))
        let error = try #require(throws: ChappieTransportError.self) {
            _ = try CurlRoute.origin(of: url, for: .webSocket)
        }
        #expect(error.code == .insecureURL)
        #expect(error.reason == "plain ws is only for this machine; use wss")
    }

    @Test(arguments: ["ws://localhost/", "wss://example.com/"])
    func aWebSocketsSchemeIsNoneOfHTTP(address: String) throws {
        let url = try #require(URL(string: address))
        let error = try #require(throws: ChappieTransportError.self) { _ = try CurlRoute.origin(of: url, for: .http) }
        #expect(error.code == .invalidURL)
    }
}

@Suite struct ProxySelectionTests {
    @Test func theEnvironmentChoosesAProxyByScheme() throws {
        let environment = [
            "http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:2", "HTTPS_PROXY": "proxy:3",
            "ALL_PROXY": "socks5h://[::1]:4", "no_proxy": "", "NO_PROXY": "example.com",
        ]
        #expect(
            try select(.environment, "https://a.test", environment)
                == .via(url: "proxy:3", excluding: "example.com", host: "proxy", port: 3))
        #expect(
            try select(.environment, "http://localhost", environment)
                == .via(url: "http://127.0.0.1:1", excluding: "example.com", host: "127.0.0.1", port: 1))
        #expect(try select(.environment, "http://localhost", ["HTTP_PROXY": "http://127.0.0.1:2"]) == .direct)
        #expect(try select(.environment, "https://a.test", ["https_proxy": ""]) == .direct)
        #expect(
            try select(.environment, "https://a.test", ["ALL_PROXY": "socks5h://u:p@[::1]:4/"])
                == .via(url: "socks5h://u:p@[::1]:4/", excluding: "", host: "::1", port: 4))
        #expect(try select(.none, "https://a.test", environment) == .direct)
    }

    @Test(arguments: ["ftp://u:secret@proxy:1", "http://", "http://proxy:port", "http://proxy:99999", "http://[::1"])
    func aProxySettingThatMakesNoSenseIsRefused(setting: String) throws {
        let error = try #require(throws: ChappieTransportError.self) {
            _ = try select(.url(setting), "https://a.test", [:])
        }
        #expect(error.code == .proxyFailed)
        #expect(error.stage == .configuration)
        #expect(!(error.errorDescription ?? "").contains("secret"))
    }

    private func select(
        _ proxy: ChappieNetworkPolicy.Proxy, _ address: String, _ environment: [String: String]
    ) throws -> ProxySelection {
        try ProxySelection(
            proxy, for: CurlRoute.origin(of: #require(URL(string: address)), for: .http), environment: environment)
    }
}
