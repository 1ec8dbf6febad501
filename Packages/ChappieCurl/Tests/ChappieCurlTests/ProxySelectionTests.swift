import ChappieCore
import ChappieCurl
import FoundationEssentials
import Testing

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
        try ProxySelection(proxy, for: Origin(#require(URL(string: address))), environment: environment)
    }
}
