import CCurl
import ChappieCore

extension EasyHandle {
    /// Sets what every use of a route has in common: trust, proxy, the time for connecting, and how the socket behaves.
    ///
    /// - Parameter connectDeadline: within this time curl tries every address of the host in turn, so it has to know it,
    ///   too.
    public func follow(_ route: CurlRoute, connectDeadline: Duration) {
        setSecurity(route)
        setProxy(route.proxy)
        let (seconds, attoseconds) = connectDeadline.components
        let milliseconds = min(seconds, 1_000_000) * 1000 + attoseconds / 1_000_000_000_000_000
        set(CURLOPT_CONNECTTIMEOUT_MS, Int(max(1, milliseconds)))
        // What a proxy says to CONNECT is no response.
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
        set(CURLOPT_TCP_KEEPALIVE, true)
        set(CURLOPT_TCP_NODELAY, true)
        set(CURLOPT_NOSIGNAL, true)
        // Letting go of a handle whose name is being resolved would otherwise wait for the resolver, and with it
        // everything else on the thread.
        set(CURLOPT_QUICK_EXIT, true)
    }

    private func setSecurity(_ route: CurlRoute) {
        set(CURLOPT_PROTOCOLS_STR, route.origin.scheme.rawValue)
        set(CURLOPT_DISALLOW_USERNAME_IN_URL, true)
        let oldest = route.minimumTLS == .tls13 ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2
        for version in [CURLOPT_SSLVERSION, CURLOPT_PROXY_SSLVERSION] { set(version, Int(oldest)) }
        for verification in [CURLOPT_SSL_VERIFYPEER, CURLOPT_PROXY_SSL_VERIFYPEER] { set(verification, 1) }
        for verification in [CURLOPT_SSL_VERIFYHOST, CURLOPT_PROXY_SSL_VERIFYHOST] { set(verification, 2) }
        if case .systemAnd(_, let combined) = route.trust {
            set(CURLOPT_CAINFO_BLOB, blob: combined)
            set(CURLOPT_PROXY_CAINFO_BLOB, blob: combined)
        }
    }

    private func setProxy(_ proxy: ProxySelection) {
        switch proxy {
        case .direct:
            // Empty, not unset: an unset one is looked for in the environment.
            set(CURLOPT_PROXY, "")
            set(CURLOPT_NOPROXY, "")
        case .via(let url, let excluding, _, _):
            set(CURLOPT_PROXY, url)
            set(CURLOPT_NOPROXY, excluding)
        }
    }
}
