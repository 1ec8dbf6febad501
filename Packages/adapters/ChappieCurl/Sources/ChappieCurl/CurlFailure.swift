import CCurl
@_spi(ChappieInternals) public import ChappieCore

/// The facts about a failed exchange or connection, and the error that results from them.
///
/// curl's own text may contain the URL, or the proxy setting with its password. It is read to distinguish cases, and
/// shown only if its wording is about a certificate or a TLS alert.
@_spi(ChappieInternals) public struct CurlFailure: Sendable {
    var result: CURLcode
    /// The stage that was reached. It is `.connect` until the connection is open, including TLS.
    var stage: ChappieTransportError.Stage
    /// The route. The error names its host, and its extra CA file if OpenSSL rejects the bundle.
    var route: CurlRoute
    /// The text in curl's CURLOPT_ERRORBUFFER.
    var text = ""
    /// The errno of the last failed connect or lookup, or 0 if none is known.
    var systemError: CInt = 0
    /// The status of the proxy's answer to CONNECT, or 0 if there was none.
    var tunnelStatus = 0
    /// The code of a failure in the SOCKS protocol.
    var socksCode = CURLPX_OK
    /// The authentication schemes that the proxy offers, as a set of bits, or 0 if it names none.
    var proxyAuthentication = 0
    /// Whether a TCP connection was open (to the proxy, if one is used).
    var hadConnection = false

    /// The error for `result`.
    public var error: ChappieTransportError {
        if tunnelStatus >= 300 {
            // A 5xx may be temporary. After a 4xx the user has to change the setting, because the proxy forbids access
            // or requires a password.
            let stage: ChappieTransportError.Stage = tunnelStatus >= 500 ? .connect : .configuration
            return failure(.proxyFailed, stage, proxyRefusal(tunnelStatus), advice: signInAdvice)
        }
        if [EMFILE, ENFILE].contains(systemError) {
            return .tooManyFiles(OpenFileLimit(reachedBy: systemError), host: route.origin.label)
        }
        switch result {
        case CURLE_COULDNT_RESOLVE_PROXY: return failure(.proxyFailed, .connect, "the proxy's name does not resolve")
        case CURLE_COULDNT_RESOLVE_HOST: return failure(.unknownHost, .connect, "the name does not resolve")
        case CURLE_COULDNT_CONNECT:
            let because = systemError == 0 ? "" : ": \(String(cString: strerror(systemError)).lowercased())"
            return route.proxy != nil
                ? failure(.proxyFailed, .connect, "\(theProxy) can't be reached\(because)")
                : failure(.connectFailed, .connect, "no connection\(because)")
        case CURLE_PROXY: return socksRefusal
        case CURLE_SSL_CACERT_BADFILE:
            return failure(
                .invalidCAFile, .tls,
                route.trust == nil
                    ? "this machine's certificate authorities can't be read"
                    : "the certificate authorities can't be used",
                advice: route.trust == nil ? Self.installAuthorities : nil)
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR:
            return certificateRefusal
        case CURLE_SSL_CONNECT_ERROR:
            if isBrokenHandshake { return lost }
            return failure(isProxysAnswer ? .proxyFailed : .tlsFailed, .tls, handshakeReason)
        case CURLE_OPERATION_TIMEDOUT: return timeOut(allowance: nil)
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
            return violation("its answer breaks the rules of HTTP")
        // The server has ended the session during the request.
        case CURLE_HTTP2: return lost
        // This version of curl reports this code for a header line longer than its own limit of 100 KB.
        case CURLE_OUT_OF_MEMORY where stage == .responseHead:
            return violation("a line of its response head is too long")
        case CURLE_RECV_ERROR where text.contains("chunk"): return violation("the chunks of its answer are malformed")
        case CURLE_URL_MALFORMAT: return failure(.invalidURL, .configuration, "the address can't be used")
        case CURLE_OUT_OF_MEMORY, CURLE_FAILED_INIT, CURLE_BAD_FUNCTION_ARGUMENT:
            return failure(.unavailable, stage, "libcurl can't work (its code \(result.rawValue))")
        default: return lost
        }
    }

    /// Returns the error for a deadline that has passed.
    ///
    /// - Parameter allowance: The duration that the stage was given, or `nil` if curl applied its own limit.
    public func timeOut(allowance: Duration?) -> ChappieTransportError {
        let isHandshake = hadConnection && route.origin.scheme == .https && route.proxy == nil
        return .timedOut(
            at: isBeforeRequest ? (isHandshake ? .tls : .connect) : stage, host: route.origin.label, after: allowance)
    }

    /// The error for a connection that broke or ended too soon.
    public var lost: ChappieTransportError {
        .lost(at: isBeforeRequest ? (hadConnection ? .tls : .connect) : stage, host: route.origin.label)
    }

    /// Returns the error for a server that broke a rule. `rule` is the clause that describes the violation.
    public func violation(_ rule: String) -> ChappieTransportError {
        .violation(rule, at: stage, host: route.origin.label)
    }

    private var isBeforeRequest: Bool { [.configuration, .connect, .tls].contains(stage) }

    private func failure(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ reason: String,
        advice: String? = nil
    ) -> ChappieTransportError {
        ChappieTransportError(code, stage: stage, host: route.origin.label, reason: reason, advice: advice)
    }

    // MARK: TLS

    /// A reason to refuse a certificate.
    private enum CertificateProblem: String {
        case expired = "its certificate has expired"
        case early = "its certificate is not valid yet, by the clock of this machine"
        case otherHost = "its certificate is for another host"
        case unknownAuthority = "its certificate is from an authority that is not trusted here"
        case other = "its certificate is not trusted"

        /// Reads OpenSSL's text. curl has two ways to report that the certificate contains another name, and "self
        /// signed" is the wording of OpenSSL 1.1.
        init(words: String) {
            let known: [(String, CertificateProblem)] = [
                ("expired", .expired), ("not yet valid", .early), ("subject name", .otherHost),
                ("issuer certificate", .unknownAuthority), ("self-signed", .unknownAuthority),
                ("self signed", .unknownAuthority),
            ]
            self = known.first { words.contains($0.0) }?.1 ?? .other
        }
    }

    /// The error for a rejected certificate. Its message contains a plain description and OpenSSL's text, since users
    /// search for OpenSSL's text.
    private var certificateRefusal: ChappieTransportError {
        let words = shownText
        let problem = CertificateProblem(words: words)
        let advice =
            switch problem {
            case .expired:
                "Set this machine's clock if it is wrong. Otherwise the server's operator has to renew the certificate."
            case .early: "Set this machine's clock."
            case .otherHost: "Check the configured address. If it is right, another server answers: stop here."
            case .unknownAuthority, .other: authorityAdvice
            }
        return failure(
            .certificateRejected, .tls, words.isEmpty ? problem.rawValue : "\(problem.rawValue) (\(words))",
            advice: advice)
    }

    private static let installAuthorities = "Install the package ca-certificates."

    private var authorityAdvice: String {
        if let extra = route.trust?.extra {
            let missing = route.trust?.isSystemMissing == true ? "\(Self.installAuthorities) Otherwise: " : ""
            return "\(missing)\(extra) does not hold the authority of this certificate. Ask the administrator of your "
                + "network for the right file; otherwise stop here."
        }
        if let replacement = route.trust?.replacement {
            return
                "\(replacement) replaces this machine's certificate authorities. Unset it, or add the authority that "
                + "your network inspects TLS with; otherwise stop here."
        }
        return "If your network inspects TLS, put its certificate authority into a file, and name the file as "
            + "\(route.extraCAFileName); otherwise stop here."
    }

    /// Whether the connection ended or was reset during the handshake. curl and OpenSSL 3 report this with these texts.
    private var isBrokenHandshake: Bool {
        [
            "SSL_ERROR_SYSCALL", "SSL_ERROR_ZERO_RETURN", "unexpected eof", "Recv failure: ", "Send failure: ",
            "Connection reset",
        ]
        .contains { text.contains($0) }
    }

    /// The reason why the handshake failed. If the two sides support no common version, OpenSSL reports it with these
    /// texts, whichever side notices it.
    private var handshakeReason: String {
        let words = shownText
        let isAboutVersion = ["alert protocol version", "unsupported protocol", "version too low"].contains {
            words.contains($0)
        }
        if isAboutVersion { return "it supports no version of TLS that is allowed here (\(words))" }
        if isProxysAnswer { return "\(theProxy) opened no tunnel: what came back is not TLS (\(words))" }
        return words.isEmpty ? "the handshake failed" : words
    }

    /// Whether the proxy accepted a tunnel and then sent a page.
    private var isProxysAnswer: Bool {
        route.proxy != nil
            && ["wrong version number", "packet length too long", "http request"].contains {
                text.contains($0)
            }
    }

    /// curl's text without its prefixes, in printable ASCII and limited in length, since it may quote a name in a
    /// certificate.
    private var shownText: String {
        let words = text.trimmingPrefix("SSL certificate problem: ").trimmingPrefix("SSL: ")
        return String(words.unicodeScalars.map { (0x20..<0x7F).contains($0.value) ? Character($0) : "?" }.prefix(200))
    }

    // MARK: Proxies

    /// The error for a proxy that answered instead of the server and refused.
    public var refusedByProxy: ChappieTransportError {
        failure(.proxyFailed, .responseHead, proxyRefusal(407), advice: signInAdvice)
    }

    private var signInAdvice: String? {
        offersBasic ? nil : "Use a proxy on this machine that signs in to that one, such as px or cntlm."
    }

    func proxyRefusal(_ status: Int) -> String {
        switch status {
        case 401 where !offersBasic, 407 where !offersBasic:
            "\(theProxy) offers only \(schemesOffered) to sign in, and that is not supported"
        case 401, 407: "\(passwordWanted) (status \(status))"
        default: "\(theProxy) refused with status \(status)"
        }
    }

    /// The error for the answer of a SOCKS proxy (RFC 1928, section 6; RFC 1929), or for the lack of an answer.
    private var socksRefusal: ChappieTransportError {
        switch socksCode {
        case CURLPX_RESOLVE_HOST:
            // With socks4 and socks5, this machine resolves the name.
            failure(
                .unknownHost, .connect, "the name does not resolve here (a proxy set as socks5h:// would look it up)")
        case CURLPX_USER_REJECTED, CURLPX_NO_AUTH: failure(.proxyFailed, .configuration, passwordWanted)
        case CURLPX_REPLY_NOT_ALLOWED: failure(.proxyFailed, .configuration, "\(theProxy) doesn't allow this host")
        case CURLPX_REPLY_HOST_UNREACHABLE, CURLPX_REPLY_NETWORK_UNREACHABLE, CURLPX_REPLY_CONNECTION_REFUSED,
            CURLPX_REPLY_TTL_EXPIRED, CURLPX_REPLY_GENERAL_SERVER_FAILURE:
            failure(.proxyFailed, .connect, "\(theProxy) can't reach this host")
        default: failure(.proxyFailed, .configuration, "\(theProxy) refused or broke its protocol")
        }
    }

    private var theProxy: String { "the proxy \(route.proxy?.label ?? "")" }

    /// The names of curl's bits CURLAUTH_BASIC and following. curl defines these as macros, which Swift can't read.
    private static let schemes = ["Basic", "Digest", "Negotiate", "NTLM"]

    private var offersBasic: Bool { proxyAuthentication == 0 || proxyAuthentication & 1 == 1 }

    private var schemesOffered: String {
        let offered = Self.schemes.enumerated().filter { proxyAuthentication & (1 << $0.offset) != 0 }.map(\.element)
        return offered.isEmpty ? "unknown ways" : offered.joined(separator: " and ")
    }

    private var passwordWanted: String {
        let hasCredentials = route.proxy?.url.contains("@") ?? false
        return "\(theProxy) wants \(hasCredentials ? "other credentials" : "a user name and a password")"
    }
}

extension CurlFailure {
    /// Reads the facts from `handle`.
    public init(
        _ result: CurlResult, of handle: EasyHandle, at stage: ChappieTransportError.Stage, on route: CurlRoute
    ) {
        self.init(
            result: result.code, stage: stage, route: route, text: handle.failureText,
            systemError: Self.systemError(result.code, of: handle),
            tunnelStatus: handle.long(CURLINFO_HTTP_CONNECTCODE),
            socksCode: CURLproxycode(UInt32(truncatingIfNeeded: handle.long(CURLINFO_PROXY_ERROR))),
            proxyAuthentication: handle.long(CURLINFO_PROXYAUTH_AVAIL),
            // CURLINFO_CONNECT_TIME would also stay 0 until TLS is complete.
            hadConnection: handle.long(CURLINFO_PRIMARY_PORT) > 0)
    }

    private static func systemError(_ code: CURLcode, of handle: EasyHandle) -> CInt {
        switch code {
        case CURLE_COULDNT_CONNECT where handle.socketFailure != 0: handle.socketFailure
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: ccurl_missing_descriptors()
        default: CInt(truncatingIfNeeded: handle.long(CURLINFO_OS_ERRNO))
        }
    }
}

extension OpenFileLimit {
    /// - Parameter error: EMFILE or ENFILE.
    init(reachedBy error: CInt) { self.init(of: error == EMFILE ? sysconf(CInt(_SC_OPEN_MAX)) : nil) }
}
