import CCurl
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl

@Suite struct CurlFailureTests {
    private func failure(
        _ result: CURLcode, text: String = "", proxy: ChappieNetworkPolicy.Proxy = .none,
        socksCode: CURLproxycode = CURLPX_OK
    ) throws -> CurlFailure {
        let origin = try Origin(of: #require(URL(string: "https://example.com")), for: .http)
        let route = CurlRoute(origin: origin, proxy: try ProxySelection(proxy, for: origin, environment: [:]))
        return CurlFailure(result: result, stage: .connect, route: route, text: text, socksCode: socksCode)
    }

    @Test(arguments: [
        ("certificate has expired", "its certificate has expired"),
        ("certificate is not yet valid", "its certificate is not valid yet, by the clock of this machine"),
        (
            "no alternative certificate subject name matches target host name 'example.com'",
            "its certificate is for another host"
        ),
        (
            "unable to get local issuer certificate",
            "its certificate is from an authority that is not trusted here"
        ),
        (
            "self-signed certificate in certificate chain",
            "its certificate is from an authority that is not trusted here"
        ),
        ("CA cert is too weak", "its certificate is not trusted"),
    ])
    func saysInPlainWordsWhyACertificateIsRefused(_ text: String, _ reason: String) throws {
        for prefix in ["SSL certificate problem: ", "SSL: "] {
            let error = try failure(CURLE_PEER_FAILED_VERIFICATION, text: prefix + text).error
            #expect(error.code == .certificateRejected)
            #expect(error.reason == "\(reason) (\(text))")
        }
        #expect(try failure(CURLE_PEER_FAILED_VERIFICATION).error.reason == "its certificate is not trusted")
    }

    @Test(arguments: [
        ("OpenSSL/3: error:0A00042E:SSL routines::tlsv1 alert protocol version", true),
        ("error:0A000102:SSL routines::unsupported protocol", true),
        ("OpenSSL/3: error:0A000410:SSL routines::sslv3 alert handshake failure", false),
    ])
    func knowsAVersionThatIsTooOld(_ text: String, _ isAboutVersion: Bool) throws {
        let error = try failure(CURLE_SSL_CONNECT_ERROR, text: text).error
        #expect(error.code == .tlsFailed)
        #expect(
            error.reason == (isAboutVersion ? "it supports no version of TLS that is allowed here (\(text))" : text))
    }

    @Test(arguments: [
        ("certificate is not yet valid", "Set this machine's clock."),
        ("certificate has expired", "Set this machine's clock if it is wrong."),
        (
            "no alternative certificate subject name matches target host name 'example.com'",
            "Check the configured address."
        ),
        ("unable to get local issuer certificate", "name the file as CA_SETTING"),
    ])
    func `the advice fits what is wrong with a certificate`(text: String, advice: String) throws {
        var failed = try failure(CURLE_PEER_FAILED_VERIFICATION, text: text)
        failed.route.extraCAFileName = "CA_SETTING"
        #expect(failed.error.recoverySuggestion?.contains(advice) == true)
        let badSystem = try failure(CURLE_SSL_CACERT_BADFILE).error
        #expect(badSystem.recoverySuggestion == "Install the package ca-certificates.")
    }

    @Test(arguments: [
        (1, "wants a user name"), (9, "wants a user name"), (8, "offers only NTLM"), (12, "Negotiate and NTLM"),
    ])
    func `a proxy that offers no Basic is named with what it offers`(offered: Int, reason: String) throws {
        var failed = try failure(CURLE_RECV_ERROR, proxy: .url("http://127.0.0.1:1080"))
        failed.tunnelStatus = 407
        failed.proxyAuthentication = offered
        #expect(failed.error.code == .proxyFailed && failed.error.reason.contains(reason), "\(failed.error.reason)")
        #expect((failed.error.recoverySuggestion?.contains("cntlm") == true) == (offered & 1 == 0))
    }

    @Test func `a missing proxy password is distinguished from a wrong one`() throws {
        let without = try failure(CURLE_PROXY, proxy: .url("http://127.0.0.1:1080"))
        #expect(without.proxyRefusal(407) == "the proxy 127.0.0.1:1080 wants a user name and a password (status 407)")
        let with = try failure(CURLE_PROXY, proxy: .url("http://a:secret@127.0.0.1:1080"))
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
        let proxy = ChappieNetworkPolicy.Proxy.url("socks5://a:secret@127.0.0.1:1080")
        let error = try failure(CURLE_PROXY, proxy: proxy, socksCode: code).error
        #expect(error.code == kind)
        #expect(error.reason.contains(words), "\(error.reason)")
        #expect(!error.reason.contains("secret"))
        // The setting has to change first, or it may pass.
        #expect((error.stage == .connect) == words.contains("reach") || code == CURLPX_RESOLVE_HOST)
    }

    @Test(arguments: [(407, false), (403, false), (502, true), (503, true), (504, true)])
    func `a proxy's gateway error is temporary, and its refusal is not`(_ status: Int, _ passes: Bool) throws {
        var failed = try failure(CURLE_RECV_ERROR, proxy: .url("http://127.0.0.1:1080"))
        failed.tunnelStatus = status
        #expect(failed.error.code == .proxyFailed && (failed.error.stage == .connect) == passes)
    }

    @Test func `a session that ended during a request is a lost connection`() throws {
        #expect(try failure(CURLE_HTTP2).error.code == .connectionLost)
    }
}
