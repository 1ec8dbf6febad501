import CCurl
@_spi(ChappieInternals) public import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The facts about an exchange or a connection that curl gave up on, and their meaning.
///
/// curl's own text may hold the URL or the proxy setting with its password; it is read to tell cases apart, and shown
/// only where its wording is about a certificate or a TLS alert.
@_spi(ChappieInternals) public struct CurlFailure: Sendable {
    var result: CURLcode
    /// How far it had come: `.connect` until the connection stands, its TLS included.
    var stage: ChappieTransportError.Stage
    /// Of the route: whose failure it is, and the extra CA file, for a bundle that OpenSSL turned down after all.
    var route: CurlRoute
    /// curl's CURLOPT_ERRORBUFFER.
    var text = ""
    /// errno of the last failed connect; 0 when there was none.
    var systemError: CInt = 0
    /// The proxy's answer to CONNECT; 0 when there was none.
    var tunnelStatus = 0
    /// The failure in speaking SOCKS.
    var socksCode = CURLPX_OK
    /// Whether a TCP connection stood (to the proxy, where one is used).
    var hadConnection = false

    init(result: CURLcode, stage: ChappieTransportError.Stage, route: CurlRoute) {
        self.result = result
        self.stage = stage
        self.route = route
    }

    /// Reads from `handle` what it knows.
    public init(
        _ result: CurlResult, of handle: EasyHandle, at stage: ChappieTransportError.Stage, on route: CurlRoute
    ) {
        self.init(result: result.code, stage: stage, route: route)
        text = handle.failureText
        systemError = CInt(truncatingIfNeeded: handle.long(CURLINFO_OS_ERRNO))
        tunnelStatus = handle.long(CURLINFO_HTTP_CONNECTCODE)
        socksCode = CURLproxycode(UInt32(truncatingIfNeeded: handle.long(CURLINFO_PROXY_ERROR)))
        // CURLINFO_CONNECT_TIME stays 0 until TLS is through as well.
        hadConnection = handle.long(CURLINFO_PRIMARY_PORT) > 0
    }

    /// The error for `result`.
    public var error: ChappieTransportError {
        if tunnelStatus >= 300 { return failure(.proxyFailed, .connect, proxyRefusal(tunnelStatus)) }
        switch result {
        case CURLE_COULDNT_RESOLVE_PROXY:
            return failure(.proxyFailed, .connect, "the proxy's name does not resolve")
        case CURLE_COULDNT_RESOLVE_HOST:
            return failure(.unknownHost, .connect, "the name does not resolve")
        case CURLE_COULDNT_CONNECT:
            return isAboutReachingProxy
                ? failure(.proxyFailed, .connect, "the proxy \(proxyLabel) can't be reached\(because)")
                : failure(.connectFailed, .connect, "no connection\(because)")
        case CURLE_PROXY: return socksRefusal
        case CURLE_SSL_CACERT_BADFILE:
            return failure(
                .invalidCAFile, .tls,
                route.trust.extraFile.map { "the extra CA file \($0) holds a certificate that OpenSSL can't read" }
                    ?? "the system's certificate authorities can't be read")
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR:
            return failure(.certificateRejected, .tls, certificateReason)
        case CURLE_SSL_CONNECT_ERROR where isBrokenHandshake: return lost
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_SSL_ENGINE_INITFAILED, CURLE_USE_SSL_FAILED,
            CURLE_SSL_SHUTDOWN_FAILED, CURLE_SSL_INVALIDCERTSTATUS:
            return failure(.tlsFailed, .tls, handshakeReason)
        case CURLE_OPERATION_TIMEDOUT:
            return timeOut(allowance: nil)
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING, CURLE_HTTP2:
            return failure(.protocolViolation, place, "its answer breaks the rules of HTTP")
        case CURLE_OUT_OF_MEMORY where stage == .responseHead:
            // This version says so of a header line past its own limit of 100 KB.
            return failure(.protocolViolation, .responseHead, "a line of its response head is too long")
        case CURLE_URL_MALFORMAT:
            return failure(.invalidURL, .configuration, "the address can't be used")
        case CURLE_OUT_OF_MEMORY, CURLE_FAILED_INIT, CURLE_UNKNOWN_OPTION, CURLE_BAD_FUNCTION_ARGUMENT,
            CURLE_NOT_BUILT_IN:
            return failure(.unavailable, place, "libcurl can't work (its code \(result.rawValue))")
        case CURLE_RECV_ERROR where text.contains("chunk"):
            return failure(.protocolViolation, place, "the chunks of its answer are malformed")
        default: return lost
        }
    }

    /// A deadline of ours has passed.
    ///
    /// - Parameter allowance: how long the stage was given; `nil` when it was curl's to judge.
    public func timeOut(allowance: Duration?) -> ChappieTransportError {
        let within = allowance.map { " within \($0.words)" } ?? " in time"
        switch stage {
        case .configuration, .connect, .tls:
            let isHandshake = hadConnection && route.origin.scheme == .https && route.proxy == .direct
            return isHandshake
                ? failure(.timedOut, .tls, "no TLS handshake\(within)")
                : failure(.timedOut, .connect, "no connection\(within)")
        case .request: return failure(.timedOut, .request, "it took no more of the request\(within)")
        case .responseHead: return failure(.timedOut, .responseHead, "no response head\(within)")
        case .firstByte: return failure(.timedOut, .firstByte, "no byte of the body\(within)")
        case .responseBody: return failure(.timedOut, .responseBody, "nothing more\(within)")
        case .message: return failure(.timedOut, .message, "no message\(within)")
        case .liveness: return failure(.timedOut, .liveness, "not even an answer to a ping\(within)")
        }
    }

    /// The connection broke, or ended too soon.
    public var lost: ChappieTransportError {
        switch stage {
        case .configuration, .connect, .tls:
            failure(.connectionLost, hadConnection ? .tls : .connect, "the connection broke before the request")
        case .request: failure(.connectionLost, .request, "the connection broke before the request was out")
        case .responseHead:
            failure(.connectionLost, .responseHead, "the connection closed before the answer began")
        case .firstByte, .responseBody:
            failure(.connectionLost, .responseBody, "the connection closed before the answer was whole")
        case .message, .liveness:
            failure(.connectionLost, .message, "the connection broke without a close frame")
        }
    }

    /// An error that names the origin.
    public func failure(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ reason: String
    ) -> ChappieTransportError {
        ChappieTransportError(code, stage: stage, host: route.origin.label, reason: reason)
    }

    /// The stage of an error that isn't about time.
    private var place: ChappieTransportError.Stage { stage == .firstByte ? .responseBody : stage }

    private var because: String {
        switch systemError {
        case 0: ""
        case let code: ": \(String(cString: strerror(code)).lowercased())"
        }
    }

    // MARK: TLS

    /// Why a certificate was refused, in plain words; OpenSSL's stand beside them, since those are what people look for.
    var certificateReason: String {
        let words = shown(orElse: "")
        let reason =
            switch true {
            case words.contains("expired"): "its certificate has expired"
            case words.contains("not yet valid"): "its certificate is not valid yet, by the clock of this machine"
            // Both ways in which curl says that the name in the certificate is another.
            case words.contains("subject name"): "its certificate is for another host"
            // "self signed" in OpenSSL 1.1.
            case words.contains("issuer certificate"), words.contains("self-signed"), words.contains("self signed"):
                "its certificate is from no authority that is trusted here"
            default: "its certificate is not trusted"
            }
        return words.isEmpty ? reason : "\(reason) (\(words))"
    }

    /// The connection ended or was reset inside the handshake, in one of the ways in which curl and OpenSSL 3 say so.
    var isBrokenHandshake: Bool {
        [
            "SSL_ERROR_SYSCALL", "SSL_ERROR_ZERO_RETURN", "unexpected eof", "Recv failure: ", "Send failure: ",
            "Connection reset",
        ]
        .contains { text.contains($0) }
    }

    /// Why the handshake failed. Where one side offers no version that the other takes, OpenSSL says so in one of these
    /// ways, whichever side notices.
    var handshakeReason: String {
        let words = shown(orElse: "the handshake failed")
        let isAboutVersion = ["alert protocol version", "unsupported protocol", "version too low"].contains {
            words.contains($0)
        }
        return isAboutVersion ? "it speaks no version of TLS that is allowed here (\(words))" : words
    }

    /// curl's words without its prefixes, in printable ASCII and bounded: they may quote a name in a certificate.
    private func shown(orElse fallback: String) -> String {
        var text = Substring(text)
        for prefix in ["SSL certificate problem: ", "SSL: "] where text.hasPrefix(prefix) {
            text = text.dropFirst(prefix.count)
        }
        let clean = text.unicodeScalars.lazy.map { (0x20..<0x7F).contains($0.value) ? Character($0) : "?" }.prefix(200)
        return clean.isEmpty ? fallback : String(clean)
    }

    // MARK: Proxies

    /// A refusal by the proxy, in place of the tunnel or of the answer.
    public func proxyRefusal(_ status: Int) -> String {
        switch status {
        case 401, 407: "\(passwordWanted) (status \(status))"
        default: "the proxy \(proxyLabel) refused with status \(status)"
        }
    }

    /// The answer of a SOCKS proxy (RFC 1928, section 6; RFC 1929), or the reason why there was none.
    var socksRefusal: ChappieTransportError {
        switch socksCode {
        case CURLPX_RESOLVE_HOST:
            // With socks4 and socks5 the name is looked up on this side.
            failure(
                .unknownHost, .connect, "the name does not resolve here (a proxy set as socks5h:// would look it up)")
        case CURLPX_USER_REJECTED, CURLPX_NO_AUTH: failure(.proxyFailed, .connect, passwordWanted)
        case CURLPX_REPLY_NOT_ALLOWED:
            failure(.proxyFailed, .connect, "the proxy \(proxyLabel) doesn't allow this host")
        case CURLPX_REPLY_HOST_UNREACHABLE, CURLPX_REPLY_NETWORK_UNREACHABLE, CURLPX_REPLY_CONNECTION_REFUSED,
            CURLPX_REPLY_TTL_EXPIRED, CURLPX_REPLY_GENERAL_SERVER_FAILURE:
            failure(.proxyFailed, .connect, "the proxy \(proxyLabel) can't reach this host")
        default: failure(.proxyFailed, .connect, "the proxy \(proxyLabel) refused or broke its protocol")
        }
    }

    var proxyLabel: String {
        guard case .via(_, _, let host, let port) = route.proxy else { return "" }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// curl names the address that it tried; there is no other way to learn whether the exclusion list spared this host
    /// the proxy.
    var isAboutReachingProxy: Bool {
        guard case .via(_, _, let host, let port) = route.proxy else { return false }
        return text.contains(" \(host) port \(port) ")
    }

    private var passwordWanted: String {
        guard case .via(let url, _, _, _) = route.proxy, url.contains("@") else {
            return "the proxy \(proxyLabel) wants a user name and a password"
        }
        return "the proxy \(proxyLabel) wants other credentials"
    }
}
