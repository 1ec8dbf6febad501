@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct AddressRuleTests {
    @Test(
        arguments: [
            ("https://Example.com", .http, "example.com", "https://example.com:443"),
            ("https://example.com:8443/x?y#z", .http, "example.com:8443", "https://example.com:8443"),
            ("HTTP://LOCALHOST/", .http, "localhost", "http://localhost:80"),
            ("http://[::1]:8080/", .http, "[::1]:8080", "http://[::1]:8080"),
            ("wss://Example.com/x", .webSocket, "example.com", "https://example.com:443"),
            ("ws://localhost:81", .webSocket, "localhost:81", "http://localhost:81"),
            ("https://example.com", .webSocket, "example.com", "https://example.com:443"),
        ] as [(String, Origin.Application, String, String)])
    func anOriginHasALabelAndAPrefix(
        address: String, application: Origin.Application, label: String, prefix: String
    ) throws {
        let origin = try Origin(of: #require(URL(string: address)), for: application)
        #expect(origin.label == label)
        #expect(origin.target(of: nil) == prefix + "/")
    }

    @Test(
        arguments: [
            ("http://example.com/", .http, .insecureURL), ("http://127.0.0.1.example.com/", .http, .insecureURL),
            ("ftp://localhost/", .http, .invalidURL), ("https:///path", .http, .invalidURL),
            ("/path", .http, .invalidURL), ("https://example.com:0/", .http, .invalidURL),
            ("https://example.com:99999/", .http, .invalidURL),
            ("https://user:secret@example.com/", .http, .invalidURL),
            ("http://127.0.0.1%2eexample.com/", .http, .invalidURL),
            ("http://localhost%00.example.com/", .http, .invalidURL), ("ws://localhost/", .http, .invalidURL),
            ("wss://example.com/", .http, .invalidURL), ("ws://example.com/", .webSocket, .insecureURL),
        ] as [(String, Origin.Application, ChappieTransportError.Code)])
    func anUnusableAddressIsRefused(
        address: String, application: Origin.Application, code: ChappieTransportError.Code
    ) throws {
        let url = try #require(URL(string: address))
        let error = try #require(throws: ChappieTransportError.self) {
            _ = try Origin(of: url, for: application)
        }
        #expect(error.code == code)
        #expect(error.stage == .configuration)
        #expect(!(error.errorDescription ?? "").contains("secret"))
        if code == .insecureURL {
            let plain = application == .http ? "http" : "ws"
            #expect(error.reason == "plain \(plain) is only for this machine; use \(plain)s")
        }
    }

    @Test func theEnvironmentChoosesAProxyByScheme() throws {
        let environment = [
            "http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:2", "HTTPS_PROXY": "proxy:3",
            "ALL_PROXY": "socks5h://[::1]:4", "no_proxy": "", "NO_PROXY": "example.com",
        ]
        let secure = try #require(try select(.environment, "https://a.test", environment))
        #expect([secure.url, secure.label] == ["proxy:3", "proxy:3"])
        let plain = try #require(try select(.environment, "http://localhost", environment))
        #expect([plain.url, plain.label] == ["http://127.0.0.1:1", "127.0.0.1:1"])
        #expect(try select(.environment, "http://localhost", ["HTTP_PROXY": "http://127.0.0.1:2"]) == nil)
        #expect(try select(.environment, "https://a.test", ["https_proxy": ""]) == nil)
        #expect(try select(.none, "https://a.test", environment) == nil)
    }

    @Test(arguments: [
        ("socks5h://u:p@[::1]:4/", "::1", 4), ("https://proxy", "proxy", 443), ("http://proxy", "proxy", 1080),
        ("SOCKS5://u:p@ss%40:x@10.0.0.1:9?q", "10.0.0.1", 9),
    ])
    func aProxySettingNamesHostAndPort(setting: String, host: String, port: Int) throws {
        let proxy = try #require(try select(.environment, "https://a.test", ["ALL_PROXY": setting]))
        #expect(proxy.url == setting)
        #expect(proxy.host == host)
        #expect(proxy.port == port)
        #expect(proxy.scheme == setting.prefix { $0 != ":" }.lowercased())
    }

    @Test(arguments: [
        ("http://proxy:1", nil, nil), ("http://a:b@proxy:1", "a", "b"), ("http://a@proxy:1", "a", ""),
        ("a:b%40c@proxy:1", "a", "b@c"),
    ])
    func aProxySettingHoldsCredentials(setting: String, user: String?, password: String?) throws {
        let credentials = try #require(try select(.url(setting), "https://a.test", [:])).credentials
        #expect(credentials?.user == user && credentials?.password == password)
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

    @Test func `a socks scheme is the one that looks names up`() throws {
        let proxy = try #require(
            try select(.environment, "https://a.test", ["ALL_PROXY": "socks://u:p@127.0.0.1:7891/"]))
        #expect(proxy.url == "socks5h://u:p@127.0.0.1:7891/" && proxy.scheme == "socks5h")
    }

    @Test(arguments: [" http://proxy:1 ", "http://proxy:1\n", "\tproxy:1\r\n"])
    func `blanks around a proxy setting do not matter`(setting: String) throws {
        #expect(try select(.environment, "https://a.test", ["https_proxy": setting])?.label == "proxy:1")
        #expect(try select(.url(setting), "https://a.test", [:])?.label == "proxy:1")
        #expect(try select(.environment, "https://a.test", ["https_proxy": " \n"]) == nil)
    }

    @Test(arguments: [
        ("ftp://u:secret@proxy:1", "the proxy in ALL_PROXY has the scheme ftp"),
        ("u:secret@proxy://x", "the proxy in ALL_PROXY has an unknown scheme"),
        ("http://u:secret@", "the proxy in ALL_PROXY is not an address"),
    ])
    func `an unusable setting is named by its variable and scheme`(setting: String, reason: String) throws {
        let error = try #require(throws: ChappieTransportError.self) {
            _ = try select(.environment, "https://a.test", ["ALL_PROXY": setting])
        }
        #expect(error.reason.hasPrefix(reason) && !error.reason.contains("secret"), "\(error.reason)")
    }

    @Test(arguments: [
        ("a.test", "https://a.test"), ("test", "https://a.test"), (".a.test", "https://a.test"),
        ("x, A.Test.", "https://b.a.test"), ("*", "https://a.test"), ("x y,a.test", "https://a.test:8443"),
        ("127.0.0.0/8", "https://127.9.9.9"), ("10.1.2.3", "https://10.1.2.3"), ("10.1.0.0/15", "https://10.0.255.1"),
        ("::1", "https://[::1]"), ("[::1]", "https://[::1]"), ("fd00::/8", "https://[fd12::1]"),
        ("::ffff:10.0.0.0/104", "https://[::ffff:a01:203]"), ("localhost,127.0.0.0/8,::1", "https://localhost"),
    ])
    func `an excluded host has no proxy whatever the setting is`(exclusions: String, address: String) throws {
        for setting in ["http://proxy:1", "nonsense://", "http://"] {
            let environment = ["https_proxy": setting, "no_proxy": exclusions]
            #expect(try select(.environment, address, environment) == nil)
            #expect(try select(.url(setting, excluding: exclusions), address, [:]) == nil)
        }
    }

    @Test(arguments: [
        ("", "https://a.test"), ("b.test", "https://a.test"), ("a.test", "https://aa.test"),
        ("b.a.test", "https://a.test"), ("*,x", "https://a.test"), ("127.0.0.0/33", "https://127.0.0.1"),
        ("0.0.1", "https://127.0.0.1"), ("10.0.0.1", "https://10.0.0.2"), ("::1", "https://[::2]"),
        ("::1::", "https://[::1]"), ("1.2.3.4/8", "https://[::1]"), (".", "https://a.test"),
    ])
    func `another host has its proxy`(exclusions: String, address: String) throws {
        let environment = ["https_proxy": "http://proxy:1", "no_proxy": exclusions]
        #expect(try select(.environment, address, environment)?.label == "proxy:1")
    }

    private func select(
        _ proxy: ChappieNetworkPolicy.Proxy, _ address: String, _ environment: [String: String]
    ) throws -> ProxySelection? {
        try ProxySelection(
            proxy, for: Origin(of: #require(URL(string: address)), for: .http), environment: environment)
    }
}
