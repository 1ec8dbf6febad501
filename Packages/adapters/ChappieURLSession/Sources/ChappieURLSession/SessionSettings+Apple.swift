#if canImport(Security)
    @_spi(ChappieInternals) import ChappieCore
    import Dispatch
    import Foundation
    import Network
    import Security

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif

    // On Linux, Tests/SwiftUICheck compiles this against declarations. Over a stand-in it runs what NetworkByteStream needs.
    extension SessionSettings {
        /// Whether a session keeps its connections. URLSession repeats no POST, and kept connections save handshakes.
        static let keepsConnections = true

        static func isCertificate(_ data: Data) -> Bool { certificate(data) != nil }

        private static func certificate(_ data: Data) -> SecCertificate? {
            SecCertificateCreateWithData(nil, NSData(data: data) as CFData)
        }

        private var minimumTLS: Security.tls_protocol_version_t { policy.minimumTLS == .tls13 ? .TLSv13 : .TLSv12 }

        /// Whether the system's proxy settings don't apply where the policy has no proxy.
        private var ignoresSystemProxies: Bool { policy.proxy != .environment || !variables.isEmpty }

        /// Sets the minimum version of TLS and the proxy.
        ///
        /// - Throws: ``ChappieTransportError`` with code `.proxyFailed` for a kind of proxy that the system doesn't
        ///   support.
        func apply(
            to configuration: URLSessionConfiguration, proxy: ProxySelection?, for origin: Origin
        ) throws(ChappieTransportError) {
            configuration.tlsMinimumSupportedProtocolVersion = minimumTLS
            if let proxy {
                configuration.proxyConfigurations = [try proxyConfiguration(proxy, for: origin)]
            } else if ignoresSystemProxies {
                // An empty dictionary disables the system's own settings.
                configuration.connectionProxyDictionary = [:]
            }
        }

        /// Returns the parameters of a connection to `origin` for a WebSocket.
        ///
        /// - Throws: ``ChappieTransportError`` with code `.proxyFailed` for a kind of proxy that the system doesn't
        ///   support.
        func parameters(
            proxy: ProxySelection?, for origin: Origin
        ) throws(ChappieTransportError) -> NWParameters {
            let tcp = NWProtocolTCP.Options()
            // A small frame must not wait until the peer has acknowledged the last one.
            tcp.noDelay = true
            let tls = origin.scheme == .https ? tlsOptions(with: origin.host) : nil
            if let tls {
                // The opening handshake is HTTP/1.1 (RFC 6455, 4.1).
                sec_protocol_options_add_tls_application_protocol(tls.securityProtocolOptions, "http/1.1")
            }
            let parameters = NWParameters(tls: tls, tcp: tcp)
            if let proxy {
                let context = NWParameters.PrivacyContext(description: "Chappie")
                context.proxyConfigurations = [try proxyConfiguration(proxy, for: origin)]
                parameters.setPrivacyContext(context)
            } else {
                parameters.preferNoProxies = ignoresSystemProxies
            }
            return parameters
        }

        private func proxyConfiguration(
            _ proxy: ProxySelection, for origin: Origin
        ) throws(ChappieTransportError) -> ProxyConfiguration {
            guard let port = NWEndpoint.Port(rawValue: UInt16(proxy.port)) else {
                throw .unavailable("the proxy's port can't be used", host: origin.label)
            }
            let endpoint = NWEndpoint.hostPort(host: NWEndpoint.Host(proxy.host), port: port)
            var setting: ProxyConfiguration
            switch proxy.scheme {
            case "http": setting = ProxyConfiguration(httpCONNECTProxy: endpoint, tlsOptions: nil)
            case "https":
                setting = ProxyConfiguration(httpCONNECTProxy: endpoint, tlsOptions: tlsOptions(with: proxy.host))
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
            return setting
        }

        // MARK: Trust

        /// Returns the options of TLS with `host`, a server or a proxy.
        private func tlsOptions(with host: String) -> NWProtocolTLS.Options {
            let options = NWProtocolTLS.Options()
            sec_protocol_options_set_min_tls_protocol_version(options.securityProtocolOptions, minimumTLS)
            guard !authorities.isEmpty else { return options }
            let name = host.filter { !"[]".contains($0) }
            sec_protocol_options_set_verify_block(
                options.securityProtocolOptions,
                { _, trust, complete in
                    let trust = sec_trust_copy_ref(trust).takeRetainedValue()
                    // The block replaces the system's check, so it also names the host.
                    let policy = SecPolicyCreateSSL(true, NSString(string: name) as CFString)
                    complete(SecTrustSetPolicies(trust, policy) == errSecSuccess && accepts(trust))
                },
                // The system may ask the network for a missing certificate.
                .global())
            return options
        }

        /// Returns the answer to a challenge. The system checks the server's certificate, with the extra authorities if
        /// there are any. No other challenge is answered. A 401 is a response, and no credential of the device is sent
        /// automatically.
        func answer(
            to challenge: URLAuthenticationChallenge
        ) -> (URLSession.AuthChallengeDisposition, URLCredential?) {
            guard let trust = challenge.protectionSpace.serverTrust else { return (.rejectProtectionSpace, nil) }
            guard !authorities.isEmpty else { return (.performDefaultHandling, nil) }
            guard accepts(trust) else { return (.cancelAuthenticationChallenge, nil) }
            return (.useCredential, URLCredential(trust: trust))
        }

        /// Returns whether the system trusts a certificate, with the extra authorities in addition to its own.
        private func accepts(_ trust: SecTrust) -> Bool {
            let certificates = NSArray(array: authorities.compactMap(Self.certificate))
            return SecTrustSetAnchorCertificates(trust, certificates as CFArray) == errSecSuccess
                && SecTrustSetAnchorCertificatesOnly(trust, false) == errSecSuccess
                && SecTrustEvaluateWithError(trust, nil)
        }
    }

    extension URLSessionTask: SessionTask {
        func begin() { resume() }
        func hold() { suspend() }
        func proceed() { resume() }
    }
#endif
