import CCurl
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct CurlFailureTests {
    private func failure(
        _ result: CURLcode, text: String = "", proxy: String? = nil
    ) throws -> CurlFailure {
        let selection = proxy.map { ProxySelection.via(url: $0, excluding: "", host: "127.0.0.1", port: 1080) }
        let url = try #require(URL(string: "https://example.com"))
        let origin = try CurlRoute.origin(of: url, for: .http)
        var failure = CurlFailure(
            result: result, stage: .connect, route: CurlRoute(origin: origin, proxy: selection ?? .direct))
        failure.text = text
        return failure
    }

    @Test(arguments: [
        ("SSL certificate problem: certificate has expired", "its certificate has expired (certificate has expired)"),
        (
            "SSL certificate problem: certificate is not yet valid",
            "its certificate is not valid yet, by the clock of this machine (certificate is not yet valid)"
        ),
        (
            "SSL: no alternative certificate subject name matches target host name 'example.com'",
            "its certificate is for another host "
                + "(no alternative certificate subject name matches target host name 'example.com')"
        ),
        (
            "SSL certificate problem: unable to get local issuer certificate",
            "its certificate is from no authority that is trusted here (unable to get local issuer certificate)"
        ),
        (
            "SSL certificate problem: self-signed certificate in certificate chain",
            "its certificate is from no authority that is trusted here (self-signed certificate in certificate chain)"
        ),
        ("SSL certificate problem: CA cert is too weak", "its certificate is not trusted (CA cert is too weak)"),
        ("", "its certificate is not trusted"),
    ])
    func saysInPlainWordsWhyACertificateIsRefused(_ text: String, _ reason: String) throws {
        let error = try failure(CURLE_PEER_FAILED_VERIFICATION, text: text).error
        #expect(error.code == .certificateRejected)
        #expect(error.reason == reason)
    }

    @Test(arguments: [
        ("OpenSSL/3: error:0A00042E:SSL routines::tlsv1 alert protocol version", true),
        ("error:0A000102:SSL routines::unsupported protocol", true),
        ("OpenSSL/3: error:0A000410:SSL routines::sslv3 alert handshake failure", false),
    ])
    func knowsAVersionThatIsTooOld(_ text: String, _ isAboutVersion: Bool) throws {
        let error = try failure(CURLE_SSL_CONNECT_ERROR, text: text).error
        #expect(error.code == .tlsFailed)
        #expect(error.reason.hasPrefix("it speaks no version of TLS that is allowed here (") == isAboutVersion)
        #expect(error.reason.contains(text))
    }

    @Test func tellsAPasswordThatIsWantedFromOneThatIsWrong() throws {
        let without = try failure(CURLE_PROXY, proxy: "http://127.0.0.1:1080")
        #expect(without.proxyRefusal(407) == "the proxy 127.0.0.1:1080 wants a user name and a password (status 407)")
        let with = try failure(CURLE_PROXY, proxy: "http://a:secret@127.0.0.1:1080")
        #expect(with.proxyRefusal(407) == "the proxy 127.0.0.1:1080 wants other credentials (status 407)")
    }

    @Test(arguments: [
        (CURLPX_NO_AUTH, ChappieTransportError.Code.proxyFailed, "wants other credentials"),
        (CURLPX_USER_REJECTED, .proxyFailed, "wants other credentials"),
        (CURLPX_REPLY_GENERAL_SERVER_FAILURE, .proxyFailed, "can't reach this host"),
        (CURLPX_REPLY_CONNECTION_REFUSED, .proxyFailed, "can't reach this host"),
        (CURLPX_REPLY_NOT_ALLOWED, .proxyFailed, "doesn't allow this host"),
        (CURLPX_BAD_VERSION, .proxyFailed, "refused or broke its protocol"),
        (CURLPX_RESOLVE_HOST, .unknownHost, "the name does not resolve here"),
    ])
    func saysWhatASocksProxyHasAgainstIt(
        _ code: CURLproxycode, _ kind: ChappieTransportError.Code, _ words: String
    ) throws {
        var failure = try failure(CURLE_PROXY, proxy: "socks5://a:secret@127.0.0.1:1080")
        failure.socksCode = code
        #expect(failure.error.code == kind)
        #expect(failure.error.reason.contains(words), "\(failure.error.reason)")
        #expect(!failure.error.reason.contains("secret"))
    }
}
