import CCurl
import ChappieCore

extension CurlFailure {
    /// A refusal by the proxy, in place of the tunnel or of the answer.
    public func proxyRefusal(_ status: Int) -> String {
        switch status {
        case 401, 407: "\(passwordWanted) (status \(status))"
        default: "the proxy \(proxyLabel) refused with status \(status)"
        }
    }

    /// What a SOCKS proxy answered (RFC 1928, section 6; RFC 1929), or why it came to no answer.
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
