#if canImport(Security)
    @_spi(ChappieInternals) import ChappieCore
    import Foundation
    import Network
    import Security

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    // This is compiled on Linux against declarations (Tests/SwiftUICheck), but not run there.
    extension SessionSettings {
        /// Whether a session keeps its connections. URLSession repeats no POST, and kept connections save handshakes.
        static let keepsConnections = true

        static func isCertificate(_ data: Data) -> Bool { certificate(data) != nil }

        private static func certificate(_ data: Data) -> SecCertificate? {
            SecCertificateCreateWithData(nil, NSData(data: data) as CFData)
        }

        /// Sets the minimum version of TLS and the proxy.
        ///
        /// - Throws: ``ChappieTransportError`` with code `.proxyFailed` for a kind of proxy that URLSession doesn't
        ///   support.
        func apply(
            to configuration: URLSessionConfiguration, proxy: ProxySelection?, for origin: Origin
        ) throws(ChappieTransportError) {
            configuration.tlsMinimumSupportedProtocolVersion = policy.minimumTLS == .tls13 ? .TLSv13 : .TLSv12
            guard let proxy else {
                // An empty dictionary disables the system's own settings.
                if policy.proxy != .environment || !variables.isEmpty {
                    configuration.connectionProxyDictionary = [:]
                }
                return
            }
            guard let port = NWEndpoint.Port(rawValue: UInt16(proxy.port)) else {
                throw .unavailable("the proxy's port can't be used", host: origin.label)
            }
            let endpoint = NWEndpoint.hostPort(host: NWEndpoint.Host(proxy.host), port: port)
            var setting: ProxyConfiguration
            switch proxy.scheme {
            case "http": setting = ProxyConfiguration(httpCONNECTProxy: endpoint, tlsOptions: nil)
            case "https": setting = ProxyConfiguration(httpCONNECTProxy: endpoint, tlsOptions: NWProtocolTLS.Options())
            case "socks5", "socks5h": setting = ProxyConfiguration(socksv5Proxy: endpoint)
            default:
                throw ChappieTransportError(
                    .proxyFailed, stage: .configuration, host: origin.label,
                    reason: "the proxy \(proxy.label) speaks \(proxy.scheme), which this system doesn't")
            }
            setting.allowFailover = false
            if let (user, password) = proxy.credentials {
                setting.applyCredential(username: user, password: password)
            }
            configuration.proxyConfigurations = [setting]
        }

        /// Returns the answer to a challenge. The system checks the server's certificate, with the extra authorities if
        /// there are any. No other challenge is answered. A 401 is a response, and no credential of the device is sent
        /// automatically.
        func answer(
            to challenge: URLAuthenticationChallenge
        ) -> (URLSession.AuthChallengeDisposition, URLCredential?) {
            guard let trust = challenge.protectionSpace.serverTrust else { return (.rejectProtectionSpace, nil) }
            guard !authorities.isEmpty else { return (.performDefaultHandling, nil) }
            let certificates = NSArray(array: authorities.compactMap(Self.certificate))
            guard SecTrustSetAnchorCertificates(trust, certificates as CFArray) == errSecSuccess,
                SecTrustSetAnchorCertificatesOnly(trust, false) == errSecSuccess,
                SecTrustEvaluateWithError(trust, nil)
            else { return (.cancelAuthenticationChallenge, nil) }
            return (.useCredential, URLCredential(trust: trust))
        }
    }

    extension URLSessionTask: SessionTask {
        func begin() { resume() }
        func hold() { suspend() }
        func proceed() { resume() }
    }
#endif
